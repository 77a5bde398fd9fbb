// Requests with anything cached first, and then by the arrival of their workflow.
#ifndef TAKT_RIVALS_POLICY_PREFIX_THEN_WORKFLOW_H_
#define TAKT_RIVALS_POLICY_PREFIX_THEN_WORKFLOW_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Continuum's order: what finds KV of its workflow, then the rest; each by when the workflow arrived [s]. Departure:
// what was preempted goes first there; here it does where any of it is cached or kept.
struct PrefixThenWorkflow {
  static constexpr std::string_view kName = "prefix_then_workflow";

  RankKey Key(const RequestState& r) const {
    constexpr double kApart = 1e10;  // s: more than any time
    const double part = r.cached.value > 0 || r.computed.value > 0 ? 0 : 1;
    return {part * kApart + ToSeconds(r.request.workflow_arrival)};
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_PREFIX_THEN_WORKFLOW_H_
