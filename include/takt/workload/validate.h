// Whether a workload keeps the promises of workload.h: for those who build one by hand.
#ifndef TAKT_WORKLOAD_VALIDATE_H_
#define TAKT_WORKLOAD_VALIDATE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "takt/workload/workload.h"

namespace takt {

// The first broken promise, by workflow and field: `workflows[3]: calls[2] (stage "coder"): output_tokens: 0 is below
// 1`. The readers, the generators and the transformations yield only workloads that pass. O(size).
absl::Status Validate(const Workload& workload);

// The same for one workflow; the order of arrivals is not looked at.
absl::Status ValidateWorkflow(const Workload& workload, std::size_t index);

}  // namespace takt

#endif  // TAKT_WORKLOAD_VALIDATE_H_
