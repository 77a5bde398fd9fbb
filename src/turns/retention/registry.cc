#include "takt/turns/retention/registry.h"

#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lfu.h"
#include "takt/turns/retention/lru.h"
#include "takt/turns/retention/shortest.h"
#include "takt/turns/retention/ttl.h"

namespace takt::internal {

template class Registry<AnyRetention, const PrefillPace*>;

RetentionRegistry& Retentions() {
  static RetentionRegistry policies = [] {
    RetentionRegistry registry("retention policy");
    registry.Add(Lru{}, "evicts the least recently used KV first (vLLM)");
    registry.Add(Lfu{}, "evicts KV of workflows with the fewest turns first");
    registry.Add(Ttl{}, "keeps KV for a fixed time after each turn, then evicts by age");
    registry.Add(Shortest{}, "evicts KV with the fewest tokens first");
    registry.Add(HoldValue{}, "evicts the KV that saves the least work per second first (takt's)");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
