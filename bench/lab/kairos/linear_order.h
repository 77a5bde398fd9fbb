// Finds the best order of a few items, given the gain of each pair for either order.
#ifndef TAKT_BENCH_LAB_KAIROS_LINEAR_ORDER_H_
#define TAKT_BENCH_LAB_KAIROS_LINEAR_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "takt/config.h"

namespace takt {

// Returns the order of n items with the greatest sum of gain[a * n + b] over all pairs with a before b. Solves this
// linear ordering problem exactly, over all subsets. O(2^n n^2) time and 12 2^n bytes; n at most 20.
inline std::vector<std::size_t> BestLinearOrder(std::span<const double> gain, std::size_t n) {
  TAKT_ASSERT(n <= 20 && gain.size() == n * n);
  const std::size_t sets = std::size_t{1} << n;
  std::vector<double> best(sets, 0);
  std::vector<unsigned char> last(sets, 0);
  for (std::size_t set = 1; set < sets; ++set) {
    bool first = true;
    for (std::size_t item = 0; item < n; ++item) {
      if ((set >> item & 1) == 0) continue;
      const std::size_t before = set & ~(std::size_t{1} << item);
      double sum = best[before];
      for (std::size_t a = 0; a < n; ++a) sum += (before >> a & 1) != 0 ? gain[a * n + item] : 0;
      if (first || sum > best[set]) best[set] = sum, last[set] = static_cast<unsigned char>(item);
      first = false;
    }
  }
  std::vector<std::size_t> order;
  for (std::size_t set = sets - 1; set != 0; set &= ~(std::size_t{1} << last[set])) order.push_back(last[set]);
  std::ranges::reverse(order);
  return order;
}

}  // namespace takt

#endif  // TAKT_BENCH_LAB_KAIROS_LINEAR_ORDER_H_
