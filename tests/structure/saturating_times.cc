// Compiled as the library, with src/saturating_times.h first. Every public header compiles, and each operator on times
// that can overflow is refused.
#include "all_headers.h"

namespace takt {
namespace {

template <class A, class B>
concept Adds = requires(A a, B b) { a + b; };
template <class A, class B>
concept Subtracts = requires(A a, B b) { a - b; };
template <class A, class B>
concept Multiplies = requires(A a, B b) { a* b; };
template <class A, class B>
concept AddsTo = requires(A a, B b) { a += b; };
template <class A, class B>
concept TakesFrom = requires(A a, B b) { a -= b; };
template <class A, class B>
concept Scales = requires(A a, B b) { a *= b; };
template <class A>
concept Turns = requires(A a) { -a; };
template <class A>
concept Steps = requires(A a) { ++a; } || requires(A a) { a++; } || requires(A a) { --a; } || requires(A a) { a--; };

template <class Other>  // a duration
constexpr bool kRefused =
    !Adds<TimePoint, Other> && !Adds<Other, TimePoint> && !Subtracts<TimePoint, Other> && !AddsTo<TimePoint, Other> &&
    !TakesFrom<TimePoint, Other> && !Adds<Duration, Other> && !Adds<Other, Duration> && !Subtracts<Duration, Other> &&
    !Subtracts<Other, Duration> && !AddsTo<Duration, Other> && !TakesFrom<Duration, Other>;
static_assert(kRefused<Duration> && kRefused<std::chrono::milliseconds> && kRefused<std::chrono::hours> &&
              kRefused<std::chrono::duration<double>>);
static_assert(!Subtracts<TimePoint, TimePoint>);
static_assert(!Multiplies<Duration, int> && !Multiplies<std::int64_t, Duration> && !Multiplies<Duration, double>);
static_assert(!Scales<Duration, int> && !Scales<Duration, Duration::rep> && !Turns<Duration> && !Steps<Duration>);

// The check accepts allowed operators.
static_assert(Adds<std::chrono::hours, std::chrono::hours> && Turns<std::chrono::hours> && Adds<int, int>);
static_assert(requires(Duration d) { d / 2, d < d, d / d; });

}  // namespace
}  // namespace takt
