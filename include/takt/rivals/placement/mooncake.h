// Mooncake's rule without transfers: the earliest first token.
#ifndef TAKT_RIVALS_PLACEMENT_MOONCAKE_H_
#define TAKT_RIVALS_PLACEMENT_MOONCAKE_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// Chooses the least queue + prefill of uncached tokens [s]. Departures: nothing is copied from a better match, and
// nothing is rejected for an SLO. Evicted KV is ignored, as in Mooncake.
class MooncakePlacement : public Residence {
 public:
  static constexpr std::string_view kName = "mooncake";

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    return -(WaitSeconds(i.slot, now) + PrefillSeconds(i.slot));
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_MOONCAKE_H_
