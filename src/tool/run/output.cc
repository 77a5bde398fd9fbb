#include "tool/run/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tool/run/shown_text.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(std::string_view what, std::string_view path, int error) {
  return absl::UnavailableError(fmt::format("{} {}: {}", what, path, std::strerror(error)));
}

// Where links lead. Those that lead to what a process has open (/dev/stdout) are not followed.
fs::path Followed(const std::string& path) {
  constexpr int kMostLinks = 40;
  fs::path target = path;
  std::error_code error;
  for (int links = 0; links < kMostLinks && fs::is_symlink(target, error); ++links) {
    const std::string whole = fs::absolute(target, error).lexically_normal().string();
    if (whole.starts_with("/dev/") || whole.starts_with("/proc/")) break;
    target = target.parent_path() / fs::read_symlink(target, error);
  }
  return target;
}

// The place that a whole file is to take; empty: what is there is no regular file.
std::string Replaced(const std::string& path) {
  const fs::path target = Followed(path);
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target, error);
  return fs::exists(status) && !fs::is_regular_file(status) ? "" : target.string();
}

// A new file beside `target`, with its owner and permissions; null, and errno says why.
std::FILE* MakeTemporary(const std::string& target, std::string& name) {
  struct stat old = {};
  const bool replaces = stat(target.c_str(), &old) == 0;
  if (replaces && access(target.c_str(), W_OK) != 0) return nullptr;
  constexpr std::size_t kNameKept = 100;  // of the end: names have at most 255 bytes
  const fs::path path = target;
  const std::string own = path.filename().string();
  int descriptor = -1;
  for (int number = 0; number < 100; ++number) {
    const std::string end = own.substr(own.size() - std::min(own.size(), kNameKept));
    name = (path.parent_path() / fmt::format(".takt-{}-{}-{}", getpid(), number, end)).string();
    descriptor = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) break;
  }
  if (descriptor < 0) return nullptr;
  if (replaces) {
    [[maybe_unused]] const int given = fchown(descriptor, old.st_uid, old.st_gid);  // to others only by root
    fchmod(descriptor, old.st_mode & 0777);
  }
  return fdopen(descriptor, "wb");
}

bool SameFile(std::string_view a, std::string_view b) {
  std::error_code error;
  if (fs::is_character_file(a, error)) return false;
  if (a == b) return true;
  if (fs::exists(a, error) && fs::exists(b, error)) return fs::equivalent(a, b, error);
  const auto whole = [&error](std::string_view path) {
    return fs::weakly_canonical(fs::absolute(Followed(std::string(path)), error), error);
  };
  return whole(a) == whole(b);
}

}  // namespace

absl::Status ShowText(std::FILE* stream, std::string_view text) {
  if (std::fputs(ShownInColour(text).c_str(), stream) >= 0 && std::fflush(stream) == 0) return absl::OkStatus();
  return absl::UnavailableError("cannot write the table");
}

void Note(std::string_view line) { std::fputs((ShownLines(line) + "\n").c_str(), stderr); }

