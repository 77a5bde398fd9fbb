#include "takt/systems/replay.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/base/spec_parser.h"
#include "takt/sim/virtual_engine.h"
#include "takt/sim/virtual_system.h"

namespace takt::systems {
namespace {

// A search runs between two moments of the run.
class FlowRouter final : public VirtualRouterOf<HexGenFlow> {
 public:
  using VirtualRouterOf::VirtualRouterOf;
  std::optional<Epoch> Advance(TimePoint now, const Progress& progress) override {
    if (const std::optional<AlphaSearch> search = inside().Advance(now)) {
      inside().Finished(SearchAlpha(*search, SerialFor, progress), now);
    }
    return std::nullopt;
  }
};

// Gives Chimera the facts of calls and the outcomes of workflows. A training runs between two moments of the run.
class ChimeraRun final : public VirtualRouter {
 public:
  ChimeraRun(std::shared_ptr<Chimera> inside, const Workload& workload, ChimeraScores scores)
      : inside_(std::move(inside)), workload_(workload), scores_(std::move(scores)), seen_(workload.workflows.size()) {}

  const Router& router() const override { return inside_->router(); }
  ProfileId AddProfile(InstanceProfile profile) override { return inside_->AddProfile(std::move(profile)); }
  std::span<const Placement> Place(TimePoint now) override { return inside_->Place(now); }
  TimePoint wake_at() const override { return inside_->wake_at(); }

  void On(const RouterEvent& event, TimePoint now, AgentId) override {
    if (const auto* arrived = std::get_if<Arrived>(&event)) return Arrive(arrived->request, now);
    if (const auto* up = std::get_if<InstanceUp>(&event)) {
      models_.resize(std::max(models_.size(), static_cast<std::size_t>(up->instance.id.value)));
      models_[up->instance.id.value - 1] = up->instance.model;
    }
    if (const auto* ended = std::get_if<RequestEnded>(&event)) See(*ended);
    const auto* over = std::get_if<WorkflowEnded>(&event);
    if (over != nullptr && !over->cancelled) inside_->Ended(over->workflow, SolvedBy(over->workflow), now);
    else inside_->On(event, now);
  }

  std::optional<Epoch> Advance(TimePoint now, const Progress& progress) override {
    if (scores_) return std::nullopt;
    if (inside_->lessons().workflows() >= train_at_) {
      train_at_ *= 2;
      if (auto trained = inside_->lessons().Train(SerialFor, progress); trained.ok()) inside_->Publish(*trained);
    }
    while (std::optional<Chimera::Batch> batch = inside_->TakeBatch(now)) {
      batch->Predict();
      inside_->Finish(*batch, now);
    }
    return std::nullopt;
  }

 private:
  // Ended calls of a workflow, their output, and the model of the last one.
  struct Seen {
    std::int32_t calls = 0;
    Tokens output{0};
    ModelId model = {};
  };

  void Arrive(Request request, TimePoint now) {
    const std::uint32_t call = VirtualRequests::IndexOf(request.id);
    const auto workflow = static_cast<std::uint32_t>(request.workflow.value - 1);
    if (scores_) {
      request.scores = scores_(workflow, call);
      return void(inside_->On(Arrived{request}, now));
    }
    const std::span<const float> features = workload_.features_of(call);
    const LengthInput input{.kind = workload_.workflows[workflow].name,
                            .stage = {request.stage.value << 32 | request.agent.value},
                            .prompt_tokens = request.prompt_tokens,
                            .calls_before = seen_[workflow].calls,
                            .tokens_before = seen_[workflow].output,
                            .sketch = features};
    inside_->Add(request, {input, features}, now);
  }

  void See(const RequestEnded& ended) {
    const RequestState* state = router().Find(ended.request);
    const InstanceId instance = router().InstanceOf(ended.request);
    if (state == nullptr || !instance || ended.failed || !ended.served) return;
    Seen& seen = seen_[state->request.workflow.value - 1];
    ++seen.calls;
    seen.output += ended.served->output;
    seen.model = models_[instance.value - 1];
  }

  std::optional<bool> SolvedBy(WorkflowId workflow) const {
    const std::uint64_t model = seen_[workflow.value - 1].model.value;  // columns of the workload count from 1
    if (model == 0 || model > workload_.models.size()) return std::nullopt;
    return (workload_.workflows[workflow.value - 1].solved_by >> (model - 1) & 1) != 0;
  }

