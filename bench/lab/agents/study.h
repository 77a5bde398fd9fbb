// Declarations that the scenario's parts share: systems, and how an engine under a system is replayed.
#ifndef TAKT_BENCH_LAB_AGENTS_STUDY_H_
#define TAKT_BENCH_LAB_AGENTS_STUDY_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "lab/scenario.h"
#include "lab/report/scenario_report.h"
#include "tool/run/progress_bar.h"
#include "takt/model/step.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt::tool {

inline constexpr StepLimits kAgentLimits{.tokens = {4096}, .max_seqs = 256, .chunk_tokens = {2048}};

// A system: each engine's cache and queue, and the placement of turns on engines. `told`: the host reports how turns
// end. If above 0, it also estimates the next turn's time, as this multiple of the true time. `learnt`: above 0, gap
// statistics are fixed beforehand, from gaps scaled by this factor. `one_class`: the host does not report how turns
// end.
struct AgentSystem {
  std::string label, retention, gate, policy, placement = "least_loaded";
  double told = 0, learnt = 0;
  bool one_class = false;

  friend bool operator==(const AgentSystem&, const AgentSystem&) = default;
};

inline const AgentSystem kAgentToday{"lru, no gate, fcfs", "lru", "none", "fcfs"};
inline const AgentSystem kAgentTakts{"takt's", "hold_value", "price", "uncached"};

// `sessions`: sessions from which the `learnt` statistics come.
ReplayOptions AgentOptionsOf(const AgentSystem& system, const Workload& sessions, std::int64_t kv_tokens,
                             const Profile& profile, std::uint64_t seed);

// Troubles of an engine that serves agents, and how long recovery takes: tables, rows and claims of their own. `chat`:
// null if there is no chat trace.
absl::Status AddTrouble(const Workload& sessions, const Workload* chat, const Profile& profile,
                        const StudySettings& settings, SeedRange seeds, ProgressBar& bar, ScenarioReport& report);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_AGENTS_STUDY_H_
