// A workload as takt's own workflow JSONL, which the reader takes back unchanged (docs/reference/workloads.md).
#ifndef TAKT_WORKLOAD_WRITE_H_
#define TAKT_WORKLOAD_WRITE_H_

#include <string>

#include "absl/status/status.h"
#include "takt/workload/workload.h"

namespace takt {

// A line with the name and the block size, then one workflow per line. What is at its default is left out. Reading it
// back gives an equal workload where Tidied(workload) == workload (workload/transform.h); times are exact to the
// nanosecond up to 26 days, beyond that to a double's precision.
std::string ToJsonl(const Workload& workload);

// The same into a file, packed with gzip where the path ends in ".gz". Unavailable with what the system says.
absl::Status WriteWorkload(const Workload& workload, const std::string& path);

}  // namespace takt

#endif  // TAKT_WORKLOAD_WRITE_H_
