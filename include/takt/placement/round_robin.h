// Each instance in turn.
#ifndef TAKT_PLACEMENT_ROUND_ROBIN_H_
#define TAKT_PLACEMENT_ROUND_ROBIN_H_

#include <string_view>

#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// The instance that was given a request longest ago. With instances that always have room this is the circular
// order; stated so, it needs no memory of its own and holds when instances are full, come or go.
struct RoundRobin {
  static constexpr std::string_view kName = "round_robin";

  double Score(const RequestState&, const InstanceState& instance, TimePoint) const {
    return -static_cast<double>(instance.last_placed);
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_ROUND_ROBIN_H_
