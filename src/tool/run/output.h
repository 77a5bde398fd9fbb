// Files that are written, and what went wrong with them.
#ifndef TAKT_SRC_TOOL_RUN_OUTPUT_H_
#define TAKT_SRC_TOOL_RUN_OUTPUT_H_

#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace takt::tool {

// A file, standard output for "-", or nothing for an empty path. What goes wrong is kept until Close.
class OutputFile {
 public:
  enum class Mode {
    kWhole,    // what the path names stays as it is until Close, and is then replaced at once
    kGrowing,  // it is emptied, and holds all that was flushed: a log tells something even where it was cut off
  };

  // Whether it can be written is known now, but for the room that it takes. What is no regular file (a device, a pipe)
  // grows in any mode; links are followed. Unavailable with what the system says.
  static absl::StatusOr<OutputFile> Open(const std::string& path, Mode mode = Mode::kWhole);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // where it was not closed, it was never there

  void Write(std::string_view text);

  // Instead of Write: `write` makes the file at the path that it is given, which ends as the file's own.
  void WriteBy(const std::function<absl::Status(const std::string& path)>& write);

  // Everything is written and in its place, or the error says why it is not.
  absl::Status Close();

 private:
  OutputFile(std::FILE* file, std::string path, std::string target = "")
      : file_(file), path_(std::move(path)), target_(std::move(target)) {}
  bool Begin();
  void NoteError();

  std::FILE* file_;
  std::string path_;  // as the user has it
  std::string target_;  // where links lead; empty: nothing is to be replaced
  std::string temporary_;  // what is written until then, in the same folder
  absl::Status status_;
};

bool IsStdout(std::string_view path);

// Writes a command's own text, at once, as ShownInColour has it.
absl::Status ShowText(std::FILE* stream, std::string_view text);

// Writes a line to standard error.
void Note(std::string_view line);

// A path, and what the command line calls it. An empty path is none.
struct NamedPath {
  std::string_view name, path;
};

// InvalidArgument, with both names: two outputs, or an input and an output, are one file (devices such as /dev/null may
// be); more than one output goes to standard output, or more than one input is to come from standard input.
absl::Status CheckPaths(std::span<const NamedPath> inputs, std::span<const NamedPath> outputs);

// How an input is called in what is said of it: "standard input" for "-".
std::string InputName(const std::string& path);

// The whole file, as it is; standard input for "-".
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_OUTPUT_H_
