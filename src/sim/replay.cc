#include "takt/sim/replay.h"

#include "takt/base/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "sim/typical_pace.h"
#include "takt/model/call_time.h"
#include "takt/router.h"
#include "takt/scheduler.h"
#include "takt/sim/virtual_cluster.h"
#include "takt/workload/sessions.h"
#include "takt/workload/transform.h"
#include "takt/workload/validate.h"

namespace takt {
namespace {

EnginePace PaceOf(const ReplayOptions& options, std::int32_t instance) {
  return TypicalPace(options.profile_of(instance).cost, options.engine.limits);
}

std::int64_t KvTokens(const ReplayOptions& options, std::int32_t instance) {
  return options.kv_tokens > 0 ? options.kv_tokens : options.profile_of(instance).kv_capacity_tokens;
}

SchedulerOptions SchedulerOptionsOf(const ReplayOptions& options, std::int32_t instance) {
  SchedulerOptions s = options.scheduler;
  s.max_running = options.engine.limits.max_seqs;
  s.max_step_tokens = std::min(options.engine.limits.tokens, options.engine.limits.prefill_tokens);
  s.max_step_seqs = options.engine.limits.max_seqs;
  if (s.kv == KvMode::kLedger) {
    const std::int64_t blocks = KvTokens(options, instance) / std::max(s.kv_block_tokens.value, 1);
    s.kv_blocks = {static_cast<std::int32_t>(std::min<std::int64_t>(blocks, Blocks::Max().value))};
    const std::int64_t copies = options.host_kv_tokens / std::max(s.kv_block_tokens.value, 1);
    const std::int64_t most = Blocks::Max().value - s.cpu_blocks.value;
    const Blocks more{static_cast<std::int32_t>(std::min(copies, most))};
    s.cpu_blocks += more, s.prefix_cpu_blocks += more;
  }
  return s;
}

PreparedCostModel Prepare(const Profile& profile, const ReplayOptions& options) {
  const std::int64_t most = std::int64_t{options.engine.limits.tokens.value} + options.engine.limits.max_seqs;
  return PreparedCostModel(profile.cost, std::min<std::int64_t>(most, 1 << 16),
                           std::min(options.engine.limits.max_seqs, 1 << 14));
}

using Costs = std::vector<std::shared_ptr<const PreparedCostModel>>;  // by instance

Costs CostsOf(const ReplayOptions& options) {
  Costs costs;
  if (options.engines.empty()) {
    costs.assign(static_cast<std::size_t>(options.instances),
                 std::make_shared<const PreparedCostModel>(Prepare(options.profile, options)));
  }
  for (const Profile& profile : options.engines) {
    costs.push_back(std::make_shared<const PreparedCostModel>(Prepare(profile, options)));
  }
  return costs;
}

// Returns the model of instance i. Columns of the workload count from 1; models without a column follow them.
ModelId ModelOf(const Workload& workload, const ReplayOptions& options, std::int32_t instance) {
  const std::string& model = options.profile_of(instance).model;
  if (const std::size_t m = workload.ModelIndex(model); m != Workload::kNoModel) return {m + 1};
  std::int32_t first = 0;
  while (options.profile_of(first).model != model) ++first;
  return {workload.models.size() + static_cast<std::size_t>(first) + 1};
}

// Returns the decode time of a full batch divided by its size [s], with contexts of typical size.
double TokenSeconds(const ReplayOptions& options, const PreparedCostModel& cost, std::int32_t instance) {
  constexpr std::int64_t kContext = 1024;
  std::int64_t batch = options.engine.limits.max_seqs;
  if (options.scheduler.kv == KvMode::kLedger) batch = std::min(batch, KvTokens(options, instance) / kContext);
  batch = std::clamp<std::int64_t>(batch, 1, 1 << 14);
  StepLoad load;
  for (std::int64_t i = 0; i < batch; ++i) load.AddDecode(kContext);
  return ToSeconds(VirtualStepTime(cost, load)) / static_cast<double>(batch);
}

// Returns the router of the instances from `first` to before `end`.
absl::StatusOr<std::unique_ptr<VirtualRouter>> RouterOf(const Workload& workload, const ReplayOptions& options,
                                                        const Costs& costs, std::int32_t first, std::int32_t end,
                                                        std::int32_t prefill = 0) {
  const PolicyFactory& factory = options.router_policy ? options.router_policy : options.policy;
  const RouterOptions own{.max_outstanding = options.max_outstanding,
                          .fail_unfit = true,
                          .budgets = options.budgets,
                          .workflows = {.silence = Duration::max()},
                          .local_tokens = options.cluster.deflect_tokens,
                          .local_if_sooner = options.cluster.local_if_sooner,
                          .kv_link_gb_s = options.cluster.kv_link_gb_s};
  std::unique_ptr<VirtualRouter> router;
  AnyPolicy policy = factory(PaceOf(options, first));
  if (options.system.router) {
    absl::StatusOr<std::unique_ptr<VirtualRouter>> made = options.system.router(own, policy, options.placement);
    if (!made.ok()) return made;
    router = *std::move(made);
  } else {
    absl::StatusOr<Router> made = Router::Create(own, std::move(policy), options.placement);
    if (!made.ok()) return made.status();
    router = std::make_unique<VirtualRouterOf<Router>>(std::make_shared<Router>(*std::move(made)));
  }
  for (std::int32_t i = first; i < end; ++i) {
    Instance instance{.id = {static_cast<std::uint64_t>(i) + 1},
                      .profile = router->AddProfile({options.profile_of(i).id, costs[static_cast<std::size_t>(i)]}),
                      .model = ModelOf(workload, options, i),
                      .token_s = TokenSeconds(options, *costs[static_cast<std::size_t>(i)], i)};
    if (options.scheduler.kv == KvMode::kLedger) {
      const std::int64_t tokens = KvTokens(options, i);
      instance.kv_tokens = {static_cast<std::int32_t>(std::min<std::int64_t>(tokens, Tokens::Max().value))};
    }
    if (prefill > 0) instance.role = i < prefill ? InstanceRole::kPrefill : InstanceRole::kDecode;
    instance.max_adapters = std::min(options.engine.limits.adapters, LoadedAdapters::kMost);
    router->On(InstanceUp{instance}, TimePoint{}, {});
  }
  return router;
}

// The scheduler of an engine: takt's own, or that of a system.
class EngineScheduler {
 public:
  explicit EngineScheduler(Scheduler own) : own_(std::move(own)) {}
  explicit EngineScheduler(std::unique_ptr<VirtualScheduler> system) : system_(std::move(system)) {}

