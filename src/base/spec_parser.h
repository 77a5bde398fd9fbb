// Specs such as "aged(sjf,threshold=50)", taken apart; and options set by name.
#ifndef TAKT_SRC_BASE_SPEC_PARSER_H_
#define TAKT_SRC_BASE_SPEC_PARSER_H_

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/spec.h"

namespace takt::internal {

struct KeyValue {
  std::string_view key, value;
};

// One level of a spec.
struct Call {
  std::string_view name;
  std::vector<std::string_view> policies{};  // arguments that are specs themselves
  std::vector<KeyValue> options{};
};

inline std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// What is wrong with the spec of a `kind` ("policy").
inline absl::Status Invalid(std::string_view kind, std::string_view spec, const std::string& fault) {
  return absl::InvalidArgumentError(std::string(kind) + " " + Quoted(spec) + ": " + fault);
}

inline std::string_view Trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

inline std::optional<KeyValue> ParseOption(std::string_view text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  return KeyValue{Trimmed(text.substr(0, equals)), Trimmed(text.substr(equals + 1))};
}

// At commas outside parentheses; nothing where parentheses do not match.
inline std::optional<std::vector<std::string_view>> Split(std::string_view arguments) {
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

inline absl::StatusOr<Call> Parse(std::string_view kind, std::string_view spec) {
  spec = Trimmed(spec);
  const std::size_t open = spec.find('(');
  Call call{.name = Trimmed(spec.substr(0, open))};
  if (open == std::string_view::npos) return call;
  const auto parts = spec.ends_with(')') ? Split(spec.substr(open + 1, spec.size() - open - 2)) : std::nullopt;
  if (!parts) return Invalid(kind, spec, "parentheses do not match");
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
absl::Status SetOwn(std::string_view kind, std::string_view spec, P& policy, std::span<const KeyValue> options) {
  for (const KeyValue& option : options) {
    const std::optional<std::string> fault = Set(policy, option);
    if (!fault)
      return Invalid(kind, spec, "unknown option " + Quoted(option.key) + "; there are: " + OptionNames(policy));
    if (!fault->empty()) return Invalid(kind, spec, *fault);
  }
  return absl::OkStatus();
}

// What the policies of a kind without others inside make of a spec. for_each(visit): visit(policy, summary) for each at
// its defaults; prepare(policy): what it is given before its options.
template <class Any, class ForEach, class Prepare>
absl::StatusOr<Any> MakeByName(std::string_view kind, std::string_view spec, ForEach for_each, Prepare prepare) {
  const absl::StatusOr<Call> call = Parse(kind, spec);
  if (!call.ok()) return call.status();
  if (!call->policies.empty()) {
    return Invalid(kind, spec, Quoted(call->policies.front()) + " is no option: options are NAME=VALUE");
  }
  std::string names;
  for_each([&](const auto& policy, std::string_view) { names += (names.empty() ? "" : ", ") + NameOf(policy); });
  absl::StatusOr<Any> made =
      Invalid(kind, spec, "unknown " + std::string(kind) + " " + Quoted(call->name) + "; there are: " + names);
  for_each([&](auto policy, std::string_view) {
    if (call->name != NameOf(policy)) return;
    prepare(policy);
    const absl::Status status = SetOwn(kind, spec, policy, call->options);
    made = status.ok() ? absl::StatusOr<Any>(Any(std::move(policy))) : status;
  });
  return made;
}

}  // namespace takt::internal

#endif  // TAKT_SRC_BASE_SPEC_PARSER_H_
