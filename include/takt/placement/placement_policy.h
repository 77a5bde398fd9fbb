// What a placement policy is: a value with a score.
#ifndef TAKT_PLACEMENT_PLACEMENT_POLICY_H_
#define TAKT_PLACEMENT_PLACEMENT_POLICY_H_

#include <concepts>

#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Answers: which instance? Larger is better, the smaller instance id among equals; NaN and -infinity mean "not here
// now", and a request that no instance wants now waits in the router's queue. Only instances with room are asked
// about.
template <class P>
concept PlacementPolicy =
    requires(const P& p, const RequestState& request, const InstanceState& instance, TimePoint now) {
      { p.Score(request, instance, now) } -> std::same_as<double>;
    };

}  // namespace takt

#endif  // TAKT_PLACEMENT_PLACEMENT_POLICY_H_
