#include "takt/turns/gates/registry.h"

#include "takt/turns/gates/lease.h"
#include "takt/turns/gates/price.h"

namespace takt::internal {

template class Registry<AnyGate, const PrefillPace*>;

GateRegistry& Gates() {
  static GateRegistry policies = [] {
    GateRegistry registry("gate");
    registry.Add(NoGate{}, "lets in whatever fits");
    registry.Add(Lease{}, "takes no memory of workflows that were here a moment ago");
    registry.Add(Price{}, "lets in what is worth more than what it takes from others; bounds every wait (takt's)");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
