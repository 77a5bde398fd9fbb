// Files that are written, and what went wrong with them.
#ifndef TAKT_SRC_CLI_OUTPUT_H_
#define TAKT_SRC_CLI_OUTPUT_H_

#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace takt::cli {

// A file, or standard output for "-". What goes wrong is kept until Close.
class OutputFile {
 public:
  // Empties the file. Unavailable with what the system says.
  static absl::StatusOr<OutputFile> Open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  void Write(std::string_view text);

  // Everything is written, or the error says why it is not.
  absl::Status Close();

 private:
  OutputFile(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  void NoteError();

  std::FILE* file_;
  std::string path_;
  absl::Status status_;
};

bool IsStdout(std::string_view path);

// The whole file, as it is.
absl::StatusOr<std::string> ReadFile(const std::string& path);

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_OUTPUT_H_
