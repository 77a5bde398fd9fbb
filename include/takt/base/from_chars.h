// std::from_chars, also for double with libc++ before version 20, which lacks it.
#ifndef TAKT_BASE_FROM_CHARS_H_
#define TAKT_BASE_FROM_CHARS_H_

#include <charconv>
#include <concepts>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
#include "absl/strings/charconv.h"
#endif

namespace takt::internal {

// Like std::from_chars(first, last, value) in base 10.
template <class Number>
std::from_chars_result FromChars(const char* first, const char* last, Number& value) {
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
  if constexpr (std::floating_point<Number>) {
    const absl::from_chars_result result = absl::from_chars(first, last, value);
    return {result.ptr, result.ec};
  } else
#endif
    return std::from_chars(first, last, value);
}

}  // namespace takt::internal

#endif  // TAKT_BASE_FROM_CHARS_H_
