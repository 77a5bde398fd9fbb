// NVIDIA Dynamo's cost: prefill that is pending and new, and blocks that decode.
#ifndef TAKT_RIVALS_PLACEMENT_DYNAMO_H_
#define TAKT_RIVALS_PLACEMENT_DYNAMO_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// The least of scale x (pending prefill + what is not cached) + decode, all in tokens: pending prefill is that of what
// was placed there and has not begun or is not through, decode the contexts that lie there and run. Temperature 0. As
// decode weighs like prefill, with long contexts it drowns the prefix. Departures: pending prefill in tokens is read
// from its seconds; credit for host and disk is none, since there are no tiers here.
class DynamoPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "dynamo";

  double scale = 1;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("scale", self.scale, OptionText{"", "weight of prefill against decode", 0, 1e6});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    return -Rounded(scale * (PendingTokens(i.slot, now) + Uncached(i.slot))) - RunningTokens(i.slot);
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_DYNAMO_H_
