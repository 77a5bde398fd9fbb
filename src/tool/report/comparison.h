// Runs of one workload, from which reports are made.
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

// Settings that differ between runs.
struct RunSettings {
  std::string policy;  // of a run with a system: the system's name
  EstimateSpec estimates = {};
  std::optional<double> load = {};  // share of the capacity, if a load was given
  double rate_scale = 1;
  bool system = false;
};

// Latencies in seconds at equal steps of the share of requests: minimum, percentiles, maximum.
using Quantiles = std::vector<double>;

// Property by which figures are split, in addition to the totals.
enum class Split : std::uint8_t { kNothing, kTenant, kClass, kAgent, kStage };
constexpr auto NamesOf(Split) {
  return std::to_array<std::string_view>({"nothing", "tenant", "class", "agent", "stage"});
}

// Figures of a tenant, class, agent or stage: its requests, and its workflows if none has several of them.
struct Slice {
  std::string name;  // empty: requests without one
  Metrics metrics;
};

struct Run {
  RunSettings settings;
  bool ended = false;  // false: not started, or failed
  bool stopped = false;  // interrupted before its end
  Metrics metrics;
  EstimateErrors errors;  // errors of the estimates given to schedulers
  Stats stats;
  std::int64_t steps = 0;
  std::int64_t kv_blocks = 0;
  std::vector<SeriesPoint> series;
  std::array<std::int64_t, NamesOf(FailReason{}).size()> failed = {};  // by reason
  Quantiles ttft, e2e, workflow;
  std::vector<Slice> parts;  // in the order of their first requests
  std::vector<RequestRecord> requests;  // if a report needs them
  std::unique_ptr<ScheduleTrace> trace;  // if a report needs it
  double wall_s = 0;
  std::vector<std::pair<std::string, double>> measured;  // more figures by name, reported by a real engine
};

// Settings that all runs of a comparison share.
struct ReplaySetup {
  std::int32_t instances = 1;
  std::int32_t prefill_instances = 0;  // > 0: this number of instances only computes prompts, and the others decode
  double kv_link_gb_s = 25;  // KV bandwidth between prefill and decode instances
  std::int32_t deflect_tokens = 0;  // longest prompt that is computed on the instance that decodes it
  // Delay before the engine, per request and per prompt token; below 0: the profile's.
  double front_end_ms = -1, front_end_token_us = -1;
  std::string placement = "least_loaded";
  std::string retention, gate;  // empty: none chosen
  bool default_retention = false;  // the user chose neither, and the workload has sessions
  std::int32_t token_budget = 2048;
  std::int32_t max_seqs = 256;
  std::int64_t kv_tokens = 0;  // 0: the profile's capacity
  std::int64_t host_kv_tokens = 0;  // host memory for prefixes
  std::int32_t adapter_slots = 0;  // LoRA adapters that an instance keeps loaded; 0: all
  double adapter_load_ms = 0;  // time to load an adapter
  bool prefix_cache = false;
  std::vector<std::string> options;  // of schedulers and policies, "key=value"
  double rate_scale = 1;
  std::int64_t closed_loop = 0;  // workflows in flight; 0: workflows arrive at their own times
  double session_rate = 0;  // > 0: arrival rate of sessions [1/s]; each workflow is a session
  double horizon = 0;  // s; > 0: length of the run
  double warm_up = 0.25;  // share of the horizon that figures exclude
  std::optional<double> think_cap;  // s
  double expected_gaps = 0;  // > 0: the estimated time until the next turn, as a multiple of the true time
  double slo_ttft = 2;           // s
  double slo_tpot = 0.1;         // s
};

struct Comparison {
  ReplaySetup setup;
  std::string source;  // source of the workload
  std::uint64_t seed = 1;
  bool sweeps = false;  // several loads
  bool several_estimates = false;
  bool tells_wall = true;
  Split split = Split::kNothing;
  Workload workload;
  Profile profile;
  std::vector<Profile> engines;  // profile of each instance, if there are several
  double saturation_rps = 0;  // 0: not measured
  std::vector<Run> runs;  // in the requested order
  std::vector<std::string> warnings;  // one warning per policy that lacks an input
  std::string postscript;  // text after the report
  bool interrupted = false;
  double wall_s = 0;

  // Calls visit(profile, count) for each run of equal profiles.
  template <class Visit>
  void ForEachEngine(Visit visit) const {
    for (std::size_t i = 0, next; i < engines.size(); i = next) {
      for (next = i + 1; next < engines.size() && engines[next].id == engines[i].id;) ++next;
      visit(engines[i], static_cast<std::int32_t>(next - i));
    }
  }
  std::int64_t KvOf(const Profile& engine) const {
    return setup.kv_tokens > 0 ? setup.kv_tokens : engine.kv_capacity_tokens;
  }

  bool multi_stage() const { return workload.calls.size() > workload.workflows.size(); }
};

// Keeps the parts of a run's result that reports need, with its requests if `requests`. The SLO is the setup's.
void Keep(const Comparison& comparison, ReplayResult result, bool requests, Run& run);

// Returns the mean arrival rate of the workload's requests; 0 if all arrive at once.
double OfferedRps(const Workload& workload);

// Returns a line for each policy of the comparison whose input the workload, the engines or takt replay do not provide.
// Adds a line for each option without effect.
std::vector<std::string> WarningsOf(const Comparison& comparison);
// Returns whether requests wait for at most 1 % of their latency on average, so that no order can matter.
bool HardlyWaits(const Run& run);
// Returns a warning if runs of several orders at one load have ended with the same mean latency because hardly a
// request waited; empty otherwise.
std::string WarningOfEqualRuns(const Comparison& comparison);

// Returns "stjf", or "stjf, noise:0.5" if the estimates differ between runs.
std::string LabelOf(const Comparison& comparison, const Run& run);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_COMPARISON_H_
