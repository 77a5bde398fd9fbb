#include "takt/turns/gates/registry.h"

#include "takt/turns/gates/lease.h"
#include "takt/turns/gates/price.h"

namespace takt::internal {

template class Registry<AnyGate, const PrefillPace*>;

GateRegistry& Gates() {
  static GateRegistry policies = [] {
    GateRegistry registry("gate");
    registry.Add(NoGate{}, "admits every request that fits");
    registry.Add(Lease{}, "admits requests whose KV fits without evicting KV of recent workflows");
    registry.Add(Price{}, "admits requests worth more than the KV that they evict, or after a long wait (takt's)");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
