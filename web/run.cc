// The room tool/run in a page: runs follow each other, and files are in memory. A page that cancels ends its worker.
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "tool/run/output.h"
#include "tool/run/progress_bar.h"
#include "tool/run/runner.h"
#include "tool/run/shown_text.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"

// Tells the page the completed share of the work, from 0 to 1.
extern "C" __attribute__((import_module("takt"), import_name("progress"))) void takt_progress(double share);

namespace takt::tool {

// ---- terminal.h ----

bool IsTerminal(std::FILE*) { return false; }
bool WantsColour(std::FILE*) { return false; }
void CatchInterrupts() {}
bool Interrupted() { return false; }

// ---- progress_bar.h ----

ProgressBar::ProgressBar(bool) : shown_(true) {}
void ProgressBar::Show(double share, std::string_view, std::span<const std::string>) { takt_progress(share); }
void ProgressBar::Clear() {}

// ---- runner.h ----

void RunEach(std::size_t runs, int, std::string_view what, ProgressBar& bar,
             const std::function<void(std::size_t, const RunProgress&)>& work,
             const std::function<std::vector<std::string>()>&) {
  for (std::size_t run = 0; run < runs; ++run) {
    work(run, [&, run](double done) {
      bar.Show((static_cast<double>(run) + done) / static_cast<double>(runs), what);
      return true;
    });
  }
}

void RunAll(std::span<ReplayTask> tasks, int threads, std::string_view what, ProgressBar& bar, const OnRun& on_run) {
  RunEach(tasks.size(), threads, what, bar, [&](std::size_t run, const RunProgress& progress) {
    tasks[run].options.cluster.progress = progress;
    on_run(run, Replay(*tasks[run].workload, tasks[run].options), 0);
  });
}

// ---- output.h ----

absl::Status ShowText(std::FILE* stream, std::string_view text) {
  std::fputs(ShownInColour(text).c_str(), stream);
  return absl::OkStatus();
}

void Note(std::string_view line) { std::fputs((ShownLines(line) + "\n").c_str(), stderr); }

bool IsStdout(std::string_view path) { return path == "-"; }

absl::StatusOr<OutputFile> OutputFile::Open(const std::string& path, Mode) {
  if (path.empty()) return OutputFile(nullptr, "");
  if (IsStdout(path)) return OutputFile(stdout, "standard output");
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return absl::UnavailableError("cannot write " + path);
  return OutputFile(file, path);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)), path_(std::move(other.path_)), status_(std::move(other.status_)) {}

OutputFile::~OutputFile() {
  if (file_ != nullptr && file_ != stdout) std::fclose(file_);
}

void OutputFile::Write(std::string_view text) {
  if (file_ != nullptr && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) NoteError();
}

void OutputFile::WriteBy(const std::function<absl::Status(const std::string& path)>& write) { status_ = write(path_); }

absl::Status OutputFile::Close() {
  if (std::FILE* file = std::exchange(file_, nullptr)) {
    if (std::fflush(file) != 0) NoteError();
    if (file != stdout) std::fclose(file);
  }
  return status_;
}

void OutputFile::NoteError() { status_ = absl::UnavailableError("cannot write " + path_); }

absl::Status CheckPaths(std::span<const NamedPath>, std::span<const NamedPath>) { return absl::OkStatus(); }

std::string InputName(const std::string& path) { return path; }

}  // namespace takt::tool