  template <class E>
  void On(const E& event, TimePoint now) {
    if (own_) own_->On(event, now);
    else if constexpr (std::convertible_to<E, Event>) system_->On(event, now);
  }
  const StepPlan& Plan(TimePoint now, const StepLimits& limits) {
    return own_ ? own_->Plan(now, limits) : system_->Plan(now, limits);
  }
  void Commit(const StepResult& result, TimePoint now) {
    if (own_) own_->Commit(result, now);
    else system_->Commit(result, now);
  }

  const Stats& stats() const { return inside().stats(); }
  const SchedulerOptions& options() const { return inside().options(); }
  KvUse kv() const { return inside().kv(); }
  std::int64_t alive() const { return inside().alive(); }
  std::int64_t waiting() const { return inside().waiting(); }
  std::int64_t running() const { return inside().running(); }
  WaitsFor HeadWaitsFor() const { return inside().HeadWaitsFor(); }
  Explanation Explain(RequestId id) const { return inside().Explain(id); }

 private:
  const Scheduler& inside() const { return own_ ? *own_ : system_->scheduler(); }

  std::optional<Scheduler> own_ = {};
  std::unique_ptr<VirtualScheduler> system_ = {};
};
using Cluster = VirtualCluster<EngineScheduler>;

void Add(Stats& sum, const Stats& more) {
#define TAKT_ADD_STAT(name, text) sum.name += more.name;
  TAKT_STATS(TAKT_ADD_STAT)
#undef TAKT_ADD_STAT
}

// Adds up the engines' counters.
void AddEngines(const Cluster& cluster, ReplayResult& result) {
  double used = 0, peak = 0;
  for (const auto& engine : cluster.engines()) {
    Add(result.stats, engine.scheduler().stats());
    result.steps += engine.steps();
    result.request_steps += engine.request_steps();
    result.metrics.adapter_loads += engine.adapter_loads();
    result.kv_blocks += engine.scheduler().kv().total.value;
    used += engine.kv_blocks_used().mean();
    peak += engine.kv_blocks_used().peak();
  }
  if (result.kv_blocks > 0) {
    result.metrics.kv_mean = used / static_cast<double>(result.kv_blocks);
    result.metrics.kv_peak = peak / static_cast<double>(result.kv_blocks);
  }
}

// Returns the share of workflows whose last answer came from a model that solves them.
std::optional<double> ScoreOf(const Workload& workload, const WorkloadProgress& progress,
                              std::span<const RequestRecord> records) {
  if (workload.models.empty() || workload.workflows.empty()) return std::nullopt;
  std::int64_t solved = 0;
  for (std::size_t w = 0; w < workload.workflows.size(); ++w) {
    const WorkloadWorkflow& workflow = workload.workflows[w];
    if (progress.workflows()[w].outcome != Outcome::kCompleted) continue;
    std::uint32_t last = workflow.first_call;
    for (std::uint32_t c = last; c < workflow.first_call + workflow.calls; ++c) {
      if (records[c].end >= records[last].end) last = c;
    }
    const std::size_t model = progress.ModelOf(last);
    solved += model != Workload::kNoModel && (workflow.solved_by >> model & 1) != 0 ? 1 : 0;
  }
  return static_cast<double>(solved) / static_cast<double>(workload.workflows.size());
}

IsolatedLatencies Isolated(const Workload& workload, const ReplayOptions& options, const Costs& costs) {
  const auto of = [&](std::size_t i) {
    const std::size_t model = workload.ModelIndex(options.profile_of(static_cast<std::int32_t>(i)).model);
    return MeasureIsolated(workload, *costs[i], options.engine.limits, model);
  };
  IsolatedLatencies least = of(0);
  for (std::size_t i = 1; i < options.engines.size(); ++i) {
    const IsolatedLatencies other = of(i);
    const auto take_less = [](std::vector<Duration>& all, const std::vector<Duration>& others) {
      for (std::size_t j = 0; j < all.size(); ++j) all[j] = std::min(all[j], others[j]);
    };
    take_less(least.requests, other.requests);
    take_less(least.workflows, other.workflows);
  }
  return least;
}

// Prefill time by tokens and by the tokens before them, on an engine that does nothing else. Excludes the fixed cost of
// steps, so the split of a prompt into chunks does not matter.
class PrefillTime {
 public:
  PrefillTime(const PreparedCostModel& cost, std::int64_t chunk) {
    const double tokens = static_cast<double>(chunk);
    const auto at = [&](double work) {
      return ToSeconds(VirtualStepTime(cost, {.prefill_tokens = chunk, .prefill_work = work}));
    };
    constexpr double kWork = 1e9;
    token_s_ = at(0) / tokens;
    context_s_ = (at(kWork) - at(0)) / kWork;
  }

