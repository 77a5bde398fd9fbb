// What a tool's --workload names.
#ifndef TAKT_SRC_CLI_LOAD_WORKLOAD_H_
#define TAKT_SRC_CLI_LOAD_WORKLOAD_H_

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "takt/workload/workload.h"

namespace takt::cli {

// The file, the bundled workload or a generated one. Notes on lines that were skipped and the like go to standard
// error.
absl::StatusOr<Workload> LoadWorkload(const WorkloadArguments& arguments);

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_LOAD_WORKLOAD_H_
