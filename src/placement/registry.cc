#include "takt/placement/registry.h"

#include "takt/placement/cached_cost.h"
#include "takt/placement/confidence_slack.h"
#include "takt/placement/gain_slack.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/least_outstanding_tokens.h"
#include "takt/placement/minimum_completion_time.h"
#include "takt/placement/prefix.h"
#include "takt/placement/random.h"
#include "takt/placement/round_robin.h"
#include "takt/placement/session.h"
#include "takt/placement/time_slot_packer.h"
#include "takt/placement/token_reservation.h"
#include "takt/placement/workload_balance.h"

namespace takt::internal {

template class Registry<AnyPlacement>;

PlacementRegistry& Placements() {
  static PlacementRegistry policies = [] {
    PlacementRegistry registry("placement");
    registry.Add(CachedCost{},
                 "the least delay for all: wait, uncached prefill, and what would go (takt's, for agents)");
    registry.Add(ConfidenceSlack{}, "the most capable model that is not too slow right now (Chimera, algorithm 1)");
    registry.Add(GainSlack{}, "the best score less the price of the work, which keeps models within a slack (takt's)");
    registry.Add(LeastLoaded{}, "fewest requests, those that wait counted four times (vLLM's balancer)");
    registry.Add(LeastOutstandingTokens{}, "fewest tokens of prompt and estimated output that are not done");
    registry.Add(MinimumCompletionTime{},
                 "the soonest expected end, by what calls were seen to take there (Ibarra and Kim)");
    registry.Add(PrefixPlacement{}, "the most cached tokens");
    registry.Add(RandomPlacement{}, "any, with equal chances");
    registry.Add(RoundRobin{}, "each instance in turn");
    registry.Add(SessionPlacement{}, "where the workflow's last turn went");
    registry.Add(TimeSlotPacker{}, "the lowest peak of the KV memory that will be needed, by slots of time (Kairos)");
    registry.Add(TokenReservation{},
                 "room for the prompt and a learnt quantile of the agent's outputs, else the router's queue (takt's)");
    registry.Add(WorkloadBalance{}, "speed against the work that stands before the call (HexGen-Flow, equation 4)");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
