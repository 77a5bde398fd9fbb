// Runs of one workload, side by side: what a report is made from.
#ifndef TAKT_SRC_TOOL_REPORT_COMPARISON_H_
#define TAKT_SRC_TOOL_REPORT_COMPARISON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tool/report/schedule_trace.h"
#include "takt/model/step.h"
#include "takt/sim/estimates.h"
#include "takt/sim/metrics.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"
#include "takt/state/stats.h"
#include "takt/workload/workload.h"

namespace takt::tool {

// What tells a run from the others.
struct RunSettings {
  std::string policy;
  EstimateSpec estimates;
  std::optional<double> load;  // share of saturation, where it was asked for
  double rate_scale = 1;
};

// Latencies at equal steps of the share of requests, for curves: the smallest, then each further percentile and the
// largest, in seconds.
using Quantiles = std::vector<double>;

// By what a comparison is told apart, besides as a whole.
enum class Split : std::uint8_t { kNothing, kTenant, kClass, kAgent, kStage };
constexpr auto NamesOf(Split) {
  return std::to_array<std::string_view>({"nothing", "tenant", "class", "agent", "stage"});
}

// A tenant, class, agent or stage: its requests, and its workflows where all of a workflow belongs to one.
struct Slice {
  std::string name;  // empty: what has none
  Metrics metrics;
};

struct Run {
  RunSettings settings;
  bool ended = false;    // false: never begun, or failed
  bool stopped = false;  // in the middle
  Metrics metrics;
  EstimateErrors errors;  // of what schedulers were told
  Stats stats;
  std::int64_t steps = 0;
  std::int64_t kv_blocks = 0;
  std::vector<SeriesPoint> series;
  std::array<std::int64_t, NamesOf(FailReason{}).size()> failed = {};  // by reason
  Quantiles ttft, e2e, workflow;
  std::vector<Slice> parts;  // in the order of their first requests
  std::vector<RequestRecord> requests;    // where a report wants them
  std::unique_ptr<ScheduleTrace> trace;  // likewise
  double wall_s = 0;
  std::vector<std::pair<std::string, double>> measured;  // further figures by name, of a real engine
};

// What all runs of a comparison have in common.
struct ReplaySetup {
  std::int32_t instances = 1;
  std::int32_t prefill_instances = 0;  // > 0: so many of them compute prompts only, and the others decode
  double kv_link_gb_s = 25;            // between these
  std::int32_t deflect_tokens = 0;     // prompts of at most so many tokens are computed where they decode
  double front_end_ms = 0, front_end_token_us = 0;  // of a request, and of a token of its prompt, before the engine
  std::string placement = "least_loaded";
  std::string retention, gate;  // empty: not chosen
  std::int32_t token_budget = 2048;
  std::int32_t max_seqs = 256;
  std::int64_t kv_tokens = 0;  // 0: as many as the profile has
  std::int64_t host_kv_tokens = 0;  // of the host's memory, for prefixes
  bool prefix_cache = false;
  std::vector<std::string> options;  // of schedulers and policies, "key=value"
  double rate_scale = 1;
  std::int64_t closed_loop = 0;  // workflows in flight; 0: they come when they come
  double session_rate = 0;       // > 0: workflows are sessions, which arrive so often [1/s]
  double horizon = 0;            // s; > 0: the run ends then
  double warm_up = 0.25;         // share of the horizon that figures leave out
  std::optional<double> think_cap;  // s
  double expected_gaps = 0;      // > 0: turns tell when the next is expected, so many times the true time
  double slo_ttft = 2;           // s
  double slo_tpot = 0.1;         // s
};

struct Comparison {
  ReplaySetup setup;
  std::string source;  // of the workload
  std::uint64_t seed = 1;
  bool sweeps = false;             // over several loads
  bool several_estimates = false;
  bool tells_wall = true;
  Split split = Split::kNothing;
  Workload workload;
  Profile profile;
  double saturation_rps = 0;  // 0: not measured
  std::vector<Run> runs;      // in the order in which they were asked for
  std::string postscript;     // what else the text tells
  bool interrupted = false;
  double wall_s = 0;

  bool multi_stage() const { return workload.calls.size() > workload.workflows.size(); }
};

// Keeps of a run's result what the reports need; its requests too where `requests`. The SLO is that of the setup.
void Keep(const Comparison& comparison, ReplayResult result, bool requests, Run& run);

// Mean rate at which requests come, as the workload has it; 0 where all come at once.
double OfferedRps(const Workload& workload);

// "stjf", or "stjf, noise:0.5" where the estimates differ between runs.
std::string LabelOf(const Comparison& comparison, const Run& run);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_COMPARISON_H_
