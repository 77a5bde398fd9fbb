// llm-d's weighted scorers: prefix, queue and use of the cache.
#ifndef TAKT_RIVALS_PLACEMENT_LLMD_H_
#define TAKT_RIVALS_PLACEMENT_LLMD_H_

#include <algorithm>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// score = prefix match + queue q + kv k, where match is the share of the prompt that is cached, q = 1 - (requests -
// least) / (most - least), or 1 where all have as many, and k the share of the cache that holds nothing. llm-d's
// default profile weighs 2, 1, 1. Departures: requests placed here stand for its queue, the tokens that lie there for
// the use of the cache.
class LlmdPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "llmd";

  double prefix = 2;
  double queue = 1;
  double kv = 1;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("prefix", self.prefix, OptionText{"", "weight of the share that is cached", 0, 1e6});
    visit("queue", self.queue, OptionText{"", "weight of the shorter queue", 0, 1e6});
    visit("kv", self.kv, OptionText{"", "weight of the emptier cache", 0, 1e6});
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
