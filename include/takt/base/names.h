// Names of enum values, defined once next to the enum.
#ifndef TAKT_BASE_NAMES_H_
#define TAKT_BASE_NAMES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "takt/config.h"

namespace takt {

// An enum with a function NamesOf, which ignores its argument and returns the names of all values from 0 on. The enum's
// underlying type must be fixed, as for an enum class. Otherwise a number without a value is not a constant.
//   enum class Fruit { kApple, kPear };
//   constexpr auto NamesOf(Fruit) { return std::to_array<std::string_view>({"apple", "pear"}); }
template <class E>
concept NamedEnum = requires(E value) {
  E{0};
  NamesOf(value).size();
};

// Returns false if the number is not a value of the enum.
template <NamedEnum E>
constexpr bool HasName(E value) {
  return static_cast<std::size_t>(value) < NamesOf(value).size();
}

// Returns true if the enum declares this value. Compilers print "takt::Fruit::kPear" for a declared value, but
// "(takt::Fruit)2" for any other number.
template <auto kValue>
constexpr bool IsDeclared() {
  constexpr std::string_view kText = __PRETTY_FUNCTION__;
  const char after = kText[kText.rfind(')') + 1];
  return after < '0' || after > '9';
}

// Fails to compile if a value has no name or a name has no value. Clang does not instantiate an enum of a class
// template before one of its values is used. Until then not even 0 has a name, and nothing is checked.
template <NamedEnum E, std::size_t kNames = NamesOf(E{}).size()>
inline constexpr bool kAllNamed =
    !IsDeclared<E{}>() || (IsDeclared<static_cast<E>(kNames - 1)>() && !IsDeclared<static_cast<E>(kNames)>());

template <NamedEnum E>
constexpr std::string_view Name(E value) {
  static_assert(kAllNamed<E>);
  return NamesOf(value)[static_cast<std::size_t>(value)];
}

// Returns nothing if no value has this name.
template <NamedEnum E>
constexpr std::optional<E> FromName(std::string_view name) {
  static_assert(kAllNamed<E>);
  const auto names = NamesOf(E{});
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? std::nullopt : std::optional(static_cast<E>(at - names.begin()));
}

}  // namespace takt

#endif  // TAKT_BASE_NAMES_H_
