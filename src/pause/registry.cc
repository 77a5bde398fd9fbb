#include "takt/pause/registry.h"

#include "takt/pause/least_waste.h"

namespace takt::internal {

template class Registry<AnyPause, const MemoryPace*>;

PauseRegistry& Pauses() {
  static PauseRegistry policies = [] {
    PauseRegistry registry("pause policy");
    registry.Add(KeepAll{}, "keeps the KV blocks; best if tools are quick");
    registry.Add(DropAll{}, "drops the KV blocks and recomputes them (vLLM)");
    registry.Add(SwapAll{}, "swaps the KV blocks to host memory");
    registry.Add(LeastWaste{}, "keeps, drops or swaps with the least waste, as decided before the run (LAMPS)");
    return registry;
  }();
  return policies;
}

}  // namespace takt::internal
