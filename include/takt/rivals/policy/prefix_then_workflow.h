// Requests with cached tokens first, then by arrival of the workflow.
#ifndef TAKT_RIVALS_POLICY_PREFIX_THEN_WORKFLOW_H_
#define TAKT_RIVALS_POLICY_PREFIX_THEN_WORKFLOW_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Continuum's order: requests with cached KV, then the others, each by arrival of the workflow [s]. Departure:
// Continuum serves preempted requests first. Here they are first only if some of their KV is cached or kept.
struct PrefixThenWorkflow {
  static constexpr std::string_view kName = "prefix_then_workflow";

  RankKey Key(const RequestState& r) const {
    constexpr double kApart = 1e10;  // distance between the two groups [s], larger than any time
    const double part = r.cached.value > 0 || r.computed.value > 0 ? 0 : 1;
    return {part * kApart + ToSeconds(r.request.workflow_arrival)};
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_PREFIX_THEN_WORKFLOW_H_
