// Agreement of two orders or two quantities.
#ifndef TAKT_NUMERIC_CORRELATION_H_
#define TAKT_NUMERIC_CORRELATION_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/config.h"

namespace takt {

// Numbers of item pairs, by how two scores order them.
struct PairCounts {
  std::int64_t concordant = 0;  // number of pairs that both scores order in the same way
  std::int64_t discordant = 0;
  std::int64_t tied_first = 0;  // number of pairs that are tied only in the first score
  std::int64_t tied_second = 0;  // number of pairs that are tied only in the second score
  std::int64_t tied_both = 0;

  std::int64_t pairs() const { return concordant + discordant + tied_first + tied_second + tied_both; }

  // Returns Kendall's tau-b in [-1, 1]; 0 if a score is constant.
  double tau_b() const {
    const auto ordered = static_cast<double>(concordant + discordant);
    const double first = ordered + static_cast<double>(tied_second);
    const double second = ordered + static_cast<double>(tied_first);
    return first > 0 && second > 0 ? static_cast<double>(concordant - discordant) / std::sqrt(first * second) : 0;
  }

  // Returns Kendall's distance in [0, 1]: of the pairs that the first score orders, the share that the second score
  // orders the other way. A pair that is tied in the second score counts half. Returns 0 if the first orders no pair.
  double distance() const {
    const std::int64_t ordered = concordant + discordant + tied_second;
    return ordered > 0 ? (static_cast<double>(discordant) + Rounded(0.5 * static_cast<double>(tied_second))) /
                             static_cast<double>(ordered)
                       : 0;
  }
};

namespace internal {

// Sorts `y` in ascending order. Returns the number of inversions.
inline std::int64_t SortCountingInversions(std::span<double> y, std::span<double> scratch) {
  if (y.size() < 2) return 0;
  const std::size_t half = y.size() / 2;
  std::int64_t inversions = SortCountingInversions(y.first(half), scratch.first(half)) +
                            SortCountingInversions(y.subspan(half), scratch.subspan(half));
  std::size_t left = 0, right = half;
  for (double& out : scratch) {
    const bool take_right = left == half || (right < y.size() && y[right] < y[left]);
    if (take_right && left < half) inversions += static_cast<std::int64_t>(half - left);
    out = take_right ? y[right++] : y[left++];
  }
  std::copy(scratch.begin(), scratch.end(), y.begin());
  return inversions;
}

// Returns the number of pairs of equal elements.
template <class T>
std::int64_t TiedPairs(std::span<const T> sorted, auto equal) {
  std::int64_t pairs = 0, run = 0;
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    run = equal(sorted[i - 1], sorted[i]) ? run + 1 : 0;
    pairs += run;
  }
  return pairs;
}

}  // namespace internal

// Counts pairs of two scores of the same items in O(n log n) (Knight, 1966). Ignores items with a NaN score.
inline PairCounts CountPairs(std::span<const double> first, std::span<const double> second) {
  TAKT_ASSERT(first.size() == second.size());
  using Item = std::pair<double, double>;
  std::vector<Item> items;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i] == first[i] && second[i] == second[i]) items.emplace_back(first[i], second[i]);
  }
  std::sort(items.begin(), items.end());
  const std::span<const Item> sorted(items);
  const std::int64_t tied_both = internal::TiedPairs(sorted, [](const Item& a, const Item& b) { return a == b; });
  const std::int64_t tied_first =
      internal::TiedPairs(sorted, [](const Item& a, const Item& b) { return a.first == b.first; });

  std::vector<double> y, scratch(items.size());
  for (const Item& item : items) y.push_back(item.second);
  // Among items with equal first scores, second scores ascend, so pairs of these items are not inversions.
  const std::int64_t discordant = internal::SortCountingInversions(y, scratch);
  const std::int64_t tied_second =
      internal::TiedPairs(std::span<const double>(y), [](double a, double b) { return a == b; });

  const auto n = static_cast<std::int64_t>(items.size());
  return {.concordant = n * (n - 1) / 2 - discordant - tied_first - tied_second + tied_both,
          .discordant = discordant,
          .tied_first = tied_first - tied_both,
          .tied_second = tied_second - tied_both,
          .tied_both = tied_both};
}

// Returns Pearson's correlation in [-1, 1]; 0 if a quantity is constant. Ignores pairs with NaN.
inline double Correlation(std::span<const double> x, std::span<const double> y) {
  TAKT_ASSERT(x.size() == y.size());
  double n = 0, mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] != x[i] || y[i] != y[i]) continue;
    ++n;
    const double dx = x[i] - mean_x;
    const double dy = y[i] - mean_y;
    mean_x += dx / n;
    mean_y += dy / n;
    xx += Rounded(dx * (x[i] - mean_x));
    yy += Rounded(dy * (y[i] - mean_y));
    xy += Rounded(dx * (y[i] - mean_y));
  }
  return xx > 0 && yy > 0 ? std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0) : 0;
}

}  // namespace takt

#endif  // TAKT_NUMERIC_CORRELATION_H_
