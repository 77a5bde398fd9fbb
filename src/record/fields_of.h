// Lists the fields of a type for the log.
#ifndef TAKT_SRC_RECORD_FIELDS_OF_H_
#define TAKT_SRC_RECORD_FIELDS_OF_H_

#include <concepts>
#include <string_view>
#include <tuple>
#include <type_traits>

// Fields(object) is a tuple of references to all fields of an aggregate. A missing field does not compile. FieldNames
// is the list as text. Order and defaults are part of the log's format. A change needs a new version, unless it adds a
// field at the end.
#define TAKT_FIELDS(Type, ...)                          \
  template <class T>                                    \
    requires std::same_as<std::remove_const_t<T>, Type> \
  auto Fields(T& object) {                              \
    auto& [__VA_ARGS__] = object;                       \
    return std::tie(__VA_ARGS__);                       \
  }                                                     \
  constexpr std::string_view FieldNames(const Type*) { return #__VA_ARGS__; }

// Lists the fields of a type except its reserved ones.
#define TAKT_FIELDS_BUT_RESERVED(Type, names, ...)      \
  template <class T>                                    \
    requires std::same_as<std::remove_const_t<T>, Type> \
  auto Fields(T& object) {                              \
    return std::tie(__VA_ARGS__);                       \
  }                                                     \
  constexpr std::string_view FieldNames(const Type*) { return names; }

#define TAKT_NO_FIELDS(Type)                             \
  inline std::tuple<> Fields(const Type&) { return {}; } \
  constexpr std::string_view FieldNames(const Type*) { return ""; }

#endif  // TAKT_SRC_RECORD_FIELDS_OF_H_
