#include "takt/systems/replay.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "takt/base/spec_parser.h"
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
  return absl::InvalidArgumentError("the engines of a replay keep their models; expected takt-lab scenario cascadia");
}

absl::Status RunChimera(const Workload& workload, ReplayOptions&) {
  if (workload.models.size() < 2) return absl::InvalidArgumentError("the workload lacks several models");
  return absl::InvalidArgumentError("a replay learns no scores of models; expected takt-lab scenario chimera");
}

struct Named {
  std::string_view name, summary;
  absl::Status (*use)(const Workload&, ReplayOptions&);
};
constexpr Named kSystems[] = {
    {"cascadia", "Cascadia: a cascade of models with planned GPUs; runs in takt-lab scenario cascadia only",
     RunCascadia},
    {"chimera", "Chimera: the most capable model within a latency slack; runs in takt-lab scenario chimera only",
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
  cluster.cluster.progress = {}, cluster.cluster.on_step = {};
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
