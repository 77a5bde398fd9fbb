#include "lab/kairos/study.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/numeric/summary.h"
#include "takt/placement/registry.h"
#include "takt/placement/time_slot_packer.h"
#include "takt/policy/registry.h"
#include "takt/systems/replay.h"
#include "takt/workload/generate.h"
#include "takt/workload/transform.h"

namespace takt::tool {
namespace {

constexpr std::int32_t kInstances = 4;
constexpr std::size_t kSample = 2000;  // workflows for measuring the capacity

// Returns the agent's number of stages to the end as its developers would give it, without loops.
std::int32_t DepthOf(std::string_view agent) {
  constexpr std::pair<std::string_view, std::int32_t> kDepths[] = {
      {"Router", 2},         {"Math", 1},      {"Humanities", 1},     {"Research", 2}, {"Writer", 1},
      {"ProductManager", 5}, {"Architect", 4}, {"ProjectManager", 3}, {"Engineer", 2}, {"QA", 1}};
  for (const auto& [name, depth] : kDepths) {
    if (name == agent) return depth;
  }
  return 1;
}

// Returns the policy with the depths of all agents.
PolicyFactory WithDepths(PolicyFactory policy, const Workload& workload) {
  auto table = std::make_shared<AgentRanks>();
  for (std::uint64_t i = 1; i < workload.names.size(); ++i) {
    table->ranks.push_back({{i}, 0, 0, DepthOf(workload.names[i])});
  }
  return [policy = std::move(policy), epoch = Epoch{.agent_ranks = std::move(table)}](const EnginePace& pace) {
    AnyPolicy with = policy(pace);
    with.Observe(epoch, TimePoint{});
    return with;
  };
}

KairosFigures FiguresOf(const Workload& workload, const ReplayResult& result) {
  KairosFigures f;
  std::vector<double> per_token;
  Moments queued;
  std::int64_t preempted = 0, computed = 0;
  for (std::size_t w = 0; w < workload.workflows.size(); ++w) {
    const WorkflowRecord& record = result.workflows[w];
    if (record.outcome != Outcome::kCompleted) continue;
    const double took = ToSeconds(record.end - record.arrival);
    double tokens = 0, waited = 0;
    for (std::uint32_t c = 0; c < workload.workflows[w].calls; ++c) {
      const RequestRecord& call = result.requests[workload.workflows[w].first_call + c];
      tokens += call.output_tokens;
      waited += ToSeconds(call.first_step - call.arrival);
      preempted += call.preemptions > 0 ? 1 : 0;
      computed += workload.calls[workload.workflows[w].first_call + c].prompt_tokens + call.output_tokens;
    }
    per_token.push_back(1e3 * took / tokens);
    queued.Add(100 * waited / took);
  }
  const Summary s = Summary::Of(per_token);
  f.mean = s.mean, f.p90 = s.p90, f.p95 = s.p95, f.p99 = s.p99;
  f.latency = result.metrics.workflow.mean;
  f.queued = queued.mean();
  f.preempted = 100 * static_cast<double>(preempted) / static_cast<double>(result.requests.size());
  const auto again = static_cast<double>(result.metrics.recomputed_tokens);
  f.recomputed = 100 * again / (again + static_cast<double>(computed));
  f.kv_peak = result.metrics.kv_peak;
  const TimePoint last = result.workflows.back().arrival;
  f.rate = static_cast<double>(result.workflows.size()) / std::max(1e-9, ToSeconds(last));
  f.drained = result.metrics.makespan;
  return f;
}

ReplayOptions EngineOptions(const Profile& profile, std::int64_t kv_tokens) {
  ReplayOptions options;
  options.profile = profile;
  options.kv_tokens = kv_tokens;
  options.instances = kInstances;
  options.engine.limits = kStepLimits;
  return options;
}

// The profiling of the paper's decode rate (section 6), on workflows that all arrive at once [tokens/s].
absl::StatusOr<double> MeasureDecodeRate(const Workload& workload, ReplayOptions options) {
  options.cluster.all_at_once = true;
  const absl::StatusOr<ReplayResult> result = Replay(workload, options);
  if (!result.ok()) return result.status();
  double tokens = 0, seconds = 0;
  for (const RequestRecord& r : result->requests) {
    if (r.preemptions > 0 || r.output_tokens < 2) continue;
    tokens += r.output_tokens - 1, seconds += ToSeconds(r.end - r.first_token);
  }
  return tokens / std::max(seconds, 1e-9);
}

}  // namespace

KairosStudy::KairosStudy(const Workload& arrivals, double minutes, SeedRange seeds, std::int64_t kv_tokens,
                         double spread)
    : Study(seeds), minutes_(minutes), kv_tokens_(kv_tokens), spread_(spread) {
  for (const WorkloadWorkflow& w : arrivals.workflows) arrivals_.push_back(w.arrival);
  for (const KairosModel model : {KairosModel::k8B, KairosModel::k13B}) {
    profiles_.push_back(*FindProfile(ProfileOf(model)));
  }
}

// Makes the workflows for the plan's minutes at full load, from a stretched window of the trace. They are the same at
// all loads.
absl::Status KairosStudy::Prepare(const KairosSetup& setup) {
  KairosGround& ground = grounds_[KeyOf(setup)];
  if (!ground.workloads.empty()) return absl::OkStatus();
  absl::StatusOr<GeneratorOptions> generator =
      ParseGeneratorSpec(fmt::format("gen:kairos,app={},rate=1", kKairosScenarios[setup.scenario]));
  if (!generator.ok()) return generator.status();
  for (WorkflowTemplate& workflow : generator->templates) {
    for (StageTemplate& stage : workflow.stages) stage.output.b *= setup.spread > 0 ? setup.spread : spread_;
  }
  const ReplayOptions options = EngineOptions(profile(setup.model), KvTokensOf(setup.model, setup.kv_tokens));
  const auto generate = [&](std::size_t workflows, std::uint64_t seed) {
    generator->workflows = static_cast<std::int64_t>(workflows), generator->seed = seed;
    return GenerateWorkload(*generator);
  };
  const absl::StatusOr<Workload> sample = generate(kSample, 1000);
  if (!sample.ok()) return sample.status();
  const absl::StatusOr<double> saturation = MeasureSaturation(*sample, options);
  if (!saturation.ok()) return saturation.status();
  ground.saturation = *saturation;
  ground.workflows_per_s =
      *saturation * static_cast<double>(sample->workflows.size()) / static_cast<double>(sample->calls.size());
  const absl::StatusOr<double> rate = MeasureDecodeRate(*sample, options);
  if (!rate.ok()) return rate.status();
  ground.decode_rate = *rate;
  const auto n = static_cast<std::size_t>(std::clamp(std::round(ground.workflows_per_s * minutes_ * 60), 20.0,
                                                     static_cast<double>(arrivals_.size()) * 0.8));
  for (std::size_t s = 0; s < static_cast<std::size_t>(seeds()); ++s) {
    const std::uint64_t seed = seed_range().At(s);
    absl::StatusOr<Workload> workload = generate(n, seed);
    if (!workload.ok()) return workload.status();
    Random random(seed);
    const std::size_t from = random.Below(arrivals_.size() - n + 1);
    std::vector<TimePoint> times(arrivals_.begin() + static_cast<std::ptrdiff_t>(from),
                                 arrivals_.begin() + static_cast<std::ptrdiff_t>(from + n));
    const Duration start = times.front().time_since_epoch();
    for (TimePoint& t : times) t -= start;
    if (absl::Status set = SetArrivals(*workload, times); !set.ok()) return set;
    ground.workloads.push_back(*std::move(workload));
  }
  return absl::OkStatus();
}

ReplayOptions KairosOptionsOf(const KairosSetup& setup, const KairosStudy& study, const Workload& workload,
                              std::uint64_t seed) {
  const KairosSystem& system = setup.system;
  ReplayOptions options = EngineOptions(study.profile(setup.model), study.KvTokensOf(setup.model, setup.kv_tokens));
  options.seed = seed;
  options.policy = *MakePolicyFactory(system.policy);
  options.placement = *MakePlacement(system.placement);
  options.cluster.rate_scale = setup.calls_per_s > 0
                                   ? RateScaleForLoad(workload, setup.calls_per_s, 1)
                                   : RateScaleForLoad(workload, setup.load, study.ground(setup).saturation);
  options.estimates = {system.knows == Knows::kTruth ? EstimateKind::kOracle : EstimateKind::kNone, 0};
  if (system.placement == "time_slot_packer") {
    TimeSlotPacker packer = systems::KairosPacker();
    packer.late = system.counts_late;
    if (system.thresholds) packer.danger = TimeSlotPacker().danger, packer.recovered = TimeSlotPacker().recovered;
    if (!system.rate_of_model) packer.decode_rate = study.ground(setup).decode_rate, packer.cost_batch = 0;
    options.placement = packer;
  }
  // If a placement chooses, requests queue before the instances.
  if (system.placement != "round_robin") options.max_outstanding = kStepLimits.max_seqs;
  if (system.knows == Knows::kDepths) {
    options.policy = WithDepths(std::move(options.policy), workload);
  } else if (system.knows == Knows::kLearns || system.placement == "time_slot_packer") {
    systems::KairosOptions kairos;
    kairos.learner = {.order = {.by = system.by}};  // also distributions that have not converged: runs are short
    systems::UseKairos(kairos, options);
  }
  return options;
}

absl::Status KairosStudy::Run(int threads, ProgressBar& bar) {
  for (std::size_t c = 0; c < size(); ++c) {
    if (absl::Status s = Prepare((*this)[c].setup); !s.ok()) return s;
  }
  return RunCells(threads, "replaying", bar,
                  [&](const KairosSetup& setup, std::uint64_t seed,
                      const RunProgress& progress) -> absl::StatusOr<std::optional<KairosFigures>> {
                    const Workload& workload = ground(setup).workloads[seed_range().IndexOf(seed)];
                    ReplayOptions options = KairosOptionsOf(setup, *this, workload, seed);
                    options.cluster.progress = progress;
                    const absl::StatusOr<ReplayResult> result = Replay(workload, options);
                    if (!result.ok()) return result.status();
                    if (result->stopped) return std::nullopt;
                    return FiguresOf(workload, *result);
                  });
}

}  // namespace takt::tool
