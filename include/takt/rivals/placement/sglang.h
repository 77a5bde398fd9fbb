// The cache-aware rule of SGLang's router: the longest match, unless loads are apart.
#ifndef TAKT_RIVALS_PLACEMENT_SGLANG_H_
#define TAKT_RIVALS_PLACEMENT_SGLANG_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// Where the loads (requests) are more than `abs` apart and the most is more than `rel` times the least, the least
// loaded. Else the longest match, where that is more than `match` of the prompt; else the one whose cache holds least.
// sgl-router's policy cache_aware; its tree holds text per worker, where here a workflow's context counts as one line.
class SglangPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "sglang";

  double match = 0.5;
  double abs = 32;
  double rel = 1.1;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("match", self.match, OptionText{"", "share of the prompt that must be cached for it to decide", 0, 1});
    visit("abs", self.abs, OptionText{"requests", "apart at which loads decide", 0, 1e9});
    visit("rel", self.rel, OptionText{"", "most over least load at which loads decide", 1, 1e9});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    const bool apart = MostRequests() - LeastRequests() > abs && MostRequests() > Rounded(rel * LeastRequests());
    if (apart) return -Requests(i.slot);
    if (Match(i.slot) > match) return 0x1p40 + Cached(i.slot);
    return -Held(i.slot);
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_SGLANG_H_
