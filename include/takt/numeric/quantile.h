// Exact quantiles of a sample.
#ifndef TAKT_NUMERIC_QUANTILE_H_
#define TAKT_NUMERIC_QUANTILE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "takt/base/rounded.h"

namespace takt {

enum class QuantileKind : std::uint8_t {
  kLinear,  // type 7 of Hyndman and Fan (1996), the default of NumPy and R: linear in the rank (n - 1) p
  kNearestRank,  // the ceil(p n)-th smallest value
};

// Moves NaN to the end. Returns the values before it.
inline std::span<double> WithoutNan(std::span<double> values) {
  const auto end = std::partition(values.begin(), values.end(), [](double x) { return x == x; });
  return values.first(static_cast<std::size_t>(end - values.begin()));
}

namespace internal {

// Position of a quantile in n > 0 ordered values. The quantile is the value at index `below`, plus `share` of the
// distance to the next value.
struct QuantileRank {
  std::size_t below = 0;
  double share = 0;
};

inline QuantileRank RankOf(double p, std::size_t n, QuantileKind kind) {
  const double level = p > 0 ? (p < 1 ? p : 1) : 0;
  const auto count = static_cast<double>(n);
  if (kind == QuantileKind::kNearestRank) {
    // 0.07 * 100 is 7.000000000000001, but its ceiling must be 7.
    const double rank = std::ceil(level * count * (1 - 1e-14));
    return {rank < 1 ? 0 : static_cast<std::size_t>(rank) - 1, 0};
  }
  const double at = Rounded(level * (count - 1));
  const double below = std::floor(at);
  return {static_cast<std::size_t>(below), at - below};
}

inline double Between(double low, double high, double share) {
  return share > 0 && low != high ? low + Rounded((high - low) * share) : low;
}

}  // namespace internal

// Returns a quantile of ascending values without NaN, or NaN if there are none. p is clamped to [0, 1].
inline double QuantileOfSorted(std::span<const double> ascending, double p, QuantileKind kind = QuantileKind::kLinear) {
  if (ascending.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto [below, share] = internal::RankOf(p, ascending.size(), kind);
  if (below + 1 >= ascending.size()) return ascending.back();
  return internal::Between(ascending[below], ascending[below + 1], share);
}

// Returns a quantile of unordered values and reorders them. Ignores NaN. O(n) by selection.
inline double Quantile(std::span<double> values, double p, QuantileKind kind = QuantileKind::kLinear) {
  const std::span<double> valid = WithoutNan(values);
  if (valid.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto [below, share] = internal::RankOf(p, valid.size(), kind);
  const auto at = valid.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(valid.begin(), at, valid.end());
  if (!(share > 0)) return *at;
  return internal::Between(*at, *std::min_element(at + 1, valid.end()), share);
}

}  // namespace takt

#endif  // TAKT_NUMERIC_QUANTILE_H_
