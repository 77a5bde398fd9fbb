// Paths of the files that a comparison is written to.
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

// Returns the paths for CheckPaths.
std::vector<NamedPath> ReportPaths(const ReportFiles& wanted);

// Opens the report files; see write_reports.h. Includes the text unless the command is quiet.
absl::StatusOr<std::vector<OutputFile>> OpenReports(const ReportFiles& wanted);
absl::Status WriteReports(const Comparison& comparison, const ReportFiles& wanted, std::vector<OutputFile>& files);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_REPORT_FILES_H_
