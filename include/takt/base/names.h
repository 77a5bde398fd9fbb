// Names of the values of enums, said once: beside the enum.
#ifndef TAKT_BASE_NAMES_H_
#define TAKT_BASE_NAMES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "takt/config.h"

namespace takt {

// Whose values, from 0 on, have the names that NamesOf tells, whatever value it is given. Its underlying type is fixed,
// as that of an enum class is: of another, a number without a value is no constant.
//   enum class Fruit { kApple, kPear };
//   constexpr auto NamesOf(Fruit) { return std::to_array<std::string_view>({"apple", "pear"}); }
template <class E>
concept NamedEnum = requires(E value) {
  E{0};
  NamesOf(value).size();
};

// False of a number that is no value of the enum.
template <NamedEnum E>
constexpr bool HasName(E value) {
  return static_cast<std::size_t>(value) < NamesOf(value).size();
}

// Whether a value of an enum is declared: compilers write "takt::Fruit::kPear", but "(takt::Fruit)2" for another
// number.
template <auto kValue>
constexpr bool IsDeclared() {
  constexpr std::string_view kText = __PRETTY_FUNCTION__;
  const char after = kText[kText.rfind(')') + 1];
  return after < '0' || after > '9';
}

// A value without a name, or a name without a value, does not compile where names are asked for. Clang does not look
// into an enum of a class template before one of its values is named: there nothing is known, not even of zero.
template <NamedEnum E, std::size_t kNames = NamesOf(E{}).size()>
inline constexpr bool kAllNamed =
    !IsDeclared<E{}>() || (IsDeclared<static_cast<E>(kNames - 1)>() && !IsDeclared<static_cast<E>(kNames)>());

template <NamedEnum E>
constexpr std::string_view Name(E value) {
  static_assert(kAllNamed<E>);
  return NamesOf(value)[static_cast<std::size_t>(value)];
}

// Nothing where no value has the name.
template <NamedEnum E>
constexpr std::optional<E> FromName(std::string_view name) {
  static_assert(kAllNamed<E>);
  const auto names = NamesOf(E{});
  const auto at = std::ranges::find(names, name);
  return at == names.end() ? std::nullopt : std::optional(static_cast<E>(at - names.begin()));
}

}  // namespace takt

#endif  // TAKT_BASE_NAMES_H_
