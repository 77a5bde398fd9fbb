#include "takt/policy/registry.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "takt/base/spec_parser.h"
#include "takt/policy/aged.h"
#include "takt/policy/agent_priority.h"
#include "takt/policy/autellix.h"
#include "takt/policy/boosted_footprint.h"
#include "takt/policy/edf.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/footprint.h"
#include "takt/policy/hrrn.h"
#include "takt/policy/justitia.h"
#include "takt/policy/lpm.h"
#include "takt/policy/ltr.h"
#include "takt/policy/memory_integral.h"
#include "takt/policy/mlfq.h"
#include "takt/base/spec.h"
#include "takt/policy/prefix_then_workflow.h"
#include "takt/policy/priority.h"
#include "takt/policy/sagesched.h"
#include "takt/policy/sjf.h"
#include "takt/policy/slo_groups.h"
#include "takt/policy/stage_depth.h"
#include "takt/policy/stjf.h"
#include "takt/policy/uncached.h"
#include "takt/policy/uniboost.h"
#include "takt/policy/urgency.h"
#include "takt/policy/workflow_fcfs.h"

namespace takt {
namespace {

constexpr std::string_view kAged = "aged", kCustom = "custom";

// visit(policy, summary) for every policy, at its defaults.
template <class V>
void ForEachPolicy(V&& visit) {
  visit(BoostedFootprint{}, "takt's default: as they came, with a head start for what costs the engine little");
  visit(Footprint{}, "what costs the engine least first, the whole workflow counted");
  visit(Fcfs{}, "first come, first served");
  visit(WorkflowFcfs{}, "first come, first served by the arrival of the whole workflow");
  visit(Priority{}, "the host's priorities, lower is sooner");
  visit(Edf{}, "earliest deadline first");
  visit(Sjf{}, "fewest predicted output tokens of the call first");
  visit(Stjf{}, "fewest predicted tokens left of the whole workflow first (Chimera)");
  visit(Ltr{}, "fewest predicted output tokens first, in buckets, by a score that is given once (LTR)");
  visit(Hrrn{}, "highest response ratio next: short first, but waiting counts");
  visit(MemoryIntegral{}, "least KV memory over time first, tool calls included (LAMPS)");
  visit(UniBoost{}, "one call's boost between first come and shortest first (UniBoost)");
  visit(SageSched{}, "one call's compute and memory by the Gittins index of its prediction (SageSched)");
  visit(Justitia{}, "fair virtual time by the memory that a whole workflow costs (Justitia)");
  visit(Urgency{}, "tightest time budget for its own work first (HexGen-Flow)");
  visit(SloGroups{}, "groups of like deadlines as they came, by deadline once one would be late (QLM)");
  visit(FairShare{}, "the tenant that was served least first (VTC)");
  visit(Mlfq{}, "the request served longest comes last, by levels with growing quanta; no lengths needed (FastServe)");
  visit(Autellix{}, "calls of the workflow that was served least first, by queues with quanta (Autellix)");
  visit(AgentPriority{}, "agents in a learnt order, by how much work remains behind them (Kairos)");
  visit(StageDepth{}, "fewest stages left of the workflow first (Ayo)");
  visit(Uncached{}, "least prefill first, of what is not cached: takt's for agents");
  visit(Lpm{}, "longest cached prefix first (SGLang)");
  visit(PrefixThenWorkflow{}, "what finds KV of its workflow first, then by the workflow's arrival (Continuum)");
}

using internal::Call;
using internal::OptionNames;
using internal::ParseOption;
using internal::Quoted;
using internal::Set;

absl::Status Invalid(std::string_view spec, const std::string& fault) {
  return internal::Invalid("policy", spec, fault);
}

// Options from outside the spec: the outer policy is asked first.
template <class P>
absl::Status SetFurther(std::string_view spec, P& inner, AgingOptions* aging, const KeyValue& option) {
  std::optional<std::string> fault;
  if (aging != nullptr) {
    Aged outer(Fcfs{}, *aging);
    fault = Set(outer, option);
    *aging = *outer.aging();
  }
  if (!fault) fault = Set(inner, option);
  if (!fault) {
    std::vector<std::string> names = OptionNames(inner);
    if (aging != nullptr) std::ranges::copy(OptionNames(Aged(Fcfs{})), std::back_inserter(names));
    return Invalid(spec, internal::Unknown("option", option.key, names));
  }
  return fault->empty() ? absl::OkStatus() : Invalid(spec, *fault);
}

using OwnPolicy = internal::Own<AnyPolicy, const EnginePace*>;

std::vector<OwnPolicy>& OwnPolicies() {
  static std::vector<OwnPolicy> own;
  return own;
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  ForEachPolicy([&](const auto& policy, std::string_view) { names.push_back(NameOf(policy)); });
  for (const OwnPolicy& own : OwnPolicies()) names.push_back(own.name);
  return names;
}

// Options from outside the spec go to the aging where that knows them, and to the factory else.
absl::StatusOr<AnyPolicy> MakeOwnPolicy(std::string_view spec, const OwnPolicy& own, std::vector<KeyValue> options,
                                        std::span<const std::string> further, const EnginePace* pace,
                                        AgingOptions* aging) {
  for (const std::string& text : further) {
    const auto option = ParseOption(text);
    if (!option) return Invalid(spec, Quoted(text) + " is no option: options are NAME=VALUE");
    Aged outer(Fcfs{}, aging != nullptr ? *aging : AgingOptions{});
    const std::optional<std::string> fault = aging != nullptr ? Set(outer, *option) : std::nullopt;
    if (fault && !fault->empty()) return Invalid(spec, *fault);
    if (fault) {
      *aging = *outer.aging();
    } else {
      options.push_back(*option);
    }
  }
  return internal::MakeOwn<AnyPolicy>(own, std::span<const KeyValue>(options), pace);
}

}  // namespace

absl::StatusOr<AnyPolicy> MakePolicy(std::string_view spec, std::span<const std::string> options,
                                     const EnginePace* pace, const AnyPolicy* custom) {
  absl::StatusOr<Call> call = internal::Parse("policy", spec);
  if (!call.ok()) return call.status();
  std::optional<AgingOptions> aging;
  if (call->name == kAged) {
    if (call->policies.size() != 1) return Invalid(spec, "aged takes one policy, as in aged(sjf,threshold=100)");
    Aged outer(Fcfs{});
    if (absl::Status status = internal::SetOwn("policy", spec, outer, call->options); !status.ok()) return status;
    aging = *outer.aging();
    const std::string_view inner = call->policies.front();
    call = internal::Parse("policy", inner);
    if (!call.ok()) return call.status();
    if (call->name == kAged) return Invalid(spec, "a policy ages once");
  }
  if (call->name == kCustom && call->options.empty() && call->policies.size() <= 1 && options.empty()) {
    const std::string own =
        call->policies.empty() ? std::string() : "custom(" + std::string(call->policies.front()) + ")";
    if (custom == nullptr || (!own.empty() && own != custom->spec())) {
      return Invalid(spec, Quoted(own.empty() ? kCustom : own) + " is a policy of the host's own, and was not given");
    }
    return aging ? AnyPolicy(Aged(*custom, *aging)) : *custom;
  }
  if (!call->policies.empty()) {
    return Invalid(spec, Quoted(call->policies.front()) + " is no option: options are NAME=VALUE");
  }

  if (const OwnPolicy* own = internal::FindOwn(OwnPolicies(), call->name)) {
    auto made = MakeOwnPolicy(spec, *own, call->options, options, pace, aging ? &*aging : nullptr);
    if (made.ok() && aging) made = AnyPolicy(Aged(*std::move(made), *aging));
    return made;
  }
  absl::StatusOr<AnyPolicy> made =
      Invalid(spec, internal::Unknown("policy", call->name, PolicyNames()) + ", aged(POLICY)");
  ForEachPolicy([&](auto policy, std::string_view) {
    if (call->name != NameOf(policy)) return;
    if constexpr (requires { policy.pace; }) {
      if (pace != nullptr) policy.pace = pace->memory;
    }
    if constexpr (requires { policy.set_pace(StepPace{}); }) {
      if (pace != nullptr) policy.set_pace(pace->steps);
    }
    if constexpr (requires { policy.beta_ns; }) {
      if (pace != nullptr) policy.alpha_ms = pace->prefill.alpha_ms, policy.beta_ns = pace->prefill.beta_ns;
    }
    absl::Status status = internal::SetOwn("policy", spec, policy, call->options);
    for (std::size_t i = 0; status.ok() && i < options.size(); ++i) {
      const auto option = ParseOption(options[i]);
      status = option ? SetFurther(spec, policy, aging ? &*aging : nullptr, *option)
                      : Invalid(spec, Quoted(options[i]) + " is no option: options are NAME=VALUE");
    }
    if (!status.ok()) {
      made = status;
    } else {
      made = AnyPolicy(std::move(policy));
    }
  });
  if (made.ok() && aging) made = AnyPolicy(Aged(*std::move(made), *aging));
  return made;
}

absl::StatusOr<PolicyFactory> MakePolicyFactory(std::string_view spec) {
  if (const absl::StatusOr<AnyPolicy> policy = MakePolicy(spec); !policy.ok()) return policy.status();
  return [text = std::string(spec)](const EnginePace& pace) { return *MakePolicy(text, {}, &pace); };
}

absl::Status RegisterPolicy(std::string name, std::string summary, OwnPolicyFactory factory) {
  std::vector<std::string> known = PolicyNames();
  known.insert(known.end(), {std::string(kAged), std::string(kCustom)});
  return internal::AddOwn("policy", OwnPolicies(), {std::move(name), std::move(summary), std::move(factory)}, known);
}

std::vector<PolicyInfo> PolicyInfos() {
  std::vector<PolicyInfo> infos;
  const auto add = [&]<class P>(std::string name, const P& policy, std::string_view summary) {
    PolicyInfo& info = infos.emplace_back(PolicyInfo{std::move(name), std::string(summary), {}});
    if constexpr (OptionsPolicy<P>) {
      P::VisitOptions(policy, [&](std::string_view option, const auto& value, const OptionText& text) {
        info.options.push_back(
            {std::string(option), OptionToText(value), std::string(text.unit), std::string(text.meaning)});
      });
    }
  };
  ForEachPolicy([&](const auto& policy, std::string_view summary) { add(NameOf(policy), policy, summary); });
  for (const OwnPolicy& own : OwnPolicies()) infos.push_back({own.name, own.summary, {}});
  add(std::string(kAged), Aged(Fcfs{}), "any policy, with starvation prevention: aged(POLICY)");
  return infos;
}

}  // namespace takt
