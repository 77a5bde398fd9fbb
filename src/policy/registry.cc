#include "takt/policy/registry.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "takt/policy/aged.h"
#include "takt/policy/edf.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/hrrn.h"
#include "takt/policy/policy_spec.h"
#include "takt/policy/priority.h"
#include "takt/policy/sjf.h"
#include "takt/policy/stjf.h"
#include "takt/policy/workflow_fcfs.h"

namespace takt {
namespace {

constexpr std::string_view kAged = "aged";

// visit(policy, summary) for every policy, at its defaults.
template <class V>
void ForEachPolicy(V&& visit) {
  visit(Fcfs{}, "first come, first served");
  visit(WorkflowFcfs{}, "first come, first served by the arrival of the whole workflow");
  visit(Priority{}, "the host's priorities, lower is sooner");
  visit(Edf{}, "earliest deadline first");
  visit(Sjf{}, "fewest predicted output tokens of the call first");
  visit(Stjf{}, "fewest predicted tokens left of the whole workflow first (Chimera)");
  visit(Hrrn{}, "highest response ratio next: short first, but waiting counts");
  visit(FairShare{}, "the tenant that was served least first (VTC)");
}

struct KeyValue {
  std::string_view key, value;
};

// One level of a spec.
struct Call {
  std::string_view name;
  std::vector<std::string_view> policies{};  // arguments that are specs themselves
  std::vector<KeyValue> options{};
};

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

absl::Status Invalid(std::string_view spec, const std::string& fault) {
  return absl::InvalidArgumentError("policy " + Quoted(spec) + ": " + fault);
}

std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<KeyValue> ParseOption(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  return KeyValue{Trimmed(text.substr(0, equals)), Trimmed(text.substr(equals + 1))};
}

// At commas outside parentheses; nothing where parentheses do not match.
std::optional<std::vector<std::string_view>> Split(std::string_view arguments) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= arguments.size(); ++i) {
    const char c = i < arguments.size() ? arguments[i] : ',';
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth < 0) return std::nullopt;
    if (c != ',' || (depth > 0 && i < arguments.size())) continue;
    parts.push_back(Trimmed(arguments.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (depth != 0) return std::nullopt;
  return parts;
}

absl::StatusOr<Call> Parse(std::string_view spec) {
  spec = Trimmed(spec);
  const std::size_t open = spec.find('(');
  Call call{.name = Trimmed(spec.substr(0, open))};
  if (open == std::string_view::npos) return call;
  const auto parts = spec.ends_with(')') ? Split(spec.substr(open + 1, spec.size() - open - 2)) : std::nullopt;
  if (!parts) return Invalid(spec, "parentheses do not match");
  for (std::string_view part : *parts) {
    const bool is_policy = part.substr(0, part.find('(')).find('=') == std::string_view::npos;
    if (is_policy) {
      call.policies.push_back(part);
    } else {
      call.options.push_back(*ParseOption(part));
    }
  }
  return call;
}

template <class P>
std::string OptionNames(const P& policy) {
  std::string names;
  if constexpr (OptionsPolicy<P>) {
    P::VisitOptions(policy, [&](std::string_view name, const auto&, const OptionText&) {
      names.append(names.empty() ? "" : ", ").append(name);
    });
  }
  return names.empty() ? "none" : names;
}

// Nothing where the policy knows no such option; else what is wrong with the value, or empty.
template <class P>
std::optional<std::string> Set(P& policy, const KeyValue& option) {
  std::optional<std::string> fault;
  if constexpr (OptionsPolicy<P>) {
    P::VisitOptions(policy, [&](std::string_view name, auto& value, const OptionText& text) {
      if (name != option.key) return;
      fault.emplace();
      if (OptionFromText(option.value, text, value)) return;
      *fault = std::string(name) + "=" + std::string(option.value) + " cannot be (" + std::string(text.meaning);
      if (!text.unit.empty()) *fault += ", " + std::string(text.unit);
      if (text.least != 0) *fault += ", at least " + OptionToText(text.least);
      if (text.most < std::numeric_limits<double>::infinity()) *fault += ", at most " + OptionToText(text.most);
      *fault += "; default " + OptionToText(value) + ")";
    });
  }
  return fault;
}

template <class P>
absl::Status SetOwn(std::string_view spec, P& policy, std::span<const KeyValue> options) {
  for (const KeyValue& option : options) {
    const std::optional<std::string> fault = Set(policy, option);
    if (!fault) return Invalid(spec, "unknown option " + Quoted(option.key) + "; there are: " + OptionNames(policy));
    if (!fault->empty()) return Invalid(spec, *fault);
  }
  return absl::OkStatus();
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
  std::string names = aging != nullptr ? OptionNames(Aged(Fcfs{})) + ", " : "";
  if (!fault) fault = Set(inner, option);
  if (!fault) {
    return Invalid(spec, "unknown option " + Quoted(option.key) + "; there are: " + names + OptionNames(inner));
  }
  return fault->empty() ? absl::OkStatus() : Invalid(spec, *fault);
}

std::string PolicyNames() {
  std::string names;
  ForEachPolicy([&](const auto& policy, std::string_view) { names += NameOf(policy) + ", "; });
  return names + "aged(POLICY)";
}

}  // namespace

absl::StatusOr<AnyPolicy> MakePolicy(std::string_view spec, std::span<const std::string> options) {
  absl::StatusOr<Call> call = Parse(spec);
  if (!call.ok()) return call.status();
  std::optional<AgingOptions> aging;
  if (call->name == kAged) {
    if (call->policies.size() != 1) return Invalid(spec, "aged takes one policy, as in aged(sjf,threshold=100)");
    Aged outer(Fcfs{});
    if (absl::Status status = SetOwn(spec, outer, call->options); !status.ok()) return status;
    aging = *outer.aging();
    const std::string_view inner = call->policies.front();
    call = Parse(inner);
    if (!call.ok()) return call.status();
    if (call->name == kAged) return Invalid(spec, "a policy ages once");
  }
  if (!call->policies.empty()) {
    return Invalid(spec, Quoted(call->policies.front()) + " is no option: options are NAME=VALUE");
  }

  absl::StatusOr<AnyPolicy> made =
      Invalid(spec, "unknown policy " + Quoted(call->name) + "; there are: " + PolicyNames());
  ForEachPolicy([&](auto policy, std::string_view) {
    if (call->name != NameOf(policy)) return;
    absl::Status status = SetOwn(spec, policy, call->options);
    for (std::size_t i = 0; status.ok() && i < options.size(); ++i) {
      const auto option = ParseOption(options[i]);
      status = option ? SetFurther(spec, policy, aging ? &*aging : nullptr, *option)
                      : Invalid(spec, Quoted(options[i]) + " is no option: options are NAME=VALUE");
    }
    if (!status.ok()) {
      made = status;
    } else if (aging) {
      made = AnyPolicy(Aged(std::move(policy), *aging));
    } else {
      made = AnyPolicy(std::move(policy));
    }
  });
  return made;
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
  add(std::string(kAged), Aged(Fcfs{}), "any policy, with starvation prevention: aged(POLICY)");
  return infos;
}

}  // namespace takt