  // Returns the time of the tokens from..to-1 of a prompt.
  double Of(std::int64_t from, std::int64_t to) const {
    const double first = static_cast<double>(from), end = static_cast<double>(to);
    return token_s_ * (end - first) + context_s_ * (end * end - first * first) / 2;
  }

 private:
  double token_s_, context_s_;
};

// Tokens recomputed after a preemption count as the start of the prompt.
SessionFigures SessionsIn(const Window& window, const Workload& workload, const ReplayOptions& options,
                          const Costs& costs, std::span<const RequestRecord> records,
                          std::span<const WorkflowRecord> workflows) {
  const StepLimits& limits = options.engine.limits;
  const std::int64_t chunk = std::min({limits.tokens.value, limits.prefill_tokens.value, limits.chunk_tokens.value});
  std::vector<PrefillTime> times;
  for (const auto& cost : costs) times.emplace_back(*cost, std::max<std::int64_t>(chunk, 1));
  const std::vector<std::int32_t> ever_cached = TokensEverCached(workload);
  SessionFigures figures;
  std::int64_t tokens = 0, cached = 0;
  double seconds = 0, least_seconds = 0;
  std::vector<double> waits;
  constexpr std::uint32_t kNone = UINT32_MAX;
  std::vector<std::uint32_t> instance_of(workflows.size(), kNone);  // instance of the workflow's previous turn
  std::int64_t followers = 0, moved = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const RequestRecord& r = records[i];
    const bool waits_still = r.gated && r.first_step == kNever;
    if (waits_still || (r.gated && window.contains(r.first_step))) {
      waits.push_back(ToSeconds(Between(r.arrival, waits_still ? window.until : r.first_step)));
    }
    figures.turns += r.outcome == Outcome::kCompleted && window.contains(r.end) ? 1 : 0;
    if (r.first_step == kNever) continue;
    const std::uint32_t before = std::exchange(instance_of[r.workflow], r.instance);
    if (!window.contains(r.first_step)) continue;
    followers += before != kNone ? 1 : 0;
    moved += before != kNone && before != r.instance ? 1 : 0;
    const PrefillTime& time = times[r.instance];
    const std::int32_t prompt = workload.calls[i].prompt_tokens;
    tokens += prompt;
    cached += r.cached_tokens;
    seconds += time.Of(r.cached_tokens, prompt) + time.Of(0, r.recomputed_tokens);
    least_seconds += time.Of(ever_cached[i], prompt);
  }
  for (const WorkflowRecord& w : workflows) {
    figures.sessions += w.outcome == Outcome::kCompleted && window.contains(w.end) ? 1 : 0;
  }
  figures.gate_wait = Summary::Of(waits);
  if (tokens > 0) figures.cached_share = static_cast<double>(cached) / static_cast<double>(tokens);
  if (followers > 0) figures.moved_share = static_cast<double>(moved) / static_cast<double>(followers);
  if (least_seconds > 0) figures.prefill_excess = seconds / least_seconds;
  return figures;
}

double CachedShare(const Workload& workload, std::span<const RequestRecord> records) {
  std::int64_t tokens = 0, cached = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].first_step == kNever) continue;
    tokens += workload.calls[i].prompt_tokens;
    cached += records[i].cached_tokens;
  }
  return tokens > 0 ? static_cast<double>(cached) / static_cast<double>(tokens) : 0;
}

