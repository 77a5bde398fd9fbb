// Checks that code in the documentation is code of the examples.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "catch.h"

namespace takt {
namespace {

const std::filesystem::path kRoot = TAKT_SOURCE_DIR;

std::string Read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Snippet {
  std::string file;                 // file that contains it
  std::vector<std::string> pieces;  // text between lines of "..."
};

// The blocks that name a file: ```cpp FILE ```c FILE, or ```python FILE.
std::vector<Snippet> SnippetsOf(const std::string& markdown) {
  std::vector<Snippet> snippets;
  std::istringstream lines(markdown);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("```cpp ") && !line.starts_with("```c ") && !line.starts_with("```python ")) continue;
    Snippet snippet{line.substr(line.find(' ') + 1), {""}};
    while (std::getline(lines, line) && line != "```") {
      if (line == "...") {
        snippet.pieces.emplace_back();
      } else {
        snippet.pieces.back() += line + "\n";
      }
    }
    snippets.push_back(snippet);
  }
  return snippets;
}

// Returns the first piece that does not follow the others in the text; empty if all do.
std::string Missing(const std::vector<std::string>& pieces, const std::string& text) {
  std::size_t at = 0;
  for (const std::string& piece : pieces) {
    at = text.find(piece, at);
    if (piece.empty() || at == std::string::npos) return piece.empty() ? "an empty piece" : piece;
    at += piece.size();
  }
  return "";
}

// The pages of the documentation and the README.
std::vector<std::filesystem::path> Pages() {
  std::vector<std::filesystem::path> pages = {kRoot / "README.md"};
  for (const auto& page : std::filesystem::recursive_directory_iterator(kRoot / "docs"))
    if (page.path().extension() == ".md") pages.push_back(page.path());
  return pages;
}

TEST_CASE("code in the documentation is in the examples word for word") {
  CHECK(SnippetsOf("```cpp a.cc\nx\n...\ny\n```\n```cpp\nz\n```\n```c a.c\n```\n").size() == 2);
  CHECK(Missing({"a\n", "c\n"}, "a\nb\nc\n").empty());
  CHECK(Missing({"c\n", "a\n"}, "a\nb\nc\n") == "a\n");
  int count = 0;
  for (const std::filesystem::path& page : Pages()) {
    for (const Snippet& snippet : SnippetsOf(Read(page))) {
      ++count;
      const std::string source = Read(kRoot / snippet.file);
      UNSCOPED_INFO(page << ": " << snippet.file);
      CHECK_FALSE(source.empty());
      CHECK(Missing(snippet.pieces, source) == "");
    }
  }
  CHECK(count >= 10);
}

TEST_CASE("the README's host loop is quoted from an example, in 20 lines") {
  const std::vector<Snippet> snippets = SnippetsOf(Read(kRoot / "README.md"));
  REQUIRE(snippets.size() == 1);
  CHECK(snippets.front().file == "examples/step_loop.cc");
  std::ptrdiff_t lines = static_cast<std::ptrdiff_t>(snippets.front().pieces.size()) - 1;  // lines of "..."
  for (const std::string& piece : snippets.front().pieces) lines += std::ranges::count(piece, '\n');
  CHECK(lines <= 20);
}

TEST_CASE("the guide's host in C is the whole tested one") {
  const std::vector<Snippet> snippets = SnippetsOf(Read(kRoot / "docs/howto/c.md"));
  REQUIRE(!snippets.empty());
  const Snippet& host = snippets.front();
  CHECK(host.file == "tests/c/host.c");
  REQUIRE(host.pieces.size() == 1);
  CHECK(host.pieces.front() == Read(kRoot / host.file));
  CHECK(std::ranges::count(host.pieces.front(), '\n') <= 40);
}

}  // namespace
}  // namespace takt
