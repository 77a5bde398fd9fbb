// Checks of a shadow. The first fault becomes its violation.
#ifndef TAKT_TESTS_FIRE_CHECK_H_
#define TAKT_TESTS_FIRE_CHECK_H_

#include <fmt/format.h>

// For member functions that return void in a class with Violate(text). If the condition is false, the function returns.
#define FIRE_CHECK(condition, ...)              \
  do {                                          \
    if (!(condition)) [[unlikely]]              \
      return Violate(fmt::format(__VA_ARGS__)); \
  } while (false)

#endif  // TAKT_TESTS_FIRE_CHECK_H_
