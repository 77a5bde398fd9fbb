// What a tool's --workload names.
#ifndef TAKT_SRC_CLI_LOAD_WORKLOAD_H_
#define TAKT_SRC_CLI_LOAD_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "takt/workload/workload.h"

namespace takt::cli {

// The file, the bundled workload or a generated one. Notes on lines that were skipped and the like go to standard
// error.
absl::StatusOr<Workload> LoadWorkload(const WorkloadArguments& arguments);

// Says on standard error how many lines of a file were skipped, and of the first few why; nothing where none was.
void NoteBadLines(const std::string& file, std::int64_t lines, const std::vector<std::string>& messages);

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_LOAD_WORKLOAD_H_
