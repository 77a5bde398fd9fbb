// Rebuilds the third trace of HexGen-Flow, with queries of both databases.
#ifndef TAKT_BENCH_LAB_HEXGEN_BOTH_DATABASES_H_
#define TAKT_BENCH_LAB_HEXGEN_BOTH_DATABASES_H_

#include "absl/status/statusor.h"
#include "takt/workload/workload.h"

namespace takt::tool {

// Returns a trace with the published properties of Trace 3: queries of both databases, 0 to 10 revisions, ten queries
// of each. Each number of revisions has five queries of the traces, alternately of each database. Without such a query,
// those with one revision fewer get one more. The second half repeats the first, as in the authors' traces. Arrivals
// are zero. Fails if the traces do not merge.
absl::StatusOr<Workload> BothDatabases(const Workload& first, const Workload& second);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_HEXGEN_BOTH_DATABASES_H_
