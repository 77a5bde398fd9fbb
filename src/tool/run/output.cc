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

// Follows links, except links to a process's open files (/dev/stdout).
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

// Returns the path that a whole file will replace; empty if the target is not a regular file.
std::string Replaced(const std::string& path) {
  const fs::path target = Followed(path);
  std::error_code error;
  const fs::file_status status = fs::symlink_status(target, error);
  return fs::exists(status) && !fs::is_regular_file(status) ? "" : target.string();
}

// Creates a new file in the folder of `target`, with its owner and permissions. Returns null and sets errno on failure.
std::FILE* MakeTemporary(const std::string& target, std::string& name) {
  struct stat old = {};
  const bool replaces = stat(target.c_str(), &old) == 0;
  if (replaces && access(target.c_str(), W_OK) != 0) return nullptr;
  constexpr std::size_t kNameKept = 100;  // last bytes of the name; file systems allow at most 255
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
    [[maybe_unused]] const int given =
        fchown(descriptor, old.st_uid, old.st_gid);  // only root can give a file to another owner
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
  // The file is created again at the first write, so that a process killed before then leaves no file.
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

// Opens the file. Returns whether it can be written.
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
  std::string message(written.message());  // a message about a file that the user did not name
  if (const std::size_t place = message.find(at); place != std::string::npos) message.replace(place, at.size(), path_);
  status_ = absl::Status(written.code(), message);
}

absl::Status OutputFile::Close() {
  Begin();  // an empty file is a result, too
  if (std::FILE* file = std::exchange(file_, nullptr)) {
    const auto check = [this](int result) {
      if (result != 0 && status_.ok()) NoteError();
    };
    check(std::fflush(file));
    // Syncs to disk before the file replaces the other one. Some file systems do not support fsync.
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
      return fault("{} and {}: both read standard input; expected at most one", inputs[i], other);
    }
  }
  std::error_code ignored;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const NamedPath& out = outputs[i];
    if (out.path.empty()) continue;
    for (const NamedPath& other : outputs.subspan(i + 1)) {
      if (other.path.empty() || IsStdout(out.path) != IsStdout(other.path)) continue;
      if (IsStdout(out.path)) return fault("{} and {}: both write standard output; expected at most one", out, other);
      if (SameFile(out.path, other.path))
        return fault("{} and {}: are the same file, {}; expected different files", out, other);
    }
    if (IsStdout(out.path)) continue;
    for (const NamedPath& in : inputs) {
      if (in.path.empty() || IsStdout(in.path) || !fs::exists(in.path, ignored)) continue;
      if (SameFile(in.path, out.path))
        return fault("{} and {}: are the same file, {}; expected different files", in, out);
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
    return absl::ResourceExhaustedError(
        fmt::format("{}: is too large; expected at most {} bytes", InputName(path), kMost));
  }
  return text;
}

}  // namespace takt::tool
