// Mooncake's rule without transfers: the soonest first token.
#ifndef TAKT_RIVALS_PLACEMENT_MOONCAKE_H_
#define TAKT_RIVALS_PLACEMENT_MOONCAKE_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// The least of queue + prefill of what is not cached [s]. Departures: nothing is copied from a better match elsewhere,
// and nothing is rejected for an objective; what a turn displaces is ignored, as there.
class MooncakePlacement : public Residence {
 public:
  static constexpr std::string_view kName = "mooncake";

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    return -(WaitSeconds(i.slot, now) + PrefillSeconds(i.slot));
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_MOONCAKE_H_
