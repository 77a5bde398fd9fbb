// Runs of one workload, side by side: what a report is made from.
#ifndef TAKT_SRC_CLI_COMPARISON_H_
#define TAKT_SRC_CLI_COMPARISON_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/schedule_trace.h"
#include "takt/model/step.h"
#include "takt/sim/estimates.h"
#include "takt/sim/metrics.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"
#include "takt/state/stats.h"
#include "takt/workload/workload.h"

namespace takt::cli {

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
  std::array<std::int64_t, std::size(kFailReasonNames)> failed = {};  // by reason
  Quantiles ttft, e2e, workflow;
  std::vector<RequestRecord> requests;    // where a report wants them
  std::unique_ptr<ScheduleTrace> trace;  // likewise
  double wall_s = 0;
  std::vector<std::pair<std::string, double>> measured;  // further figures by name, of a real engine
};

struct Comparison {
  ReplayArguments arguments;
  Workload workload;
  Profile profile;
  double saturation_rps = 0;  // 0: not measured
  std::vector<Run> runs;      // in the order in which they were asked for
  std::string postscript;     // what else the text tells
  bool interrupted = false;
  double wall_s = 0;

  bool multi_stage() const { return workload.calls.size() > workload.workflows.size(); }
  bool sweeps() const { return arguments.sweep.size() > 1; }
  bool several_estimates() const { return arguments.estimates.size() > 1; }
};

// Keeps of a run's result what the reports need; its requests too where `requests`.
void Keep(ReplayResult result, bool requests, Run& run);

// Mean rate at which requests come, as the workload has it; 0 where all come at once.
double OfferedRps(const Workload& workload);

// "stjf", or "stjf, noise:0.5" where the estimates differ between runs.
std::string LabelOf(const Comparison& comparison, const Run& run);

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_COMPARISON_H_
