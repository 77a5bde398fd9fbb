#include "takt/turns/retention/registry.h"

#include "takt/turns/retention/belady.h"
#include "takt/turns/retention/belady_cost.h"
#include "takt/turns/retention/continuum.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lfu.h"
#include "takt/turns/retention/lru.h"
#include "takt/turns/retention/shortest.h"
#include "takt/turns/retention/slru.h"
#include "takt/turns/retention/tlru.h"
#include "takt/turns/retention/ttl.h"
#include "takt/turns/retention/wa.h"

namespace takt::internal {

template class Registry<AnyRetention, const PrefillPace*>;

RetentionRegistry& Retentions() {
  static RetentionRegistry policies = [] {
    RetentionRegistry registry("retention policy");
    registry.Add(Lru{}, "what was used least recently goes first (vLLM)");
    registry.Add(Lfu{}, "what has had the fewest turns goes first");
    registry.Add(Slru{}, "what has had one turn goes before what has had several (SGLang)");
    registry.Add(Ttl{}, "held for a fixed time after each turn; then by age");
    registry.Add(Continuum{}, "held while waiting for the return is expected to save time; then by age (Continuum)");
    registry.Add(Wa{}, "what is least likely to be used within its lifetime goes first (Bailian)");
    registry.Add(Tlru{}, "what the next turn can do without goes first, then by age (T-LRU)");
    registry.Add(Shortest{}, "what has the fewest tokens goes first");
    registry.Add(HoldValue{}, "what saves the least work per second held goes first (takt's)");
    registry.Add(Belady{}, "what is used again last goes first; simulators alone know it");
    registry.Add(BeladyCost{}, "what saves the least work per second until its next use; simulators alone know it");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
