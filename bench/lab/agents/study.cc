#include "lab/agents/study.h"

#include <memory>
#include <string_view>
#include <utility>

#include "takt/turns/gates/price.h"
#include "takt/turns/return_times.h"
#include "takt/placement/registry.h"
#include "takt/turns/retention/hold_value.h"

namespace takt::tool {
namespace {

// hold_value and price use statistics learnt beforehand, and no curves of the scheduler.
struct TaughtValue {
  static constexpr std::string_view kName = "taught";
  static constexpr std::size_t kLists = HoldValue::kLists;

  std::shared_ptr<const ReturnTimes> times;
  HoldValue value;

  std::size_t List(const Held& held) const { return value.List(held); }
  double Value(const Held& held, TimePoint now) const { return value.Value(held, now); }
  double AwaitedValue(const Held& held) const { return value.AwaitedValue(held); }
};
struct TaughtPrice {
  static constexpr std::string_view kName = "taught_price";

  std::shared_ptr<const ReturnTimes> times;
  Price price;

  double LetsInAfter(const GateAsk& ask, const HeldOrder& held) const { return price.LetsInAfter(ask, held); }
  GateDoor Door() const { return price.Door(); }
  double PrefillSeconds(const GateAsk& ask) const { return price.PrefillSeconds(ask); }
};

// All gaps of the recording, multiplied by this factor. A branch without a further turn is no longer observed.
std::shared_ptr<const ReturnTimes> LearntOf(const Workload& sessions, double longer) {
  auto times = std::make_shared<ReturnTimes>(ReturnTimesOptions{.window = 1e6});
  for (const WorkloadWorkflow& workflow : sessions.workflows) {
    const std::span<const WorkloadCall> calls = sessions.calls_of(workflow);
    for (const WorkloadCall& call : calls) {
      if (call.predecessors != 1) continue;
      const WorkloadCall& before = calls[sessions.predecessors[call.first_predecessor]];
      if (before.branch != call.branch) continue;
      const std::uint32_t return_class = before.then == TurnEnd::kTool   ? ReturnClass::kTool
                                         : before.then == TurnEnd::kUser ? ReturnClass::kUser
                                                                         : ReturnClass::kUnknown;
      times->Learn(return_class, longer * ToSeconds(call.delay), true);
    }
  }
  times->Refresh({});
  return times;
}

HoldValue ValueAt(const PrefillPace& pace, const ReturnTimes& times) {
  return {.alpha_ms = pace.alpha_ms, .beta_ns = pace.beta_ns, .load_ms = pace.load_ms, .curves = &times.curves()};
}

}  // namespace

ReplayOptions AgentOptionsOf(const AgentSystem& system, const Workload& sessions, std::int64_t kv_tokens,
                             const Profile& profile, std::uint64_t seed) {
  ReplayOptions options;
  options.profile = profile;
  options.seed = seed;
  options.kv_tokens = kv_tokens;
  options.cluster.tell_gaps = system.told;
  options.engine.limits = kAgentLimits;
  options.scheduler.prefix_cache = true;
  options.estimates = {EstimateKind::kNone, 0};
  options.placement = *MakePlacement(system.placement);
  options.policy = *MakePolicyFactory(system.policy);
  options.retention = *MakeRetentionFactory(system.retention);
  options.gate = *MakeGateFactory(system.gate);
  if (system.learnt > 0) {
    const std::shared_ptr<const ReturnTimes> times = LearntOf(sessions, system.learnt);
    options.retention = [times](const PrefillPace& pace) {
      return AnyRetention(TaughtValue{times, ValueAt(pace, *times)});
    };
    options.gate = [times](const PrefillPace& pace) {
      return AnyGate(TaughtPrice{times, {.value = ValueAt(pace, *times)}});
    };
  }
  return options;
}

}  // namespace takt::tool