absl::StatusOr<EngineScheduler> SchedulerOf(const ReplayOptions& options, std::int32_t instance,
                                            const NextUses& next_uses) {
  const EnginePace pace = PaceOf(options, instance);
  const SchedulerOptions own = SchedulerOptionsOf(options, instance);
  if (options.system.scheduler) {
    absl::StatusOr<std::unique_ptr<VirtualScheduler>> made = options.system.scheduler(own, pace);
    if (!made.ok()) return made.status();
    return EngineScheduler(*std::move(made));
  }
  absl::StatusOr<Scheduler> scheduler = Scheduler::Create(own, options.policy(pace), options.pause(pace.memory));
  if (!scheduler.ok()) return scheduler.status();
  if (options.retention != nullptr) {
    const AnyGate gate = options.gate != nullptr ? options.gate(pace.prefill) : AnyGate();
    AnyRetention retention = options.retention(pace.prefill);
    retention.Read(&next_uses);
    if (absl::Status set = scheduler->SetRetention(retention, gate); !set.ok()) return set;
  }
  return EngineScheduler(*std::move(scheduler));
}

absl::StatusOr<ReplayResult> Run(const Workload& workload, const ReplayOptions& options) {
  const Costs costs = CostsOf(options);
  VirtualClusterOptions around = options.cluster;
  around.declare_workflows = options.budgets.has_value();
  around.end_workflows = options.budgets || options.system.router;
  around.send_prefixes = options.scheduler.prefix_cache;
  around.tell_turns = options.retention != nullptr;
  Cluster cluster(workload, options.estimates, options.seed, std::move(around));
  for (std::int32_t i = 0; i < options.instance_count(); ++i) {
    absl::StatusOr<EngineScheduler> scheduler = SchedulerOf(options, i, cluster.next_uses());
    if (!scheduler.ok()) return scheduler.status();
    VirtualEngineOptions engine = options.engine;
    engine.model = workload.ModelIndex(options.profile_of(i).model);
    cluster.AddEngine(*std::move(scheduler), *costs[static_cast<std::size_t>(i)], engine);
  }
  if (options.forecasts != nullptr) {
    std::vector<std::size_t> models;
    for (const auto& engine : cluster.engines()) models.push_back(engine.options().model);
    std::ranges::sort(models);
    models.erase(std::unique(models.begin(), models.end()), models.end());
    if (absl::Status s = cluster.estimator().Use(options.forecasts, std::move(models)); !s.ok()) return s;
  }
  if (options.instance_count() > 1 || options.budgets || options.system.router) {
    const std::int32_t prefill = options.cluster.prefill_engines, all = options.instance_count();
    const bool roles = options.cluster.roles && prefill > 0;
    auto router = RouterOf(workload, options, costs, 0, prefill > 0 && !roles ? prefill : all, roles ? prefill : 0);
    if (!router.ok()) return router.status();
    cluster.SetRouter(*std::move(router));
    if (roles) {
      cluster.SetApart();
    } else if (prefill > 0) {
      auto decode_router = RouterOf(workload, options, costs, prefill, all);
      if (!decode_router.ok()) return decode_router.status();
      cluster.SetDecodeRouter(*std::move(decode_router));
    }
  }

  ReplayResult result;
  result.stopped = !cluster.Run();
  if (cluster.stalled()) {
    std::string states;
    for (const auto& engine : cluster.engines()) {
      states += fmt::format(" [{} alive, idle: {}]", engine.scheduler().alive(), Name(engine.idle()));
    }
    return absl::InternalError(
        fmt::format("the run stalled under '{}':{}", options.policy(PaceOf(options, 0)).spec(), states));
  }
  cluster.NoteGated();
  const IsolatedLatencies isolated = Isolated(workload, options, costs);
  if (options.cluster.horizon > Duration{0}) {
    const TimePoint end(options.cluster.horizon);
    result.window = {TimePoint(options.warm_up), result.stopped ? cluster.now() : end};
  }
  result.metrics = Summarize(cluster.requests().records, cluster.workflows(), isolated, options.slo, result.window);
  if (result.window || !workload.prefix_runs.empty()) {
    const Window window = result.window.value_or(Window{TimePoint{}, cluster.now()});
    result.metrics.sessions =
        SessionsIn(window, workload, options, costs, cluster.requests().records, cluster.workflows());
  }
  if (options.scheduler.prefix_cache) result.metrics.cached_share = CachedShare(workload, cluster.requests().records);
  result.metrics.score = ScoreOf(workload, cluster.progress(), cluster.requests().records);
  AddEngines(cluster, result);
  result.series = cluster.series();
  result.estimates = cluster.estimator().errors();
  result.workflows = cluster.workflows();
  result.requests = cluster.TakeRequests().records;
  return result;
}

