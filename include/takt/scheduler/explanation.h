// The status of a request, and the reason why it waits.
#ifndef TAKT_SCHEDULER_EXPLANATION_H_
#define TAKT_SCHEDULER_EXPLANATION_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "takt/base/count.h"
#include "takt/model/step.h"
#include "takt/policy/rank_policy.h"
#include "takt/state/request_status.h"

namespace takt {

// State of a request for diagnosis, computed on demand. O(w) for w waiting requests, O(w log w) if the policy chooses.
struct Explanation {
  RequestStatus status = RequestStatus::kUnknown;
  WaitsFor waits_for = WaitsFor::kNothing;
  RankKey key;  // smaller runs sooner; ties by arrival
  KeyParts key_parts = {};  // parts of the key, if the policy reports them
  bool promoted = false;  // aging has put it before all requests that are not promoted
  std::int64_t ahead = 0;  // waiting requests ahead of it
  Tokens known{0}, computed{0}, in_flight{0}, generated{0};  // context tokens: total, computed, in flight; then output
                                                             // tokens
  Blocks kv_blocks{0}, cpu_blocks{0};  // blocks that it holds on the GPU and in host memory
  std::int32_t passed = 0;  // number of requests that passed it while it lacked memory or room in a step
};

// Numbers of requests by the reason for which they wait: see WaitsFor. kNothing has no requests.
struct WaitingCounts {
  std::array<std::int64_t, NamesOf(WaitsFor{}).size()> of = {};

  std::int64_t operator[](WaitsFor reason) const { return of[static_cast<std::size_t>(reason)]; }
  friend bool operator==(const WaitingCounts&, const WaitingCounts&) = default;
};

}  // namespace takt

#endif  // TAKT_SCHEDULER_EXPLANATION_H_
