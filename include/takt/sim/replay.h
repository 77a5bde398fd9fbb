// Simulates a workload under a policy on engines of a profile.
#ifndef TAKT_SIM_REPLAY_H_
#define TAKT_SIM_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/time.h"
#include "takt/turns/gates/registry.h"
#include "takt/model/event.h"
#include "takt/model/instance.h"
#include "takt/model/step.h"
#include "takt/pause/registry.h"
#include "takt/placement/any_placement.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/registry.h"
#include "takt/turns/retention/registry.h"
#include "takt/scheduler_options.h"
#include "takt/sim/estimates.h"
#include "takt/sim/metrics.h"
#include "takt/sim/profiles.h"
#include "takt/sim/virtual_engine.h"
#include "takt/sim/virtual_options.h"
#include "takt/sim/virtual_system.h"
#include "takt/workflow/slo_budget.h"
#include "takt/state/stats.h"
#include "takt/workload/workload.h"

namespace takt {

struct ReplayOptions {
  PolicyFactory policy = [](const EnginePace&) { return AnyPolicy(Fcfs()); };  // policy of each instance, for its pace
  PauseFactory pause = [](const MemoryPace&) { return AnyPause(); };  // factory of each instance's pause policy
  // Factory of each instance's retention policy, from the instance's pace. Empty: the cache evicts the least recently
  // used block, without a gate.
  RetentionFactory retention = {};
  GateFactory gate = {};  // factory of each instance's gate; requires `retention`; empty: no gate
  EstimateSpec estimates = {EstimateKind::kOracle, 0};  // length estimates for schedulers; default as in `takt replay`
  std::optional<BudgetOptions> budgets = {};  // budgets of calls within their workflow's time; none: no budgets
  std::shared_ptr<const Forecasts> forecasts = {};  // forecasts for a workload with several models; null: none
  std::uint64_t seed = 1;  // seed of estimate noise

  Profile profile;  // profile of the engines: step costs and KV capacity
  std::int64_t kv_tokens = 0;  // KV capacity instead of the profile's; 0: the profile's
  std::int64_t host_kv_tokens = 0;  // size of host memory for prefix copies [tokens]
  std::int32_t instances = 1;
  std::vector<Profile> engines = {};  // one profile per instance; if not empty, replaces `instances` and `profile`
  // For several instances only:
  AnyPlacement placement = {};
  PolicyFactory router_policy = {};  // order of the router's queue; empty: `policy`
  std::int64_t max_outstanding = Instance::kUnbounded;  // maximum requests per instance
  VirtualSystem system = {};  // its scheduler replaces policy and pause, and its router that of takt
  SchedulerOptions scheduler;  // kv_blocks and max_running are overwritten from kv_tokens and engine.limits
  VirtualEngineOptions engine;  // options of each instance; its index and model are overwritten
  // Budgets imply declare_workflows, budgets or a system end_workflows, and a prefix cache send_prefixes.
  VirtualClusterOptions cluster = {};

  Duration warm_up{0};  // with a horizon (VirtualClusterOptions): metrics start after this time

  std::int64_t limit = 0;  // maximum workflows, from the first on; 0: all
  SloTarget slo;

  std::int32_t instance_count() const {
    return engines.empty() ? instances : static_cast<std::int32_t>(engines.size());
  }
  const Profile& profile_of(std::int32_t instance) const {
    return engines.empty() ? profile : engines[static_cast<std::size_t>(instance)];
  }

  // InvalidArgument lists all invalid fields with their values.
  absl::Status Validate() const;
};

struct ReplayResult {
  Metrics metrics;
  std::vector<RequestRecord> requests;  // records by call, for the first `limit` workflows
  std::vector<WorkflowRecord> workflows;
  std::optional<Window> window = {};  // window of the metrics; none: whole run
  std::vector<SeriesPoint> series;  // summed over instances
  std::int64_t kv_blocks = 0;  // summed over instances
  Stats stats;  // summed over instances
  std::int64_t steps = 0;
  std::int64_t request_steps = 0;  // number of rows, summed over all steps
  EstimateErrors estimates;  // errors of the schedulers' estimates; 0 without estimates
  bool stopped = false;  // true: `progress` stopped the run; unfinished requests are pending
};

// Runs the workload to its end through the scheduler, and through the router if there are several instances. If an
// engine's profile names a model of the workload, calls on this engine have the model's outputs. Results are
// bit-identical for equal arguments. InvalidArgument: invalid options, names or workload. Internal: a bug in takt left
// requests that never run.
absl::StatusOr<ReplayResult> Replay(const Workload& workload, const ReplayOptions& options);

// Returns the maximum throughput of the instances for this workload in requests per second. The run is first come first
// served, without estimates, with all arrivals at time zero. The measurement ends when no request waits. The result is
// the number of requests, times the share of tokens computed until then, divided by that time.
absl::StatusOr<double> MeasureSaturation(const Workload& workload, ReplayOptions options);

// Returns the rate_scale that gives a rate of `load` times `saturation`; 0 if all workflows arrive together.
double RateScaleForLoad(const Workload& workload, double load, double saturation, std::int64_t limit = 0);

// Returns the latency of each request and workflow alone on an empty engine: prefill in chunks of the token budget,
// decodes and tools. With several kinds of engines, the fastest one counts. A workflow's latency is its longest path
// including delays. Parallel calls are assumed not to slow each other. `model`: column of the workload whose outputs
// count.
IsolatedLatencies MeasureIsolated(const Workload& workload, const PreparedCostModel& cost, const StepLimits& limits,
                                  std::size_t model = Workload::kNoModel);
IsolatedLatencies MeasureIsolated(const Workload& workload, const ReplayOptions& options);  // on the engines

}  // namespace takt

#endif  // TAKT_SIM_REPLAY_H_
