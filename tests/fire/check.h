// What a shadow demands: the first fault is its violation.
#ifndef TAKT_TESTS_FIRE_CHECK_H_
#define TAKT_TESTS_FIRE_CHECK_H_

#include <fmt/format.h>

// In a member function that returns nothing, of a class with Violate(text): where it does not hold, the function ends.
#define FIRE_CHECK(condition, ...)              \
  do {                                          \
    if (!(condition)) [[unlikely]]              \
      return Violate(fmt::format(__VA_ARGS__)); \
  } while (false)

#endif  // TAKT_TESTS_FIRE_CHECK_H_
