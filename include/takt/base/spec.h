// Policies as text: names, options, and specs. A spec is a text from which a policy is created again.
#ifndef TAKT_BASE_SPEC_H_
#define TAKT_BASE_SPEC_H_

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "takt/base/count.h"
#include "takt/base/from_chars.h"
#include "takt/base/names.h"

namespace takt {

// Properties of an option besides its name and default: unit, meaning and allowed values.
struct OptionText {
  std::string_view unit = {}, meaning = {};
  double least = 0, most = std::numeric_limits<double>::infinity();
  bool below_most = false;  // true: `most` is excluded

  // Bounds of an integer, exact even for integers that a double does not represent.
  template <std::integral N>
  constexpr N Least() const {
    constexpr N kLeast = std::numeric_limits<N>::min();
    if (!(least > static_cast<double>(kLeast))) return kLeast;
    const auto whole = static_cast<N>(least);
    return static_cast<double>(whole) < least ? static_cast<N>(whole + 1) : whole;
  }
  template <std::integral N>
  constexpr N Most() const {
    constexpr N kMost = std::numeric_limits<N>::max();
    if (!(most < 2 * static_cast<double>(kMost / 2 + 1))) return kMost;
    const auto whole = static_cast<N>(most);
    const auto back = static_cast<double>(whole);
    return back > most || (below_most && back >= most) ? static_cast<N>(whole - 1) : whole;
  }

  constexpr bool Holds(double value) const { return value >= least && (below_most ? value < most : value <= most); }
  template <std::integral N>
  constexpr bool Holds(N value) const {
    return value >= Least<N>() && value <= Most<N>();
  }
};

// A policy lists its options in a static member template:
//   template <class Self, class V> static void VisitOptions(Self& self, V&& visit) {
//     visit("quantile", self.quantile, OptionText{"share", "..."});
//   }
template <class P>
concept OptionsPolicy = requires(P& p) { P::VisitOptions(p, [](std::string_view, auto&, const OptionText&) {}); };

// A struct of options lists its fields, so that code can visit and check them. A struct in the log lists all its
// fields:
//   template <class Self, class List> static constexpr auto ListOptions(Self& self, List&& list) {
//     return list(Option("window", self.window), Option("share", self.share, {.most = 1}));
//   }
template <class F>
struct Option {
  constexpr Option(std::string_view its_name, F& its_field, const OptionText& its_text = {})
      : name(its_name), field(its_field), text(its_text) {}

  std::string_view name;
  F& field;
  OptionText text;
};

template <class T>
concept ListsOptions = requires(T& options) { T::ListOptions(options, [](const auto&...) {}); };

// Calls visit(name, value, text) for each option. For a Count or an Id, `value` is the number.
template <class T, class V>
  requires ListsOptions<std::remove_const_t<T>>
constexpr void VisitOptions(T& options, V&& visit) {
  const auto number = [](auto& field) -> auto& {
    if constexpr (requires { field.value; }) {
      return field.value;
    } else {
      return field;
    }
  };
  T::ListOptions(options, [&](const auto&... o) { (visit(o.name, number(o.field), o.text), ...); });
}

inline constexpr std::string_view kForeverText = "forever";

inline std::string OptionToText(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}
inline std::string OptionToText(bool value) { return value ? "true" : "false"; }
template <std::integral N>
std::string OptionToText(N value) {
  const bool forever = std::same_as<N, std::int64_t> && std::cmp_equal(value, kForever);
  return forever ? std::string(kForeverText) : std::to_string(value);
}
template <NamedEnum E>
std::string OptionToText(E value) {
  return HasName(value) ? std::string(Name(value)) : std::to_string(static_cast<int>(value));
}

// Returns false, without effect, if the text is not an allowed value.
template <class Number>
  requires std::is_arithmetic_v<Number>
bool OptionFromText(std::string_view text, const OptionText& bounds, Number& value) {
  if constexpr (std::same_as<Number, std::int64_t>) {
    if (text == kForeverText) return value = kForever, true;
  }
  Number read{};
  const auto [end, error] = internal::FromChars(text.data(), text.data() + text.size(), read);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (!bounds.Holds(read)) return false;
  value = read;
  return true;
}
inline bool OptionFromText(std::string_view text, const OptionText&, bool& value) {
  if (text != "true" && text != "false") return false;
  value = text == "true";
  return true;
}
template <NamedEnum E>
bool OptionFromText(std::string_view text, const OptionText& bounds, E& value) {
  const std::optional<E> named = FromName<E>(text);
  if (!named || !bounds.Holds(static_cast<double>(*named))) return false;
  value = *named;
  return true;
}

// Returns true if the option allows the value.
template <class Value>
constexpr bool Within(const Value& value, const OptionText& bounds) {
  if constexpr (NamedEnum<Value>) {
    return HasName(value) && bounds.Holds(static_cast<double>(value));
  } else {
    return bounds.Holds(value);
  }
}

// Returns "must be 1 to 16" or "must be one of drop, out".
template <class Value>
std::string WishOf(const Value&, const OptionText& bounds) {
  if constexpr (std::same_as<Value, bool>) return "must be true or false";
  std::string wish;
  if constexpr (NamedEnum<Value>) {
    const auto names = NamesOf(Value{});
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (bounds.Holds(static_cast<double>(i))) wish.append(wish.empty() ? "must be one of " : ", ").append(names[i]);
    }
    return wish;
  }
  const std::string least = OptionToText(bounds.least), most = OptionToText(bounds.most);
  if (bounds.below_most) return "must be in [" + least + ", " + most + ")";
  if (bounds.most < std::numeric_limits<double>::infinity()) return "must be " + least + " to " + most;
  return "must be at least " + least;
}

// Describes a value that is given as text: "must be a whole number from 1 to 16", "must be a number of at least 0".
template <class Value>
std::string WishOf(const Value& value, const OptionText& bounds, std::string_view text) {
  if constexpr (std::same_as<Value, bool> || !std::is_arithmetic_v<Value>) {
    return WishOf(value, bounds);
  } else {
    Value read{};
    const bool out_of_range =
        internal::FromChars(text.data(), text.data() + text.size(), read).ec == std::errc::result_out_of_range;
    const bool bounded = bounds.most < std::numeric_limits<double>::infinity();
    if constexpr (std::integral<Value>) {
      const std::string least = std::to_string(bounds.Least<Value>()), most = std::to_string(bounds.Most<Value>());
      std::string wish = "must be a whole number ";
      wish += bounded || out_of_range ? "from " + least + " to " + most : "of at least " + least;
      return std::same_as<Value, std::int64_t> && !bounded ? wish.append(", or ").append(kForeverText) : wish;
    } else {
      const std::string least = OptionToText(bounds.least), most = OptionToText(bounds.most);
      std::string wish = "must be a number ";
      wish += bounds.below_most ? "in [" + least + ", " + most + ")"
              : bounded         ? "from " + least + " to " + most
                                : "of at least " + least;
      return out_of_range ? wish + " that a double can hold" : wish;
    }
  }
}

// Returns the policy's name without options: kName, or `name()` if it depends on an inner policy.
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

// Returns the options that differ from those of `plain`, as "k=v,k=v".
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

// Returns a spec that MakePolicy accepts: the name, and the options that differ from their defaults.
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
