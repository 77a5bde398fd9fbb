// Counters by name.
#ifndef TAKT_SRC_C_STATS_H_
#define TAKT_SRC_C_STATS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "c/handle.h"
#include "takt/c/takt.h"
#include "takt/router.h"
#include "takt/state/stats.h"

namespace takt::c {

template <class S>
struct Counter {
  const char* name;
  std::uint64_t S::* value;
};

#define TAKT_COUNTER(name, text) {#name, &Counted::name},
inline constexpr auto kCounters = [] {
  using Counted = Stats;
  return std::to_array<Counter<Counted>>({TAKT_STATS(TAKT_COUNTER)});
}();
inline constexpr auto kRouterCounters = [] {
  using Counted = RouterStats;
  return std::to_array<Counter<Counted>>({TAKT_ROUTER_STATS(TAKT_COUNTER)});
}();
#undef TAKT_COUNTER

// Copies the first n counters. Returns their number, or 0 if the buffer is too small.
template <class S, std::size_t N>
std::size_t WriteStats(const std::array<Counter<S>, N>& counters, const S& from, takt_stat* to, std::size_t n) {
  if (Given(to, n) != TAKT_OK) return 0;
  std::transform(counters.begin(), counters.begin() + std::min(n, N), to,
                 [&](const Counter<S>& counter) { return takt_stat{counter.name, from.*counter.value}; });
  return N;
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_STATS_H_
