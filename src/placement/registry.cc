#include "takt/placement/registry.h"

#include "takt/placement/adapter_affinity.h"
#include "takt/placement/cached_cost.h"
#include "takt/placement/confidence_slack.h"
#include "takt/placement/gain_slack.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/least_outstanding_tokens.h"
#include "takt/placement/least_pending_prefill.h"
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
    registry.Add(AdapterAffinity{}, "fewest remaining tokens; loading the request's adapter counts as tokens (takt's)");
    registry.Add(CachedCost{}, "the least delay by waiting, uncached prefill and evicted KV (takt's, for agents)");
    registry.Add(ConfidenceSlack{}, "the most capable model within the current latency slack (Chimera, algorithm 1)");
    registry.Add(GainSlack{},
                 "the model with the best score minus the price of its work; prices limit its latency (takt's)");
    registry.Add(LeastLoaded{}, "fewest requests, with waiting ones counted four times (vLLM's balancer)");
    registry.Add(LeastOutstandingTokens{}, "fewest remaining tokens of prompts and estimated outputs");
    registry.Add(LeastPendingPrefill{},
                 "fewest prompt tokens to compute, then fewest remaining tokens (for parallel ranks)");
    registry.Add(MinimumCompletionTime{}, "the earliest expected end, by observed call times (Ibarra and Kim)");
    registry.Add(PrefixPlacement{}, "the most cached tokens");
    registry.Add(RandomPlacement{}, "a random instance");
    registry.Add(RoundRobin{}, "each instance in turn");
    registry.Add(SessionPlacement{}, "the instance of the workflow's last turn");
    registry.Add(TimeSlotPacker{}, "the lowest predicted peak of KV memory (Kairos)");
    registry.Add(TokenReservation{}, "an instance with room for the prompt and a likely output, else waits (takt's)");
    registry.Add(WorkloadBalance{}, "a fast engine with little work queued before the call (HexGen-Flow, equation 4)");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
