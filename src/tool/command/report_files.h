// The files that a comparison is written to, as a command line names them.
#ifndef TAKT_SRC_TOOL_COMMAND_REPORT_FILES_H_
#define TAKT_SRC_TOOL_COMMAND_REPORT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tool/report/comparison.h"
#include "tool/run/output.h"

namespace takt::tool {

struct ReportFiles {
  std::string json, csv, csv_summary, html, perfetto;
  std::int64_t perfetto_limit = 300;  // requests
  bool no_wall = false;
  bool quiet = false;
};

// For CheckPaths.
std::vector<NamedPath> ReportPaths(const ReportFiles& wanted);

// As those of write_reports.h; with the text, unless it is to be quiet.
absl::StatusOr<std::vector<OutputFile>> OpenReports(const ReportFiles& wanted);
absl::Status WriteReports(const Comparison& comparison, const ReportFiles& wanted, std::vector<OutputFile>& files);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_REPORT_FILES_H_
