// Checks the invariants of workload.h, for workloads that are built by hand.
#ifndef TAKT_WORKLOAD_VALIDATE_H_
#define TAKT_WORKLOAD_VALIDATE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "takt/workload/workload.h"

namespace takt {

// Returns the first violation, by workflow and field: `workflows[3]: calls[2] (stage "coder"): output_tokens: 0 is
// below 1`. Readers, generators and transformations return only valid workloads. O(size).
absl::Status Validate(const Workload& workload);

// Validates one workflow, without the order of arrivals.
absl::Status ValidateWorkflow(const Workload& workload, std::size_t index);

}  // namespace takt

#endif  // TAKT_WORKLOAD_VALIDATE_H_
