// llm-d's weighted scorers: prefix, queue and use of the cache.
#ifndef TAKT_RIVALS_PLACEMENT_LLMD_H_
#define TAKT_RIVALS_PLACEMENT_LLMD_H_

#include <algorithm>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// score = prefix * match + queue * q + kv * k. match: cached share of the prompt. q = 1 - (requests - least) / (most -
// least); 1 if all instances have equally many requests. k: free share of the cache. llm-d's default weights are 2, 1,
// 1. Departures: instead of the queue length, the policy uses the requests placed on the instance. Instead of the cache
// use, it uses the tokens on the instance.
class LlmdPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "llmd";

  double prefix = 2;
  double queue = 1;
  double kv = 1;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("prefix", self.prefix, OptionText{"", "weight of the cached share", 0, 1e6});
    visit("queue", self.queue, OptionText{"", "weight of a short queue", 0, 1e6});
    visit("kv", self.kv, OptionText{"", "weight of the cache's free share", 0, 1e6});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    const double apart = MostRequests() - LeastRequests();
    const double q = apart > 0 ? 1 - (Requests(i.slot) - LeastRequests()) / apart : 1;
    const double k = KvTokens(i.slot) > 0 ? std::max(1 - Held(i.slot) / KvTokens(i.slot), 0.0) : 1;
    return Rounded(prefix * Match(i.slot)) + Rounded(queue * q) + Rounded(kv * k);
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_LLMD_H_
