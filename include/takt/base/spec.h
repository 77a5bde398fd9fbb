// Policies of any kind as text: their names, their options, and the spec that makes them again.
#ifndef TAKT_BASE_SPEC_H_
#define TAKT_BASE_SPEC_H_

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "takt/base/count.h"
#include "takt/base/names.h"

namespace takt {

// What is said of an option besides its name and its default: unit and meaning, and the values it may have.
struct OptionText {
  std::string_view unit, meaning;
  double least = 0, most = std::numeric_limits<double>::infinity();
};

// A policy names its options by a static member template:
//   template <class Self, class V> static void VisitOptions(Self& self, V&& visit) {
//     visit("quantile", self.quantile, OptionText{"share", "..."});
//   }
template <class P>
concept OptionsPolicy = requires(P& p) { P::VisitOptions(p, [](std::string_view, auto&, const OptionText&) {}); };

inline constexpr std::string_view kForeverText = "forever";

inline std::string OptionToText(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}
inline std::string OptionToText(std::int64_t value) {
  return value == kForever ? std::string(kForeverText) : std::to_string(value);
}
inline std::string OptionToText(bool value) { return value ? "true" : "false"; }
template <NamedEnum E>
std::string OptionToText(E value) {
  return std::string(Name(value));
}

// False, and the option stays, where the text is no such value or lies outside the bounds.
template <class Number>
bool NumberFromText(std::string_view text, const OptionText& bounds, Number& value) {
  Number read{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  const auto number = static_cast<double>(read);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (!(number >= bounds.least && number <= bounds.most)) return false;
  value = read;
  return true;
}
inline bool OptionFromText(std::string_view text, const OptionText& bounds, double& value) {
  return NumberFromText(text, bounds, value);
}
inline bool OptionFromText(std::string_view text, const OptionText& bounds, std::int64_t& value) {
  if (text != kForeverText) return NumberFromText(text, bounds, value);
  value = kForever;
  return true;
}
inline bool OptionFromText(std::string_view text, const OptionText&, bool& value) {
  if (text != "true" && text != "false") return false;
  value = text == "true";
  return true;
}
template <NamedEnum E>
bool OptionFromText(std::string_view text, const OptionText&, E& value) {
  const std::optional<E> named = FromName<E>(text);
  value = named.value_or(value);
  return named.has_value();
}

// The policy's name, without options: kName, or `name()` where it depends on what is inside.
template <class P>
std::string NameOf(const P& policy) {
  if constexpr (requires { policy.name(); }) {
    return std::string(policy.name());
  } else if constexpr (requires { P::kName; }) {
    return std::string(P::kName);
  } else {
    return "unnamed";
  }
}

// "k=v,k=v": the options that differ from those of `plain`.
template <OptionsPolicy P>
std::string ChangedOptions(const P& policy, const P& plain) {
  std::string changed;
  P::VisitOptions(policy, [&](std::string_view name, const auto& value, const OptionText&) {
    P::VisitOptions(plain, [&](std::string_view other, const auto& its_value, const OptionText&) {
      if (name != other || OptionToText(value) == OptionToText(its_value)) return;
      if (!changed.empty()) changed += ',';
      changed.append(name).append("=").append(OptionToText(value));
    });
  });
  return changed;
}

// What MakePolicy makes it from: the name, and those options that are not at their defaults.
template <class P>
std::string SpecOf(const P& policy) {
  if constexpr (requires { policy.spec(); }) {
    return std::string(policy.spec());
  } else if constexpr (OptionsPolicy<P>) {
    const std::string changed = ChangedOptions(policy, P{});
    return NameOf(policy) + (changed.empty() ? "" : "(" + changed + ")");
  } else {
    return NameOf(policy);
  }
}

}  // namespace takt

#endif  // TAKT_BASE_SPEC_H_
