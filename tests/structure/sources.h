// Takt's own sources as texts, for tests that read them.
#ifndef TAKT_TESTS_STRUCTURE_SOURCES_H_
#define TAKT_TESTS_STRUCTURE_SOURCES_H_

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

namespace takt {

struct File {
  std::string path;  // from the project's root, with '/'
  std::string text;
};

using Found = std::vector<std::string>;
using Rule = std::function<Found(const File&)>;

inline bool StartsWith(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

inline std::string Read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<File> FilesUnder(const std::vector<std::string>& places,
                                    const std::vector<std::string>& extensions) {
  namespace fs = std::filesystem;
  const fs::path root = TAKT_SOURCE_DIR;
  std::vector<File> files;
  const auto add = [&](const fs::path& path) {
    const std::string extension = path.extension().string();
    if (std::find(extensions.begin(), extensions.end(), extension) == extensions.end()) return;
    files.push_back({fs::relative(path, root).generic_string(), Read(path)});
  };
  for (const std::string& place : places) {
    if (fs::is_regular_file(root / place)) add(root / place);
    if (!fs::is_directory(root / place)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / place)) {
      if (entry.is_regular_file()) add(entry.path());
    }
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.path < b.path; });
  return files;
}

// Returns the end of the comment, string or character literal that starts at `at`; `at` itself if none starts there.
inline std::size_t EndOfNonCode(const std::string& text, std::size_t at) {
  const auto after = [&](const std::string& end, std::size_t from) {
    const std::size_t found = text.find(end, from);
    return found == std::string::npos ? text.size() : found + end.size();
  };
  if (text.compare(at, 2, "//") == 0) return after("\n", at) - 1;
  if (text.compare(at, 2, "/*") == 0) return after("*/", at + 2);
  if (text.compare(at, 3, "R\"(") == 0) return after(")\"", at + 3);
  const bool digit_separator = text[at] == '\'' && at > 0 && std::isxdigit(static_cast<unsigned char>(text[at - 1]));
  if ((text[at] != '"' && text[at] != '\'') || digit_separator) return at;
  std::size_t end = at + 1;
  while (end < text.size() && text[end] != text[at]) end += text[end] == '\\' ? 2u : 1u;
  return std::min(end + 1, text.size());
}

inline std::string CodeOf(const std::string& text) {
  std::string code;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = EndOfNonCode(text, at);
    if (end == at) code += text[at++];
    else at = end;
  }
  return code;
}

}  // namespace takt

#endif  // TAKT_TESTS_STRUCTURE_SOURCES_H_
