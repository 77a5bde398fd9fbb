// LMetric: new prefill tokens times batch size.
#ifndef TAKT_RIVALS_PLACEMENT_LMETRIC_H_
#define TAKT_RIVALS_PLACEMENT_LMETRIC_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// Chooses the least uncached * (requests + 1), in tokens x requests. There are no weights: a constant factor of either
// term does not change the order. Source: Zhang et al., LMetric, OSDI '26, arXiv 2603.15202.
//
// - uncached: the request's tokens outside the instance's cache; at least 1. With `queued`, plus the prompt tokens on
//   the instance that are not computed. Summaries of the paper describe both; llm-d-router's pull request 2351 has
//   only the request's own.
// - requests + 1: running and waiting requests on the instance, and the new one. Thus no product is 0, so idle
// instances
//   still differ by their caches.
//
// Departures: cached tokens are an estimate, queued tokens are converted from seconds, and the paper's detector of hot
// prefixes, which excludes their instances, is missing.
class LmetricPlacement : public Residence {
 public:
  static constexpr std::string_view kName = "lmetric";

  bool queued = false;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("queued", self.queued, OptionText{"", "also count prompt tokens that wait on the instance"});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    const double tokens = Uncached(i.slot) + (queued ? PendingTokens(i.slot, now) : 0);
    return -Rounded(tokens * (Requests(i.slot) + 1));
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_LMETRIC_H_
