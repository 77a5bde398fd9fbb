#include "takt/policy/registry.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "takt/base/spec_parser.h"
#include "takt/policy/aged.h"
#include "takt/policy/agent_priority.h"
#include "takt/policy/bands.h"
#include "takt/policy/edf.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/first_token.h"
#include "takt/policy/footprint.h"
#include "takt/policy/hrrn.h"
#include "takt/policy/memory_integral.h"
#include "takt/policy/metered.h"
#include "takt/policy/priority.h"
#include "takt/policy/room_to_pass.h"
#include "takt/policy/sjf.h"
#include "takt/policy/stjf.h"
#include "takt/policy/uncached.h"
#include "takt/policy/urgency.h"
#include "takt/policy/workflow_fcfs.h"

namespace takt {

namespace {
constexpr std::string_view kAged = "aged", kCustom = "custom", kMetered = "metered";
}

namespace internal {

template class Registry<AnyPolicy, const EnginePace*>;

PolicyRegistry& Policies() {
  static PolicyRegistry policies = [] {
    PolicyRegistry registry("policy", {std::string(kAged), std::string(kCustom), std::string(kMetered)});
    registry.Add(RoomToPass{},
                 "takt's default: order of arrival, but smaller requests pass while earlier ones have room for that");
    registry.Add(Footprint{}, "workflow with the least predicted cost to the engine first");
    registry.Add(Fcfs{}, "first come, first served");
    registry.Add(WorkflowFcfs{}, "first come, first served by the arrival of the whole workflow");
    registry.Add(Priority{}, "lowest priority number of the host first");
    registry.Add(Edf{}, "earliest deadline first");
    registry.Add(FirstToken{}, "least slack to the target for the first token; requests that cannot meet theirs last");
    registry.Add(Sjf{}, "fewest predicted output tokens of the call first");
    registry.Add(Stjf{}, "fewest predicted remaining tokens of the whole workflow first (Chimera)");
    registry.Add(Hrrn{}, "highest response ratio next: short requests first, weighted by their wait");
    registry.Add(MemoryIntegral{}, "least KV memory over time first, tool calls included (LAMPS)");
    registry.Add(Urgency{}, "least slack first: time budget minus remaining work (HexGen-Flow)");
    registry.Add(FairShare{}, "least served tenant first (VTC)");
    registry.Add(Bands{}, "bands of priorities in strict order, tenants or workflows alike inside a band");
    registry.Add(AgentPriority{}, "by a learned rank of agents: least remaining work of the workflow first (Kairos)");
    registry.Add(Uncached{}, "fewest uncached prompt tokens first (takt's, for agents)");
    return registry;
  }();
  return policies;
}

}  // namespace internal

namespace {

using internal::Call;
using internal::OptionNames;
using internal::ParseOption;
using internal::Quoted;
using internal::Set;

absl::Status Invalid(std::string_view spec, const std::string& fault) {
  return internal::Invalid("policy", spec, fault);
}

// Options from outside the spec. The aging takes the options that it knows, and the policy takes the others.
absl::Status AddOptions(std::string_view spec, const internal::PolicyRegistry::Entry& entry,
                        std::span<const std::string> further, std::optional<AgingOptions>& aging,
                        std::vector<KeyValue>& options) {
  for (const std::string& text : further) {
    const auto option = ParseOption(text);
    if (!option) return Invalid(spec, Quoted(text) + " is invalid; expected an option NAME=VALUE");
    std::vector<std::string> names;
    for (const PolicyInfo::Option& known : entry.info.options) names.push_back(known.name);
    const bool known = !entry.typed || std::ranges::find(names, option->key) != names.end();
    if (aging) {
      Aged outer(Fcfs{}, *aging);
      if (const std::optional<std::string> fault = Set(outer, *option)) {
        if (!fault->empty()) return Invalid(spec, *fault);
        aging = *outer.aging();
        continue;
      }
      std::ranges::copy(OptionNames(outer), std::back_inserter(names));
    }
    if (!known) return Invalid(spec, internal::Unknown("option", option->key, names));
    options.push_back(*option);
  }
  return absl::OkStatus();
}

absl::StatusOr<AnyPolicy> MakeMetered(std::string_view spec, const Call& call, const EnginePace* pace,
                                      const AnyPolicy* custom) {
  if (call.policies.size() != 1)
    return Invalid(spec, "metered is invalid here; expected one policy, as in metered(fcfs,rate=1000)");
  Metered<Fcfs> outer;
  if (absl::Status status = internal::SetOwn("policy", spec, outer, call.options); !status.ok()) return status;
  absl::StatusOr<AnyPolicy> inner = MakePolicy(call.policies.front(), {}, pace, custom);
  if (!inner.ok()) return inner.status();
  const PolicyHooks hooks = inner->hooks();
  if (hooks.groups || hooks.chooses || inner->aging() != nullptr) {
    return Invalid(spec,
                   Quoted(call.policies.front()) +
                       " is unsupported inside metered; expected a policy that ranks requests by their keys only");
  }
  return AnyPolicy(Metered<AnyPolicy>(*std::move(inner), outer.options()));
}

}  // namespace

absl::StatusOr<AnyPolicy> MakePolicy(std::string_view spec, std::span<const std::string> options,
                                     const EnginePace* pace, const AnyPolicy* custom) {
  absl::StatusOr<Call> call = internal::Parse("policy", spec);
  if (!call.ok()) return call.status();
  std::optional<AgingOptions> aging;
  if (call->name == kAged) {
    if (call->policies.size() != 1)
      return Invalid(spec, "aged is invalid here; expected one policy, as in aged(sjf,threshold=100)");
    Aged outer(Fcfs{});
    if (absl::Status status = internal::SetOwn("policy", spec, outer, call->options); !status.ok()) return status;
    aging = *outer.aging();
    const std::string_view inner = call->policies.front();
    call = internal::Parse("policy", inner);
    if (!call.ok()) return call.status();
    if (call->name == kAged) return Invalid(spec, "aged inside aged is invalid; expected aged once");
  }
  if (call->name == kMetered) {
    absl::StatusOr<AnyPolicy> made = MakeMetered(spec, *call, pace, custom);
    if (!options.empty()) return Invalid(spec, "options outside of metered(...) are unsupported");
    if (made.ok() && aging) made = AnyPolicy(Aged(*std::move(made), *aging));
    return made;
  }
  if (call->name == kCustom && call->options.empty() && call->policies.size() <= 1 && options.empty()) {
    const std::string own =
        call->policies.empty() ? std::string() : "custom(" + std::string(call->policies.front()) + ")";
    if (custom == nullptr || (!own.empty() && own != custom->spec())) {
      return Invalid(
          spec, Quoted(own.empty() ? kCustom : own) + " is unknown; only a host that registers this policy can use it");
    }
    return aging ? AnyPolicy(Aged(*custom, *aging)) : *custom;
  }
  if (!call->policies.empty()) {
    return Invalid(spec, Quoted(call->policies.front()) + " is invalid; expected an option NAME=VALUE" +
                             (call->options.empty() ? "" : ", with several values separated by ;"));
  }

  const internal::PolicyRegistry::Entry* entry = internal::Policies().Find(call->name);
  if (entry == nullptr)
    return Invalid(spec, internal::Policies().UnknownName(call->name) + ", metered(POLICY), aged(POLICY)");
  if (const absl::Status status = AddOptions(spec, *entry, options, aging, call->options); !status.ok()) return status;
  absl::StatusOr<AnyPolicy> made = entry->make(spec, call->options, pace);
  if (made.ok() && aging) made = AnyPolicy(Aged(*std::move(made), *aging));
  return made;
}

absl::StatusOr<PolicyFactory> MakePolicyFactory(std::string_view spec) {
  if (const absl::StatusOr<AnyPolicy> policy = MakePolicy(spec); !policy.ok()) return policy.status();
  return [text = std::string(spec)](const EnginePace& pace) { return *MakePolicy(text, {}, &pace); };
}

std::vector<PolicyInfo> PolicyInfos() {
  std::vector<PolicyInfo> infos = internal::Policies().Infos();
  const auto add = [&infos](std::string_view name, const auto& outer, const char* summary) {
    infos.push_back(internal::PolicyRegistry::InfoOf(outer, summary));
    infos.back().name = name;
  };
  add(kMetered, Metered(Fcfs{}), "another policy with soft quotas of tokens per second: metered(POLICY)");
  add(kAged, Aged(Fcfs{}), "another policy with starvation prevention: aged(POLICY)");
  return infos;
}

}  // namespace takt
