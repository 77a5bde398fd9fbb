// Declarations that the scenario's parts share: systems, and how an engine under a system is replayed.
#ifndef TAKT_BENCH_LAB_AGENTS_STUDY_H_
#define TAKT_BENCH_LAB_AGENTS_STUDY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/scenario.h"
#include "lab/report/scenario_report.h"
#include "tool/run/progress_bar.h"
#include "tool/run/runner.h"
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

inline constexpr std::string_view kAgentProfile = "aic/llama-3.1-70b/h100/fp8/tp8";

inline const AgentSystem kAgentToday{"lru, no gate, fcfs", "lru", "none", "fcfs"};
inline const AgentSystem kAgentTakts{"takt's", "hold_value", "price", "uncached"};

// `sessions`: sessions from which the `learnt` statistics come.
ReplayOptions AgentOptionsOf(const AgentSystem& system, const Workload& sessions, std::int64_t kv_tokens,
                             const Profile& profile, std::uint64_t seed);

// Chat (priority 0) and agents (priority 1) on one engine, for six hours. Figures of the second half.
struct MixSetup {
  AgentSystem system;
  double rate = 0;  // rate of sessions; 0: chat alone
  std::int64_t kv_tokens = 1'500'000;
  double ceiling = 1;  // share of the engine that agents use at most

  friend bool operator==(const MixSetup&, const MixSetup&) = default;
};
struct MixFigures {
  double chat_turns = 0, chat_hits = 0, chat_p50 = 0, chat_p95 = 0;
  double turns = 0, hits = 0, p95 = 0, longest = 0;
};
absl::StatusOr<std::optional<MixFigures>> RunMix(const Workload& sessions, const Workload& chat, const Profile& profile,
                                                 double minutes, const MixSetup& setup, std::uint64_t seed,
                                                 const RunProgress& progress);

// Troubles of an engine that serves agents, and how long recovery takes: tables, rows and claims of their own. `chat`:
// null if there is no chat trace.
absl::Status AddTrouble(const Workload& sessions, const Workload* chat, const Profile& profile,
                        const StudySettings& settings, SeedRange seeds, ProgressBar& bar, ScenarioReport& report);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_AGENTS_STUDY_H_
