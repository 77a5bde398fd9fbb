// Systems of papers in the simulator.
//
//   ReplayOptions options = ...;
//   if (absl::Status used = systems::UseSystem("kairos", workload, options); !used.ok()) return used;
//   auto result = Replay(workload, options);
#ifndef TAKT_SYSTEMS_REPLAY_H_
#define TAKT_SYSTEMS_REPLAY_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "takt/base/registry.h"
#include "takt/sim/replay.h"
#include "takt/systems/hexgen_flow.h"
#include "takt/systems/kairos.h"
#include "takt/systems/lamps.h"
#include "takt/workload/workload.h"

namespace takt::systems {

// Returns all systems. UseSystem runs kairos, hexgen_flow and lamps; for others it returns what runs them.
std::vector<RegistryInfo> SystemInfos();

// Runs a system with the options of its paper in a replay. Its scheduler orders the requests of each engine. Its router
// places them if there are several engines. It learns from the events of the run. Set the other fields of `options`
// first. InvalidArgument: the name is unknown, or the workload lacks what the system needs.
absl::Status UseSystem(std::string_view name, const Workload& workload, ReplayOptions& options);

// Use other options of a system. The policy and the placement of `replay` count, not those of the system's options, and
// `replay` gives the options of schedulers and routers. `made`: receives the object of each run.
void UseKairos(const KairosOptions& options, ReplayOptions& replay, std::shared_ptr<Kairos>* made = nullptr);
void UseHexGenFlow(const HexGenFlowOptions& options, ReplayOptions& replay,
                   std::shared_ptr<HexGenFlow>* made = nullptr);
void UseLamps(const LampsOptions& options, ReplayOptions& replay);  // the costs are those of each engine

}  // namespace takt::systems

#endif  // TAKT_SYSTEMS_REPLAY_H_