// ---- only latencies
// --------------------------------------------------------------------------------------------------

Duration AloneWithTools(const Workload& workload, std::size_t index, std::size_t model, const PreparedCostModel& cost,
                        std::int64_t chunk) {
  const WorkloadCall& call = workload.calls[index];
  LoneCall alone(cost, chunk, call.prompt_tokens);
  Duration total{0};
  for (const WorkloadTool& tool : workload.tools_of(call)) {
    total = Sum(total, Sum(alone.Generate(tool.after_tokens), tool.duration));
    alone.Return(tool.returned_tokens);
  }
  return Sum(total, alone.Generate(workload.OutputOf(index, model)));
}

}  // namespace

IsolatedLatencies MeasureIsolated(const Workload& workload, const PreparedCostModel& cost, const StepLimits& limits,
                                  std::size_t model) {
  const std::int64_t chunk = std::min({limits.tokens.value, limits.prefill_tokens.value, limits.chunk_tokens.value});
  IsolatedLatencies latencies;
  latencies.requests.resize(workload.calls.size());
  latencies.workflows.reserve(workload.workflows.size());
  std::vector<Duration> end;  // ends of the workflow's calls, relative to its arrival
  for (const WorkloadWorkflow& workflow : workload.workflows) {
    end.assign(workflow.calls, Duration{0});
    for (std::uint32_t i = 0; i < workflow.calls; ++i) {
      const WorkloadCall& call = workload.calls[workflow.first_call + i];
      Duration start{0};
      for (const std::uint32_t before : workload.predecessors_of(call)) start = std::max(start, end[before]);
      const Duration own = AloneWithTools(workload, workflow.first_call + std::size_t{i}, model, cost, chunk);
      latencies.requests[workflow.first_call + i] = own;
      end[i] = Sum(Sum(start, call.delay), own);
    }
    latencies.workflows.push_back(*std::max_element(end.begin(), end.end()));
  }
  return latencies;
}

