// Time as the host reports it. EngineClock has no now(), so code that reads a clock does not compile. A host may report
// any time. So the library computes with times only by the saturating functions of this header. The operators of
// std::chrono overflow, so src/saturating_times.h removes them from the library's own code.
#ifndef TAKT_BASE_TIME_H_
#define TAKT_BASE_TIME_H_

#include <chrono>
#include <cstdint>

#include "takt/base/rounded.h"

namespace takt {

struct EngineClock {
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<EngineClock>;
  static constexpr bool is_steady = true;
};

using Duration = EngineClock::duration;
using TimePoint = EngineClock::time_point;

inline constexpr TimePoint kNever = TimePoint::max();  // a time that never comes
inline constexpr TimePoint kUnset = TimePoint::min();  // an unset time; takt then uses the time of the event

constexpr double ToSeconds(Duration d) { return Rounded(static_cast<double>(d.count()) * 1e-9); }
constexpr double ToSeconds(TimePoint t) { return ToSeconds(t.time_since_epoch()); }

// Returns at + by, saturated.
constexpr TimePoint After(TimePoint at, Duration by) {
  std::int64_t ns = 0;
  const bool beyond = __builtin_add_overflow(at.time_since_epoch().count(), by.count(), &ns);
  return beyond ? (by < Duration::zero() ? kUnset : kNever) : TimePoint(Duration(ns));
}

// Returns a + b, saturated.
constexpr Duration Sum(Duration a, Duration b) { return After(TimePoint(a), b).time_since_epoch(); }

// Returns d n, saturated.
constexpr Duration Times(Duration d, std::int64_t n) {
  std::int64_t ns = 0;
  const bool beyond = __builtin_mul_overflow(d.count(), n, &ns);
  return beyond ? ((d < Duration::zero()) != (n < 0) ? Duration::min() : Duration::max()) : Duration(ns);
}

// Returns to - from, saturated.
constexpr Duration Between(TimePoint from, TimePoint to) {
  std::int64_t ns = 0;
  const bool beyond = __builtin_sub_overflow(to.time_since_epoch().count(), from.time_since_epoch().count(), &ns);
  return beyond ? (to < from ? Duration::min() : Duration::max()) : Duration(ns);
}

constexpr Duration Difference(Duration a, Duration b) { return Between(TimePoint(b), TimePoint(a)); }
constexpr TimePoint Before(TimePoint at, Duration by) { return TimePoint(Difference(at.time_since_epoch(), by)); }

// Converts seconds, rounded to nanoseconds, half away from zero, saturated; NaN becomes zero.
constexpr Duration FromSeconds(double seconds) {
  const double ns = Rounded(seconds * 1e9);
  if (!(ns < 9.2e18)) return ns != ns ? Duration::zero() : Duration::max();
  if (ns < -9.2e18) return Duration::min();
  return Duration(static_cast<std::int64_t>(ns < 0 ? ns - 0.5 : ns + 0.5));
}

}  // namespace takt

#endif  // TAKT_BASE_TIME_H_
