// The instance with the fewest tokens left to serve. Loading the request's adapter counts as tokens.
#ifndef TAKT_PLACEMENT_ADAPTER_AFFINITY_H_
#define TAKT_PLACEMENT_ADAPTER_AFFINITY_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/least_outstanding_tokens.h"

namespace takt {

// Chooses the least cost, in tokens:
//
//  outstanding + (the adapter is not loaded ? load_tokens : 0)
//
// - outstanding: as for least_outstanding_tokens
// - loaded: InstanceState::adapters, which the router infers from its placements
// - load_tokens: tokens that an instance serves in the time of a load. A load delays all requests of the instance, so
//   the default is large.
//
// A request without an adapter is placed as by least_outstanding_tokens.
class AdapterAffinity : public LeastOutstandingTokens {
 public:
  static constexpr std::string_view kName = "adapter_affinity";

  double load_tokens = 10'000;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("load_tokens", self.load_tokens,
          OptionText{"tokens", "cost of loading an adapter, as tokens to serve", 0, 1e9});
  }

  double Score(const RequestState& r, const InstanceState& i, TimePoint now) const {
    const bool loads = r.request.adapter && !i.adapters.Has(r.request.adapter);
    return LeastOutstandingTokens::Score(r, i, now) - (loads ? load_tokens : 0);
  }
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_ADAPTER_AFFINITY_H_
