// Parses specs such as "aged(sjf,threshold=50)", and sets options by name.
#ifndef TAKT_BASE_SPEC_PARSER_H_
#define TAKT_BASE_SPEC_PARSER_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/spec.h"

namespace takt {

// An option in a spec.
struct KeyValue {
  std::string_view key, value;
};

namespace internal {

// One level of a spec.
struct Call {
  std::string_view name;
  std::vector<std::string_view> policies{};  // arguments that are specs of policies
  std::vector<KeyValue> options{};
};

inline std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// Returns an error about the spec of a `kind`, for example "policy".
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

// Splits at commas outside parentheses. Returns nothing if parentheses do not match.
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

// Returns the number of letters to change, insert or delete to get from a to b.
inline std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({changed, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

// "unknown option 'unknwn'; did you mean 'unknown'? There are: ..."
inline std::string Unknown(std::string_view what, std::string_view name, const std::vector<std::string>& known) {
  std::string names, nearest;
  std::size_t least = std::max<std::size_t>(name.size() / 3, 1) + 1;
  for (const std::string& k : known) {
    names.append(names.empty() ? "" : ", ").append(k);
    const std::size_t distance = EditDistance(name, k);
    if (distance < least) least = distance, nearest = k;
  }
  const std::string text = "unknown " + std::string(what) + " " + Quoted(name) + "; ";
  if (names.empty()) return text + "there are none";
  return text + (nearest.empty() ? "there are: " : "did you mean " + Quoted(nearest) + "? There are: ") + names;
}

template <class P>
std::vector<std::string> OptionNames(const P& policy) {
  std::vector<std::string> names;
  if constexpr (OptionsPolicy<P>) {
    P::VisitOptions(policy, [&](std::string_view name, const auto&, const OptionText&) { names.emplace_back(name); });
  }
  return names;
}

// Sets an option. Returns nothing if the policy has no such option. Otherwise returns the value's error; empty: none.
template <class P>
std::optional<std::string> Set(P& policy, const KeyValue& option) {
  std::optional<std::string> fault;
  if constexpr (OptionsPolicy<P>) {
    P::VisitOptions(policy, [&](std::string_view name, auto& value, const OptionText& text) {
      if (name != option.key) return;
      fault.emplace();
      if (OptionFromText(option.value, text, value)) return;
      *fault = std::string(name) + "=" + std::string(option.value) + ": " + WishOf(value, text, option.value) + " (" +
               std::string(text.meaning);
      if (!text.unit.empty()) *fault += ", " + std::string(text.unit);
      *fault += "; default " + OptionToText(value) + ")";
    });
  }
  return fault;
}

template <class P>
absl::Status SetOwn(std::string_view kind, std::string_view spec, P& policy, std::span<const KeyValue> options) {
  for (const KeyValue& option : options) {
    const std::optional<std::string> fault = Set(policy, option);
    if (!fault) return Invalid(kind, spec, Unknown("option", option.key, OptionNames(policy)));
    if (!fault->empty()) return Invalid(kind, spec, *fault);
  }
  return absl::OkStatus();
}

// Sets the options of a text "NAME=VALUE,...". InvalidArgument names the first unknown or invalid option; the options
// before it are set.
template <class Options>
absl::Status ReadOptions(std::string_view text, Options& options) {
  if (Trimmed(text).empty()) return absl::InvalidArgumentError("no options are given; expected NAME=VALUE,...");
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::optional<KeyValue> option = ParseOption(one);
    if (!option) return absl::InvalidArgumentError(Quoted(one) + ": expected NAME=VALUE");
    std::vector<std::string> names;
    std::optional<std::string> fault;
    VisitOptions(options, [&](std::string_view name, auto& value, const OptionText& bounds) {
      names.emplace_back(name);
      if (name != option->key) return;
      fault.emplace();
      if (OptionFromText(option->value, bounds, value)) return;
      *fault = std::string(name) + ": " + Quoted(option->value) + " " + WishOf(value, bounds, option->value);
    });
    if (!fault) fault = Unknown("option", option->key, names);
    if (!fault->empty()) return absl::InvalidArgumentError(*fault);
  }
  return absl::OkStatus();
}

// "name(k=v,k=v)"
inline std::string SpecOf(std::string_view name, std::span<const KeyValue> options) {
  std::string spec(name);
  for (const KeyValue& option : options) {
    spec.append(spec.size() == name.size() ? "(" : ",").append(option.key).append("=").append(option.value);
  }
  return spec.size() == name.size() ? spec : spec + ")";
}

}  // namespace internal
}  // namespace takt

#endif  // TAKT_BASE_SPEC_PARSER_H_
