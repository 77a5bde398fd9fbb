#include "takt/pause/registry.h"

#include "takt/pause/least_waste.h"

namespace takt::internal {

template class Registry<AnyPause, const MemoryPace*>;

PauseRegistry& Pauses() {
  static PauseRegistry policies = [] {
    PauseRegistry registry("pause policy");
    registry.Add(KeepAll{}, "keeps the KV cache: right where tools are quick");
    registry.Add(DropAll{}, "drops it and computes it again (vLLM)");
    registry.Add(SwapAll{}, "swaps it to the host's memory");
    registry.Add(LeastWaste{}, "keeps, drops or swaps by least waste, decided before the request runs (LAMPS)");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
