// Writes a workload as takt's own JSONL, which the reader reads back unchanged (docs/reference/workloads.md).
#ifndef TAKT_WORKLOAD_WRITE_H_
#define TAKT_WORKLOAD_WRITE_H_

#include <string>

#include "absl/status/status.h"
#include "takt/workload/workload.h"

namespace takt {

// Returns one line with name and block size, then one workflow per line. Fields at their defaults are omitted. Reading
// gives an equal workload if Tidied(workload) == workload (workload/transform.h). Times up to 26 days are exact to the
// nanosecond; later times have a double's precision.
std::string ToJsonl(const Workload& workload);

// Writes a file, compressed with gzip if the path ends in ".gz". Unavailable: the system's error.
absl::Status WriteWorkload(const Workload& workload, const std::string& path);

}  // namespace takt

#endif  // TAKT_WORKLOAD_WRITE_H_
