// The cache-aware rule of SGLang's router: the longest match, unless loads differ much.
#ifndef TAKT_RIVALS_PLACEMENT_SGLANG_H_
#define TAKT_RIVALS_PLACEMENT_SGLANG_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// The load is the number of requests. If loads differ by more than `abs`, and the largest load is more than `rel` times
// the least, chooses the least loaded instance. Otherwise chooses the longest match if it covers more than `match` of
// the prompt, else the instance with the least cached KV. Source: policy cache_aware of sgl-router. Departure: its tree
// holds text per worker; here a workflow's context is one sequence.
class SglangPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "sglang";

  double match = 0.5;
  double abs = 32;
  double rel = 1.1;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("match", self.match, OptionText{"", "share of the prompt above which a match decides", 0, 1});
    visit("abs", self.abs, OptionText{"requests", "difference of loads above which loads decide", 0, 1e9});
    visit("rel", self.rel, OptionText{"", "ratio of largest to least load above which loads decide", 1, 1e9});
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
