// The files that a comparison is written to, as a command line names them.
#ifndef TAKT_SRC_TOOL_COMMAND_REPORT_FILES_H_
#define TAKT_SRC_TOOL_COMMAND_REPORT_FILES_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tool/command/arguments.h"
#include "tool/report/comparison.h"
#include "tool/run/output.h"

namespace takt::tool {

// For CheckPaths.
std::vector<NamedPath> ReportPaths(const ReplayArguments& arguments);

// As those of write_reports.h; with the text, unless it is to be quiet.
absl::StatusOr<std::vector<OutputFile>> OpenReports(const ReplayArguments& arguments);
absl::Status WriteReports(const Comparison& comparison, const ReplayArguments& arguments,
                          std::vector<OutputFile>& files);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_REPORT_FILES_H_
