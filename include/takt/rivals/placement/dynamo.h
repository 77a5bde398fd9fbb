// NVIDIA Dynamo's cost: pending and new prefill, and blocks in decode.
#ifndef TAKT_RIVALS_PLACEMENT_DYNAMO_H_
#define TAKT_RIVALS_PLACEMENT_DYNAMO_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// Dynamo's rule at temperature 0. Chooses the least scale * (pending prefill + uncached tokens) + decode, in tokens.
// Pending prefill: tokens of placed prompts that are not computed. Decode: context tokens of running requests. Decode
// weighs as much as prefill, so long contexts outweigh a cached prefix. Departures: pending prefill is converted from
// seconds; there is no credit for host and disk tiers.
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
