// What a turn costs all others where it goes: takt's own.
#ifndef TAKT_PLACEMENT_CACHED_COST_H_
#define TAKT_PLACEMENT_CACHED_COST_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// The least of
//   wait + move x prefill + displaced + decode   [s]
// with wait the prefill that stands there before it, prefill that of what is not cached, displaced what it costs to
// compute again what would go for it, of workflows that were there less than `recent_s` ago, and decode `decode_s` for
// each request there. A move delays all behind it, too, and makes the copy at home garbage: `move` is 10; 1 is the
// greedy rule, which loses. A new workflow goes by the same sum, in which only wait, contexts and requests differ.
class CachedCost : public Residence {
 public:
  static constexpr std::string_view kName = "cached_cost";

  double move = 10;
  double recent_s = 120;
  double decode_s = 0.05;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("move", self.move,
          OptionText{"", "what a second of prefill weighs that a cache elsewhere would save", 0, 1e6});
    visit("recent_s", self.recent_s, OptionText{"s", "for which a workflow is likely to be back", 0, 1e9});
    visit("decode_s", self.decode_s, OptionText{"s", "that a request which is there delays another", 0, 1e6});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    const double full = KvTokens(i.slot) > 0 ? Held(i.slot) / KvTokens(i.slot) : 0;  // between equals: the emptier one
    return -(WaitSeconds(i.slot, now) + Rounded(move * PrefillSeconds(i.slot)) +
             DisplacedSeconds(i.slot, FromSeconds(recent_s)) + Rounded(decode_s * Requests(i.slot)) +
             Rounded(full * 1e-3));
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_CACHED_COST_H_
