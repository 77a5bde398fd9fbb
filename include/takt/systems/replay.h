// Systems of papers in the simulator.
//
//   ReplayOptions options = ...;
//   if (absl::Status used = systems::UseSystem("kairos", workload, options); !used.ok()) return used;
//   auto result = Replay(workload, options);
#ifndef TAKT_SYSTEMS_REPLAY_H_
#define TAKT_SYSTEMS_REPLAY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "takt/base/registry.h"
#include "takt/model/request.h"
#include "takt/sim/replay.h"
#include "takt/systems/chimera.h"
#include "takt/systems/hexgen_flow.h"
#include "takt/systems/kairos.h"
#include "takt/systems/lamps.h"
#include "takt/workload/workload.h"

namespace takt::systems {

// Returns all systems. UseSystem runs all but cascadia, whose error names what runs it.
std::vector<RegistryInfo> SystemInfos();

// Runs a system with the options of its paper in a replay. Its scheduler orders the requests of each engine. Its router
// places them if there are several engines. It learns from the events of the run. Set the other fields of `options`
// first. `workload` must outlive the runs. InvalidArgument: the name is unknown, or the workload or the engines lack
// what the system needs.
absl::Status UseSystem(std::string_view name, const Workload& workload, ReplayOptions& options);

// Use other options of a system. The policy and the placement of `replay` count, not those of the system's options, and
// `replay` gives the options of schedulers and routers. `made`: receives the object of each run.
void UseKairos(const KairosOptions& options, ReplayOptions& replay, std::shared_ptr<Kairos>* made = nullptr);
void UseHexGenFlow(const HexGenFlowOptions& options, ReplayOptions& replay,
                   std::shared_ptr<HexGenFlow>* made = nullptr);
void UseLamps(const LampsOptions& options, ReplayOptions& replay);  // the costs are those of each engine

// Returns the scores of a call on each model. They are valid until the next call of the function. `workflow`, `call`:
// indices into the workload.
using ChimeraScores = std::function<std::span<const ModelScore>(std::uint32_t workflow, std::uint32_t call)>;
// Chimera learns from calls that end, and from Workload::solved_by of the model that answered. It trains at 32, 64, 128
// ... learned workflows. Predictions take no time of the run. Estimates other than none replace the predicted priority.
// `scores`: the host's own, instead of Chimera's predictions; then nothing is trained.
void UseChimera(const ChimeraOptions& options, const Workload& workload, ReplayOptions& replay,
                ChimeraScores scores = {}, std::shared_ptr<Chimera>* made = nullptr);

}  // namespace takt::systems

#endif  // TAKT_SYSTEMS_REPLAY_H_
