// Sessions of turns (an agent's, a chat's) as a load: when each begins, and what a cache could know of its prompts.
#ifndef TAKT_WORKLOAD_SESSIONS_H_
#define TAKT_WORKLOAD_SESSIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/time.h"
#include "takt/workload/workload.h"

namespace takt {

// One of `rate` and `closed_loop` is positive.
struct SessionLoad {
  double rate = 0;               // Poisson arrivals [sessions per second]
  std::int64_t closed_loop = 0;  // so many at a time: as many sessions as can be begun, at least
  Duration horizon{0};           // nothing arrives from here on; more than zero
  Duration think_cap = kMaxWorkloadTime;  // delays of calls are cut to this
  std::uint64_t seed = 1;
};

// The workflows of `from` as such a load, in random order: each comes once before any comes again, in another order.
// One that comes again has prefix runs of its own. InvalidArgument for a load that is not one, or for more than ten
// million calls.
absl::StatusOr<Workload> DrawSessions(const Workload& from, const SessionLoad& load);

// By call: tokens of its prompt that a cache which forgets nothing has, if calls come in the order of the workload. The
// last token of a prompt is always computed.
std::vector<std::int32_t> TokensEverCached(const Workload& workload);

}  // namespace takt

#endif  // TAKT_WORKLOAD_SESSIONS_H_
