// Chooses the instance on which a turn costs least, including the delay of other requests. Source: none; takt's own.
#ifndef TAKT_PLACEMENT_CACHED_COST_H_
#define TAKT_PLACEMENT_CACHED_COST_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// Chooses the instance with the least cost [s]:
//
//  wait + move * prefill + displaced + decode
//
// - wait: prefill time of the prompts that are queued before the turn
// - prefill: time to compute the uncached tokens
// - displaced: time to recompute the evicted KV of workflows seen less than `recent_s` ago
// - decode: `decode_s` for each request on the instance
//
// A move also delays later requests and leaves a useless copy on the old instance. The default of `move` is therefore
// 10. With a `move` of 1 the choice is greedy, which is worse. New workflows use the same sum.
class CachedCost : public Residence {
 public:
  static constexpr std::string_view kName = "cached_cost";

  double move = 10;
  double recent_s = 120;
  double decode_s = 0.05;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("move", self.move,
          OptionText{"", "weight of a second of prefill that another instance's cache would save", 0, 1e6});
    visit("recent_s", self.recent_s, OptionText{"s", "time within which a workflow is likely to return", 0, 1e9});
    visit("decode_s", self.decode_s, OptionText{"s", "delay that each request on the instance adds", 0, 1e6});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    // breaks ties: prefers the instance with less KV in use
    const double full = KvTokens(i.slot) > 0 ? Held(i.slot) / KvTokens(i.slot) : 0;
    return -(WaitSeconds(i.slot, now) + Rounded(move * PrefillSeconds(i.slot)) +
             DisplacedSeconds(i.slot, FromSeconds(recent_s)) + Rounded(decode_s * Requests(i.slot)) +
             Rounded(full * 1e-3));
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_CACHED_COST_H_
