#include "cli/output.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "fmt/format.h"

namespace takt::cli {
namespace {

absl::Status SystemError(std::string_view what, std::string_view path, int error) {
  return absl::UnavailableError(fmt::format("{} {}: {}", what, path, std::strerror(error)));
}

}  // namespace

bool IsStdout(std::string_view path) { return path == "-"; }

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path) {
  if (IsStdout(path)) return OutputFile(stdout, "standard output");
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return SystemError("cannot write", path, errno);
  return OutputFile(file, path);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)), path_(std::move(other.path_)), status_(std::move(other.status_)) {}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void OutputFile::Write(std::string_view text) {
  if (file_ == nullptr || !status_.ok()) return;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) NoteError();
}

absl::Status OutputFile::Close() {
  std::FILE* file = std::exchange(file_, nullptr);
  if (file == nullptr) return status_;
  const int failed = file == stdout ? std::fflush(file) : std::fclose(file);
  if (failed != 0 && status_.ok()) NoteError();
  return status_;
}

void OutputFile::NoteError() { status_ = SystemError("cannot write", path_, errno); }

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::FILE* file = IsStdout(path) ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) return SystemError("cannot read", path, errno);
  std::string text;
  std::array<char, 65536> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), got);
  const int error = std::ferror(file) != 0 ? errno : 0;
  if (file != stdin) std::fclose(file);
  if (error != 0) return SystemError("cannot read", path, error);
  return text;
}

}  // namespace takt::cli
