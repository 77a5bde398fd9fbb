// Each instance in turn.
#ifndef TAKT_PLACEMENT_ROUND_ROBIN_H_
#define TAKT_PLACEMENT_ROUND_ROBIN_H_

#include <string_view>

#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Chooses the instance that has gone longest without a new request. This is the circular order if instances always have
// room. It needs no state and also works if instances are full, come or go.
struct RoundRobin {
  static constexpr std::string_view kName = "round_robin";
  static constexpr bool kScoresCompare = false;

  double Score(const RequestState&, const InstanceState& instance, TimePoint) const {
    return -static_cast<double>(instance.last_placed);
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_ROUND_ROBIN_H_
