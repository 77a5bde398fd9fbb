// Included before each file of the library (src/CMakeLists.txt), never installed. In namespace takt, std::chrono's
// operators that can overflow a TimePoint or a Duration do not compile. base/time.h has saturating functions instead.
// Division and comparison remain. tests/structure/saturating_times.cc has a case for each operator.
#ifndef TAKT_SRC_SATURATING_TIMES_H_
#define TAKT_SRC_SATURATING_TIMES_H_

#include <chrono>
#include <concepts>
#include <type_traits>

#include "takt/base/time.h"

namespace takt {

template <class Rep, class Period>
void operator+(const TimePoint&, const std::chrono::duration<Rep, Period>&) = delete;
template <class Rep, class Period>
void operator+(const std::chrono::duration<Rep, Period>&, const TimePoint&) = delete;
template <class Rep, class Period>
void operator-(const TimePoint&, const std::chrono::duration<Rep, Period>&) = delete;
void operator-(const TimePoint&, const TimePoint&) = delete;
template <class Rep, class Period>
void operator+=(TimePoint&, const std::chrono::duration<Rep, Period>&) = delete;
template <class Rep, class Period>
void operator-=(TimePoint&, const std::chrono::duration<Rep, Period>&) = delete;

template <class Rep, class Period>
concept OtherDuration = !std::same_as<std::chrono::duration<Rep, Period>, Duration>;

template <class Rep, class Period>
void operator+(const Duration&, const std::chrono::duration<Rep, Period>&) = delete;
template <class Rep, class Period>
  requires OtherDuration<Rep, Period>
void operator+(const std::chrono::duration<Rep, Period>&, const Duration&) = delete;
template <class Rep, class Period>
void operator-(const Duration&, const std::chrono::duration<Rep, Period>&) = delete;
template <class Rep, class Period>
  requires OtherDuration<Rep, Period>
void operator-(const std::chrono::duration<Rep, Period>&, const Duration&) = delete;
template <class Number>
  requires std::is_arithmetic_v<Number>
void operator*(const Duration&, const Number&) = delete;
template <class Number>
  requires std::is_arithmetic_v<Number>
void operator*(const Number&, const Duration&) = delete;

// Deleted operators with the parameters of the members of std::chrono::duration and time_point, so that calls are
// ambiguous.
void operator+=(TimePoint&, const Duration&) = delete;
void operator-=(TimePoint&, const Duration&) = delete;
void operator+=(Duration&, const Duration&) = delete;
void operator-=(Duration&, const Duration&) = delete;
void operator*=(Duration&, const Duration::rep&) = delete;
void operator-(const Duration&) = delete;
template <class Rep, class Period>
void operator+=(Duration&, const std::chrono::duration<Rep, Period>&) = delete;
template <class Rep, class Period>
void operator-=(Duration&, const std::chrono::duration<Rep, Period>&) = delete;
template <class Number>
  requires std::is_arithmetic_v<Number>
void operator*=(Duration&, const Number&) = delete;
void operator++(Duration&) = delete;
void operator++(Duration&, int) = delete;
void operator--(Duration&) = delete;
void operator--(Duration&, int) = delete;

}  // namespace takt

#endif  // TAKT_SRC_SATURATING_TIMES_H_
