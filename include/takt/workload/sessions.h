// Sessions of an agent or a chat as a load with arrival times; the cacheable part of each prompt.
#ifndef TAKT_WORKLOAD_SESSIONS_H_
#define TAKT_WORKLOAD_SESSIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/time.h"
#include "takt/workload/workload.h"

namespace takt {

// Exactly one of `rate` and `closed_loop` must be positive.
struct SessionLoad {
  double rate = 0;               // Poisson arrivals [sessions per second]
  std::int64_t closed_loop = 0;  // number of concurrent sessions; the workload contains enough sessions to keep it
  Duration horizon{0};  // time of the last arrival; must be positive
  Duration think_cap = kMaxWorkloadTime;  // upper limit of the delays of calls
  std::uint64_t seed = 1;
};

// Draws workflows of `from` in random order as such a load. Each workflow is drawn once before any is drawn again, then
// in a new order. A repeated workflow has its own prefix runs. InvalidArgument: an invalid load, or over ten million
// calls.
absl::StatusOr<Workload> DrawSessions(const Workload& from, const SessionLoad& load);

// Returns for each call the number of prompt tokens in an infinite cache if calls arrive in the order of the workload.
// The last token of a prompt is always computed.
std::vector<std::int32_t> TokensEverCached(const Workload& workload);

}  // namespace takt

#endif  // TAKT_WORKLOAD_SESSIONS_H_
