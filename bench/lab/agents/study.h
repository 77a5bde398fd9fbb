// What the parts of the scenario share: systems, and how an engine under one of them is replayed.
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

// What each engine does with its cache and its queue; which of several a turn goes to. `told`: how turns end, and,
// above 0, when the next is expected, by so many times the true time. `learnt`: above 0, what is known of gaps was
// learnt before, on gaps so many times as long, and stays. `one_class`: nobody tells how turns end.
struct AgentSystem {
  std::string label, retention, gate, policy, placement = "least_loaded";
  double told = 0, learnt = 0;
  bool one_class = false;

  friend bool operator==(const AgentSystem&, const AgentSystem&) = default;
};

inline const AgentSystem kAgentToday{"lru, no gate, fcfs", "lru", "none", "fcfs"};
inline const AgentSystem kAgentTakts{"takt's", "hold_value", "price", "uncached"};

// `sessions`: what is `learnt` is learnt of these.
ReplayOptions AgentOptionsOf(const AgentSystem& system, const Workload& sessions, std::int64_t kv_tokens,
                             const Profile& profile, std::uint64_t seed);

// What happens to an engine that serves agents, and how long it stays: tables, rows and claims of their own. `chat`:
// null where there is none.
absl::Status AddTrouble(const Workload& sessions, const Workload* chat, const Profile& profile,
                        const StudySettings& settings, SeedRange seeds, ProgressBar& bar, ScenarioReport& report);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_AGENTS_STUDY_H_
