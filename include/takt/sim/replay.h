// A workload, a policy, a profile: what its users would have seen.
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
#include "takt/workflow/slo_budget.h"
#include "takt/state/stats.h"
#include "takt/workload/workload.h"

namespace takt {

struct ReplayOptions {
  PolicyFactory policy = [](const EnginePace&) { return AnyPolicy(Fcfs()); };  // of each instance, at its pace
  PauseFactory pause = [](const MemoryPace&) { return AnyPause(); };           // likewise
  // What turns of workflows leave in the prefix cache, and who is let in beside it; of each instance, at its pace.
  // Empty: the cache drops what was used least recently, block by block, and there is no gate.
  RetentionFactory retention = {};
  GateFactory gate = {};  // needs `retention`; empty: none
  EstimateSpec estimates = {EstimateKind::kOracle, 0};  // what schedulers are told of lengths; as `takt replay` has it
  std::optional<BudgetOptions> budgets = {};  // calls get shares of their workflow's time as deadlines; none: all of it
  std::shared_ptr<const Forecasts> forecasts = {};  // of a workload in which models differ; null: none
  std::uint64_t seed = 1;  // of the estimates' noise

  Profile profile;  // what a step costs, and how much KV there is
  std::int64_t kv_tokens = 0;  // > 0: so much KV instead of the profile's
  std::int64_t host_kv_tokens = 0;  // of the host's memory, for copies of prefixes that have left the cache
  std::int32_t instances = 1;
  std::vector<Profile> engines = {};  // not empty: an instance each, instead of `instances` of `profile`
  // Of interest to several instances only:
  AnyPlacement placement = {};
  PolicyFactory router_policy = {};  // of the router's own queue; empty: `policy`
  std::int64_t max_outstanding = Instance::kUnbounded;  // requests that an instance is given at once
  SchedulerOptions scheduler;  // kv_blocks and max_running are set here from kv_tokens and engine.limits
  VirtualEngineOptions engine;  // of each instance; its place and model are set here
  VirtualClusterOptions cluster = {};  // workflows are declared where there are budgets, prefixes told with a cache

  Duration warm_up{0};  // with a horizon (VirtualClusterOptions): figures are of what comes after

  std::int64_t limit = 0;  // > 0: the first so many workflows only
  SloTarget slo;

  std::int32_t instance_count() const {
    return engines.empty() ? instances : static_cast<std::int32_t>(engines.size());
  }
  const Profile& profile_of(std::int32_t instance) const {
    return engines.empty() ? profile : engines[static_cast<std::size_t>(instance)];
  }

  // InvalidArgument names every field at fault, with its value.
  absl::Status Validate() const;
};

struct ReplayResult {
  Metrics metrics;
  std::vector<RequestRecord> requests;  // by call of the workload; those of the first `limit` workflows
  std::vector<WorkflowRecord> workflows;
  std::optional<Window> window = {};  // that the metrics are of; none: the whole run
  std::vector<SeriesPoint> series;  // of all instances together
  std::int64_t kv_blocks = 0;  // of all instances together
  Stats stats;  // likewise
  std::int64_t steps = 0;
  std::int64_t request_steps = 0;  // rows of all steps
  EstimateErrors estimates;  // of what schedulers were told; all zero where nothing was
  bool stopped = false;  // by `progress`: what had not ended is pending
};

// An engine whose profile is of one of the workload's models plays the outputs of that. Runs the workload through the
// scheduler, and the router where there are several instances, to the end. The same arguments give the same result, to
// the last bit. InvalidArgument: of the options, names included, or of the workload; Internal: requests live that
// nothing will ever run (a fault of takt's).
absl::StatusOr<ReplayResult> Replay(const Workload& workload, const ReplayOptions& options);

// Requests per second that the same instances serve in order of arrival, with no estimates, when every workflow is
// there from time zero: what they can do at most with such a mix. Measured while anything waits, so that the end of the
// run, when the last long requests have the engines to themselves, does not count against them: requests times the
// share of all tokens that were computed until then, over the time it took.
absl::StatusOr<double> MeasureSaturation(const Workload& workload, ReplayOptions options);

// The rate_scale at which requests come at `load` times `saturation`. Zero where the workload has no rate: all arrive
// together.
double RateScaleForLoad(const Workload& workload, double load, double saturation, std::int64_t limit = 0);

// What each request, and each workflow, would take alone on an empty engine (of several kinds: on the fastest for it):
// prefill in chunks of the token budget, decodes, tools. A workflow takes its longest path, delays included: calls side
// by side are taken not to slow each other.
// `model`: whose outputs count, a column of the workload.
IsolatedLatencies MeasureIsolated(const Workload& workload, const PreparedCostModel& cost, const StepLimits& limits,
                                  std::size_t model = Workload::kNoModel);
IsolatedLatencies MeasureIsolated(const Workload& workload, const ReplayOptions& options);  // on its engines

}  // namespace takt

#endif  // TAKT_SIM_REPLAY_H_
