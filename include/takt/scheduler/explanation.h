// Why a request waits, or what it does.
#ifndef TAKT_SCHEDULER_EXPLANATION_H_
#define TAKT_SCHEDULER_EXPLANATION_H_

#include <cstdint>

#include "takt/base/count.h"
#include "takt/model/step.h"
#include "takt/policy/rank_policy.h"
#include "takt/state/request_status.h"

namespace takt {

// Where a request stands, and why. For people: found by looking, at O(waiting), and not kept.
struct Explanation {
  RequestStatus status = RequestStatus::kUnknown;
  WaitsFor waits_for = WaitsFor::kNothing;
  RankKey key;              // smaller is sooner; of equal ones, what arrived first
  KeyParts key_parts = {};  // what its key came from, where the policy tells
  bool promoted = false;    // by aging: before all that are not
  std::int64_t ahead = 0;   // waiting requests before it
  Tokens known{0}, computed{0}, in_flight{0}, generated{0};  // of its context: in all, computed, in flight; output
  Blocks kv_blocks{0}, cpu_blocks{0};                        // that it holds, on the GPU and in the host's memory
  std::int32_t passed = 0;  // requests let in before it while it lacked memory, or room in a step
};

}  // namespace takt

#endif  // TAKT_SCHEDULER_EXPLANATION_H_
