// Writes the report files of a command.
#ifndef TAKT_SRC_TOOL_COMMAND_WRITE_REPORTS_H_
#define TAKT_SRC_TOOL_COMMAND_WRITE_REPORTS_H_

#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tool/run/output.h"
#include "tool/run/terminal.h"

namespace takt::tool {

// One report of a command: its option, the argument that holds its path, and the function that makes its text.
template <class Arguments, class Run>
struct ReportOf {
  const char* name;
  std::string Arguments::* path;
  std::string (*write)(const Run&);
};

// Reports: all of a command, each a ReportOf or of the same form. write(run, file) may replace the text.

// Returns the paths for CheckPaths.
template <class Arguments, class Reports>
std::vector<NamedPath> PathsOf(const Arguments& arguments, const Reports& reports) {
  std::vector<NamedPath> paths;
  for (const auto& report : reports) paths.push_back({report.name, arguments.*report.path});
  return paths;
}

// Opens a file for each report before long work begins, so that an unwritable path fails at once.
template <class Arguments, class Reports>
absl::StatusOr<std::vector<OutputFile>> OpenReports(const Arguments& arguments, const Reports& reports) {
  std::vector<OutputFile> files;
  for (const auto& report : reports) {
    absl::StatusOr<OutputFile> file = OutputFile::Open(arguments.*report.path);
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
  }
  return files;
}

// Writes every file, then shows text(colour) unless the command is quiet. The text goes to standard error if a report
// uses standard output. Returns the first error.
template <class Run, class Arguments, class Reports, class Text>
absl::Status WriteReports(const Run& run, const Arguments& arguments, const Reports& reports,
                          std::vector<OutputFile>& files, bool quiet, Text text) {
  absl::Status fault;
  std::FILE* stream = stdout;
  std::size_t i = 0;
  for (const auto& report : reports) {
    OutputFile& file = files[i++];
    const std::string& path = arguments.*report.path;
    if (path.empty()) continue;
    if (IsStdout(path)) stream = stderr;
    if constexpr (requires { report.write(run, file); }) report.write(run, file);
    else file.Write(report.write(run));
    fault.Update(file.Close());
  }
  if (!quiet) fault.Update(ShowText(stream, text(run, WantsColour(stream))));
  return fault;
}

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_WRITE_REPORTS_H_
