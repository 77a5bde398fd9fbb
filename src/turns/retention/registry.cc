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
    registry.Add(Lru{}, "what was used least recently goes first (vLLM)");
    registry.Add(Lfu{}, "what has had the fewest turns goes first");
    registry.Add(Ttl{}, "held for a fixed time after each turn; then by age");
    registry.Add(Shortest{}, "what has the fewest tokens goes first");
    registry.Add(HoldValue{}, "what saves the least work per second held goes first (takt's)");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
