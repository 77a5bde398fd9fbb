// Files that a command writes of what it has found, and its table.
#ifndef TAKT_SRC_CLI_WRITE_REPORTS_H_
#define TAKT_SRC_CLI_WRITE_REPORTS_H_

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/output.h"

namespace takt::cli {

// Every file is tried; the first error is told. Reports: {path, a member of `run.arguments`; write(run), its text}.
// `stream`: where the table may go then, standard error where a report took standard output.
template <class Run, class Reports>
absl::Status WriteReports(const Run& run, const Reports& reports, std::FILE*& stream) {
  absl::Status fault;
  stream = stdout;
  for (const auto& report : reports) {
    const std::string& path = run.arguments.*report.path;
    if (path.empty()) continue;
    if (IsStdout(path)) stream = stderr;
    absl::StatusOr<OutputFile> out = OutputFile::Open(path);
    if (out.ok()) out->Write(report.write(run));
    fault.Update(out.ok() ? out->Close() : out.status());
  }
  return fault;
}

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_WRITE_REPORTS_H_