IsolatedLatencies MeasureIsolated(const Workload& workload, const ReplayOptions& options) {
  return Isolated(workload, options, CostsOf(options));
}

absl::Status ReplayOptions::Validate() const {
  Faults faults;
  faults.Expect(policy != nullptr, "policy is missing");
  faults.Expect(pause != nullptr, "pause is missing");
  faults.Expect(instance_count() >= 1 && instance_count() <= 1024, "instances", instance_count(), "must be 1 to 1024");
  faults.Expect(max_outstanding >= 1, "max_outstanding", max_outstanding, "must be at least 1");
  faults.Expect(cluster.rate_scale > 0 && cluster.rate_scale <= 1e9, "rate_scale", cluster.rate_scale,
                "must be a positive number up to 1e9");
  faults.Expect(cluster.report_interval > Duration{0}, "report_interval", ToSeconds(cluster.report_interval),
                "must be a positive number of seconds");
  faults.Expect(cluster.front_end >= Duration{0} && cluster.front_end <= std::chrono::seconds(3600), "front_end",
                ToSeconds(cluster.front_end), "must be 0 to 3,600 s");
  faults.Expect(cluster.front_end_token >= Duration{0} && cluster.front_end_token <= std::chrono::seconds(1),
                "front_end_token", ToSeconds(cluster.front_end_token), "must be 0 to 1 s");
  faults.Expect(cluster.closed_loop >= 0, "closed_loop", cluster.closed_loop, "must not be negative");
  faults.Expect(cluster.horizon >= Duration{0}, "horizon", ToSeconds(cluster.horizon), "must not be negative");
  faults.Expect(warm_up >= Duration{0} && (warm_up == Duration{0} || warm_up < cluster.horizon), "warm_up",
                ToSeconds(warm_up), "must be at least 0 and below the horizon");
  faults.Expect(cluster.cold_at >= Duration{0} && (cluster.cold_at == Duration{0} || engine.overlap == 0), "cold_at",
                ToSeconds(cluster.cold_at), "must be at least 0, and 0 with overlap");
  faults.Expect(cluster.prefill_engines >= 0 && cluster.prefill_engines < instance_count(), "prefill_engines",
                cluster.prefill_engines, "must be at least 0 and below the number of instances");
  if (cluster.prefill_engines > 0) {
    faults.Expect(cluster.kv_link_gb_s > 0 && cluster.kv_link_gb_s <= 1e9, "kv_link_gb_s", cluster.kv_link_gb_s,
                  "must be a positive number up to 1e9");
    faults.Expect(cluster.deflect_tokens >= 0, "deflect_tokens", cluster.deflect_tokens, "must not be negative");
    faults.Expect(!budgets && retention == nullptr && forecasts == nullptr && !system.router, "prefill_engines",
                  cluster.prefill_engines, "must be 0 with budgets, retention, forecasts or the router of a system");
    faults.Expect(profile_of(0).cost.kv_bytes_per_token > 0, "prefill_engines", cluster.prefill_engines,
                  "must be 0, because the profile lacks the KV bytes per token");
    for (std::int32_t i = 1; i < instance_count(); ++i) {
      if (profile_of(i).model == profile_of(0).model) continue;
      faults.Add(fmt::format("prefill_engines: model '{}' and model '{}' have different KV; expected one model",
                             profile_of(0).model, profile_of(i).model));
      break;
    }
  }
  faults.Expect(!system.scheduler || retention == nullptr, "retention is unsupported by the scheduler of a system");
  faults.Expect(limit >= 0, "limit", limit, "must not be negative");
  faults.ExpectOptions(engine);
  faults.ExpectOptions(engine.limits, "limits.");
  faults.Expect(host_kv_tokens >= 0, "host_kv_tokens", host_kv_tokens, "must not be negative");
  faults.Expect(scheduler.kv != KvMode::kOracle, "scheduler.kv", "oracle", "the simulator has no oracle");
  const auto profiles = static_cast<std::int32_t>(std::max<std::size_t>(engines.size(), 1));
  for (std::int32_t i = 0; i < profiles; ++i) {
    if (scheduler.kv == KvMode::kLedger) {
      const std::int64_t tokens = KvTokens(*this, i);
      faults.Expect(tokens > 0, "kv_tokens", kv_tokens, "is missing, because the profile has no KV capacity");
      faults.Expect(tokens <= 0 || tokens >= scheduler.kv_block_tokens.value, "kv_tokens", tokens,
                    "must hold at least one block of kv_block_tokens");
    }
    if (const std::string cost = profile_of(i).cost.Faults(); !cost.empty()) {
      faults.Add(fmt::format("profile '{}': {}", profile_of(i).id, cost));
    }
  }
  return faults.ToStatus();
}