  std::shared_ptr<Chimera> inside_;
  const Workload& workload_;
  ChimeraScores scores_;
  std::vector<Seen> seen_;  // by workflow
  std::vector<ModelId> models_;  // by instance
  std::uint64_t train_at_ = 32;  // ended workflows at the next training
};

// A router in front of one engine only passes requests on.
void PlaceBy(AnyPlacement placement, ReplayOptions& replay) {
  if (replay.instance_count() == 1) return;
  replay.placement = std::move(placement);
  replay.max_outstanding = replay.engine.limits.max_seqs;
}

absl::Status RunKairos(const Workload& workload, ReplayOptions& replay) {
  if (std::ranges::all_of(workload.calls, [](const WorkloadCall& call) { return call.agent == 0; })) {
    return absl::InvalidArgumentError("the workload lacks the agents of calls");
  }
  const KairosOptions options;
  replay.policy = [policy = options.policy](const EnginePace&) { return policy; };
  PlaceBy(options.placement, replay);
  UseKairos(options, replay);
  return absl::OkStatus();
}

absl::Status RunFlow(const Workload& workload, ReplayOptions& replay) {
  if (std::ranges::all_of(workload.workflows, [](const auto& w) { return w.deadline == Duration::max(); })) {
    return absl::InvalidArgumentError("the workload lacks deadlines of workflows");
  }
  const HexGenFlowOptions options;
  replay.policy = [policy = options.policy](const EnginePace&) { return policy; };
  replay.placement = options.placement;
  replay.budgets = options.router.budgets;
  UseHexGenFlow(options, replay);
  return absl::OkStatus();
}

absl::Status RunLamps(const Workload& workload, ReplayOptions& replay) {
  if (workload.tools.empty()) return absl::InvalidArgumentError("the workload lacks tool calls");
  UseLamps({}, replay);
  return absl::OkStatus();
}

absl::Status RunCascadia(const Workload& workload, ReplayOptions&) {
  if (workload.models.size() < 2) return absl::InvalidArgumentError("the workload lacks several models");
  return absl::InvalidArgumentError(
      "a replay runs each call once, on engines that keep their models; run takt-lab scenario cascadia");
}

absl::Status RunChimera(const Workload& workload, ReplayOptions& replay) {
  if (workload.models.size() < 2) return absl::InvalidArgumentError("the workload lacks several models");
  std::set<std::size_t> models;
  for (const Profile& engine : replay.engines) models.insert(workload.ModelIndex(engine.model));
  models.erase(Workload::kNoModel);
  if (models.size() < 2) {
    return absl::InvalidArgumentError(
        fmt::format("the engines lack several models of the workload; expected profiles of two or more of {}",
                    fmt::join(workload.models, ", ")));
  }
  if (std::ranges::all_of(workload.workflows, [](const WorkloadWorkflow& w) { return w.solved_by == 0; })) {
    return absl::InvalidArgumentError("the workload lacks solved_by of workflows");
  }
  const ChimeraOptions options;
  replay.policy = [policy = options.policy](const EnginePace&) { return policy; };
  replay.placement = options.placement;
  UseChimera(options, workload, replay);
  return absl::OkStatus();
}

struct Named {
  std::string_view name, summary;
  absl::Status (*use)(const Workload&, ReplayOptions&);
};
constexpr Named kSystems[] = {
    {"cascadia", "Cascadia: a cascade of models with planned GPUs; not in a replay: run takt-lab scenario cascadia",
     RunCascadia},
    {"chimera", "Chimera: the most capable model within a latency slack, learned; needs models and their engines",
     RunChimera},
    {"hexgen_flow", "HexGen-Flow: budgets of calls, balance on unequal engines, a tuned alpha; needs deadlines",
     RunFlow},
    {"kairos", "Kairos: learned ranks of agents, packing by memory over time; needs agents", RunKairos},
    {"lamps", "LAMPS: memory over time with tool calls, predicted if --estimates is none; needs tool calls", RunLamps},
};

}  // namespace

std::vector<RegistryInfo> SystemInfos() {
  std::vector<RegistryInfo> infos;
  for (const Named& system : kSystems) {
    infos.push_back({.name = std::string(system.name), .summary = std::string(system.summary)});
  }
  return infos;
}

absl::Status UseSystem(std::string_view name, const Workload& workload, ReplayOptions& options) {
  const auto* const system = std::ranges::find(kSystems, name, &Named::name);
  if (system == std::end(kSystems)) {
    std::vector<std::string> names;
    for (const Named& known : kSystems) names.emplace_back(known.name);
    return absl::InvalidArgumentError(internal::Unknown("system", name, names));
  }
  options.system = {};
  const absl::Status used = system->use(workload, options);
  return used.ok() ? used : absl::InvalidArgumentError(fmt::format("{}: {}", name, std::string(used.message())));
}

void UseKairos(const KairosOptions& options, ReplayOptions& replay, std::shared_ptr<Kairos>* made) {
  replay.system.router = [options, made](const RouterOptions& router, AnyPolicy policy,
                                         AnyPlacement placement) -> absl::StatusOr<std::unique_ptr<VirtualRouter>> {
    KairosOptions own = options;
    own.router = router, own.policy = std::move(policy), own.placement = std::move(placement);
    absl::StatusOr<Kairos> kairos = Kairos::Create(std::move(own));
    if (!kairos.ok()) return kairos.status();
    auto inside = std::make_shared<Kairos>(*std::move(kairos));
    if (made != nullptr) *made = inside;
    return std::make_unique<VirtualRouterOf<Kairos>>(std::move(inside));
  };
}

void UseHexGenFlow(const HexGenFlowOptions& options, ReplayOptions& replay, std::shared_ptr<HexGenFlow>* made) {
  replay.router_policy = {};
  ReplayOptions cluster = replay;
  cluster.system = {};
  cluster.cluster.rate_scale = 1;  // the tuner replays workflows at the times of the run
  cluster.cluster.all_at_once = false, cluster.cluster.closed_loop = 0, cluster.cluster.horizon = Duration{0};
  cluster.cluster.progress = {}, cluster.cluster.watch = {}, cluster.cluster.on_step = {};
  cluster.warm_up = Duration{0};
  replay.system.router = [options, cluster = std::move(cluster), made](
                             const RouterOptions& router, AnyPolicy policy,
                             AnyPlacement placement) -> absl::StatusOr<std::unique_ptr<VirtualRouter>> {
    HexGenFlowOptions own = options;
    own.router = router, own.policy = std::move(policy), own.placement = std::move(placement);
    own.cluster = cluster;
    absl::StatusOr<HexGenFlow> flow = HexGenFlow::Create(std::move(own));
    if (!flow.ok()) return flow.status();
    auto inside = std::make_shared<HexGenFlow>(*std::move(flow));
    if (made != nullptr) *made = inside;
    return std::make_unique<FlowRouter>(std::move(inside));
  };
}

void UseChimera(const ChimeraOptions& options, const Workload& workload, ReplayOptions& replay, ChimeraScores scores,
                std::shared_ptr<Chimera>* made) {
  replay.system.router = [options, &workload, scores = std::move(scores), made](
                             const RouterOptions& router, AnyPolicy policy,
                             AnyPlacement placement) -> absl::StatusOr<std::unique_ptr<VirtualRouter>> {
    ChimeraOptions own = options;
    own.router = router, own.policy = std::move(policy), own.placement = std::move(placement);
    own.batches.longest = Duration{0};
    own.lengths.sketch = workload.feature_names.size();
    absl::StatusOr<Chimera> chimera = Chimera::Create(std::move(own));
    if (!chimera.ok()) return chimera.status();
    auto inside = std::make_shared<Chimera>(*std::move(chimera));
    if (made != nullptr) *made = inside;
    return std::make_unique<ChimeraRun>(std::move(inside), workload, scores);
  };
}

void UseLamps(const LampsOptions& options, ReplayOptions& replay) {
  replay.system.scheduler = [options](const SchedulerOptions& scheduler,
                                      const EnginePace& pace) -> absl::StatusOr<std::unique_ptr<VirtualScheduler>> {
    LampsOptions own = options;
    own.scheduler = scheduler, own.costs.pace = pace.memory;
    absl::StatusOr<Lamps> lamps = Lamps::Create(own);
    if (!lamps.ok()) return lamps.status();
    return std::make_unique<VirtualSchedulerOf<Lamps>>(*std::move(lamps));
  };
}

}  // namespace takt::systems
