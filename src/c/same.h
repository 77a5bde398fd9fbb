// Checks of two structs that fields.h uses.
#ifndef TAKT_SRC_C_SAME_H_
#define TAKT_SRC_C_SAME_H_

#include <concepts>
#include <cstddef>
#include <type_traits>

// Checks that two types have the same bits, so that arrays cross without a copy.
#define TAKT_SAME_SIZE(Cxx, C)                                                                                 \
  static_assert(sizeof(Cxx) == sizeof(C) && alignof(Cxx) == alignof(C) && std::is_trivially_copyable_v<Cxx> && \
                std::is_standard_layout_v<Cxx>)
#define TAKT_SAME_PLACE(Cxx, C, field) \
  static_assert(offsetof(Cxx, field) == offsetof(C, field) && sizeof(Cxx::field) == sizeof(C::field))

namespace takt::c {

template <class T, class Of>
concept Either = std::same_as<std::remove_const_t<T>, Of>;

}  // namespace takt::c

#endif  // TAKT_SRC_C_SAME_H_