bool IsStdout(std::string_view path) { return path == "-"; }

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path, Mode mode) {
  if (path.empty()) return OutputFile(nullptr, "");
  if (IsStdout(path)) return OutputFile(stdout, "standard output");
  const std::string target = mode == Mode::kWhole ? Replaced(path) : "";
  std::string temporary;
  std::FILE* file = target.empty() ? std::fopen(path.c_str(), "wb") : MakeTemporary(target, temporary);
  if (file == nullptr) return SystemError("cannot write", path, errno);
  if (target.empty()) return OutputFile(file, path);
  // Made again when there is something to write: what is killed before leaves nothing behind.
  std::fclose(file);
  unlink(temporary.c_str());
  return OutputFile(nullptr, path, target);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      target_(std::exchange(other.target_, "")),
      temporary_(std::exchange(other.temporary_, "")),
      status_(std::move(other.status_)) {}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

// Whether there is anything to write to.
bool OutputFile::Begin() {
  if (!status_.ok()) return false;
  if (file_ != nullptr || target_.empty()) return file_ != nullptr;
  file_ = MakeTemporary(target_, temporary_);
  if (file_ != nullptr) return true;
  temporary_.clear();
  NoteError();
  return false;
}

void OutputFile::Write(std::string_view text) {
  if (Begin() && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) NoteError();
}

void OutputFile::WriteBy(const std::function<absl::Status(const std::string& path)>& write) {
  if (!Begin()) return;
  const std::string& at = temporary_.empty() ? path_ : temporary_;
  const absl::Status written = write(at);
  if (written.ok()) return;
  std::string message(written.message());  // of a file that the user has not named
  if (const std::size_t place = message.find(at); place != std::string::npos) message.replace(place, at.size(), path_);
  status_ = absl::Status(written.code(), message);
}

absl::Status OutputFile::Close() {
  Begin();  // a file without anything in it is one, too
  if (std::FILE* file = std::exchange(file_, nullptr)) {
    const auto check = [this](int result) {
      if (result != 0 && status_.ok()) NoteError();
    };
    check(std::fflush(file));
    // On the disk before it takes the other's place; some file systems know no such thing.
    if (!temporary_.empty() && status_.ok() && fsync(fileno(file)) != 0 && errno != EINVAL) NoteError();
    if (file != stdout) check(std::fclose(file));
  }
  const std::string target = std::exchange(target_, ""), temporary = std::exchange(temporary_, "");
  if (temporary.empty()) return status_;
  if (!status_.ok()) unlink(temporary.c_str());
  else if (std::rename(temporary.c_str(), target.c_str()) != 0) {
    status_ = SystemError("cannot replace", fmt::format("{} (the new one is {})", path_, temporary), errno);
  }
  return status_;
}

void OutputFile::NoteError() { status_ = SystemError("cannot write", path_, errno); }

absl::Status CheckPaths(std::span<const NamedPath> inputs, std::span<const NamedPath> outputs) {
  const auto fault = [](std::string_view format, const NamedPath& a, const NamedPath& b) {
    return absl::InvalidArgumentError(fmt::format(fmt::runtime(format), a.name, b.name, b.path));
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (const NamedPath& other : inputs.subspan(i + 1)) {
      if (!IsStdout(inputs[i].path) || !IsStdout(other.path)) continue;
      return fault("only one file can come from standard input, not {} and {}", inputs[i], other);
    }
  }
  std::error_code ignored;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const NamedPath& out = outputs[i];
    if (out.path.empty()) continue;
    for (const NamedPath& other : outputs.subspan(i + 1)) {
      if (other.path.empty() || IsStdout(out.path) != IsStdout(other.path)) continue;
      if (IsStdout(out.path)) return fault("only one file can go to standard output, not {} and {}", out, other);
      if (SameFile(out.path, other.path)) return fault("{} and {} are the same file, {}", out, other);
    }
    if (IsStdout(out.path)) continue;
    for (const NamedPath& in : inputs) {
      if (in.path.empty() || IsStdout(in.path) || !fs::exists(in.path, ignored)) continue;
      if (SameFile(in.path, out.path)) return fault("{} and {} are the same file, {}", in, out);
    }
  }
  return absl::OkStatus();
}

std::string InputName(const std::string& path) { return IsStdout(path) ? "standard input" : path; }

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{4} << 30;
  std::FILE* file = IsStdout(path) ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr) return SystemError("cannot read", path, errno);
  std::string text;
  std::array<char, 65536> buffer;
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file)) {
    if (text.append(buffer.data(), got).size() > kMost) break;
  }
  const int error = std::ferror(file) != 0 ? errno : 0;
  if (file != stdin) std::fclose(file);
  if (error != 0) return SystemError("cannot read", InputName(path), error);
  if (text.size() > kMost) {
    return absl::ResourceExhaustedError(fmt::format("{}: holds more than {} bytes", InputName(path), kMost));
  }
  return text;
}

}  // namespace takt::tool