absl::StatusOr<ReplayResult> Replay(const Workload& workload, const ReplayOptions& options) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if (absl::Status status = takt::Validate(workload); !status.ok()) return status;
  if (options.limit > 0 && std::cmp_less(options.limit, workload.workflows.size())) {
    Workload first = workload;
    Truncate(first, static_cast<std::size_t>(options.limit));
    ReplayOptions rest = options;
    rest.limit = 0;
    return Replay(first, rest);
  }
  if (options.cluster.prefill_engines > 0 && !workload.tools.empty()) {
    return absl::InvalidArgumentError("prefill_engines: are unsupported for a workload with tool calls");
  }
  const bool timed = !options.cluster.all_at_once && options.cluster.closed_loop == 0 && !workload.workflows.empty();
  if (timed &&
      ToSeconds(workload.workflows.back().arrival) / options.cluster.rate_scale > ToSeconds(kMaxWorkloadTime)) {
    return absl::InvalidArgumentError(
        fmt::format("rate_scale is {}: the last arrival would be after 1e9 s", options.cluster.rate_scale));
  }
  return Run(workload, options);
}

absl::StatusOr<double> MeasureSaturation(const Workload& workload, ReplayOptions options) {
  options.policy = ReplayOptions().policy;
  options.estimates = {};
  options.system = {};
  options.cluster.all_at_once = true;
  options.cluster.closed_loop = 0;
  std::int64_t tokens = 0, tokens_full = 0;  // tokens in total, and up to the last step that left requests waiting
  TimePoint full_until{};
  options.cluster.on_step = [&](const VirtualStep& step) {
    tokens += step.plan.tokens.value;
    if (step.waiting == 0) return;
    tokens_full = tokens;
    full_until = std::max(full_until, step.end);
  };
  const absl::StatusOr<ReplayResult> result = Replay(workload, options);
  if (!result.ok()) return result.status();
  if (tokens_full == 0) return result->metrics.throughput_rps;
  const double share = static_cast<double>(tokens_full) / static_cast<double>(tokens);
  return static_cast<double>(result->metrics.completed) * share / ToSeconds(full_until);
}

double RateScaleForLoad(const Workload& workload, double load, double saturation, std::int64_t limit) {
  std::size_t workflows = workload.workflows.size();
  if (limit > 0) workflows = std::min(workflows, static_cast<std::size_t>(limit));
  if (workflows < 2) return 0;
  std::size_t calls = 0;
  for (std::size_t w = 0; w + 1 < workflows; ++w) calls += workload.workflows[w].calls;
  const double span = ToSeconds(Between(workload.workflows[0].arrival, workload.workflows[workflows - 1].arrival));
  return span > 0 ? load * saturation * span / static_cast<double>(calls) : 0;
}

}  // namespace takt
