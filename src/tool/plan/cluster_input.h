// Reads the input of `takt cluster`.
#ifndef TAKT_SRC_TOOL_PLAN_CLUSTER_INPUT_H_
#define TAKT_SRC_TOOL_PLAN_CLUSTER_INPUT_H_

#include <string>

#include "absl/status/statusor.h"
#include "takt/planning/cluster_milp.h"

namespace takt::tool {

// Reads a problem from a JSON file (docs/howto/milp.md). Errors name file, entry and field.
absl::StatusOr<ClusterProblem> ReadClusterProblem(const std::string& path);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_PLAN_CLUSTER_INPUT_H_
