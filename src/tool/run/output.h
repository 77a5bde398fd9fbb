// Writes files and reports their errors.
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

// A file, standard output for "-", or nothing for an empty path. Errors are kept until Close.
class OutputFile {
 public:
  enum class Mode {
    kWhole,  // the old file stays until Close replaces it at once
    kGrowing,  // the old file is emptied; flushed data survives if the process dies, as a log needs
  };

  // Opens a file. Fails at once if it is not writable; only a full disk shows later. A device or pipe grows in any
  // mode. Links are followed. Unavailable has the system's message.
  static absl::StatusOr<OutputFile> Open(const std::string& path, Mode mode = Mode::kWhole);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // without Close, no file appears

  void Write(std::string_view text);

  // Replaces Write: `write` makes the file at the given path. The path's extension is that of the final file.
  void WriteBy(const std::function<absl::Status(const std::string& path)>& write);

  // Finishes the file and moves it into place, or returns the first error.
  absl::Status Close();

 private:
  OutputFile(std::FILE* file, std::string path, std::string target = "")
      : file_(file), path_(std::move(path)), target_(std::move(target)) {}
  bool Begin();
  void NoteError();

  std::FILE* file_;
  std::string path_;  // as the user gave it
  std::string target_;  // after following links; empty: no file is replaced
  std::string temporary_;  // file written until Close, in the same folder
  absl::Status status_;
};

bool IsStdout(std::string_view path);

// Writes a command's text at once, filtered by ShownInColour.
absl::Status ShowText(std::FILE* stream, std::string_view text);

// Writes a line to standard error.
void Note(std::string_view line);

// A path and its name on the command line. An empty path means no file.
struct NamedPath {
  std::string_view name, path;
};

// Returns InvalidArgument with both names if two outputs, or an input and an output, are the same file. Devices such as
// /dev/null may be shared. At most one output may use standard output, and at most one input standard input.
absl::Status CheckPaths(std::span<const NamedPath> inputs, std::span<const NamedPath> outputs);

// Returns the name of an input for messages: "standard input" for "-".
std::string InputName(const std::string& path);

// Returns the whole file unchanged; "-" is standard input.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_RUN_OUTPUT_H_
