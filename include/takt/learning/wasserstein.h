// Distances between two distributions of numbers.
#ifndef TAKT_LEARNING_WASSERSTEIN_H_
#define TAKT_LEARNING_WASSERSTEIN_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "takt/base/rounded.h"

namespace takt {

// Returns the exact first Wasserstein distance of two samples: the area between their quantile functions. Both samples
// must ascend without NaN. Returns NaN if a sample is empty. O(a + b).
inline double Wasserstein1(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto na = static_cast<double>(a.size()), nb = static_cast<double>(b.size());
  double area = 0, at = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    // Ranks in units of 1 / (na * nb) are integers.
    const double next_a = Rounded(static_cast<double>(i + 1) * nb), next_b = Rounded(static_cast<double>(j + 1) * na);
    const double next = std::min(next_a, next_b);
    area += Rounded((next - at) * std::abs(a[i] - b[j]));
    at = next;
    if (next_a <= next) ++i;
    if (next_b <= next) ++j;
  }
  return area / (na * nb);
}

// Returns the mean distance of two quantile functions at the same evenly spaced levels, such as (k + 0.5) / n. Returns
// 0 if there are no levels. If the numbers of levels differ, uses the smaller number.
template <class Real>
double QuantileDistance(std::span<const Real> a, std::span<const Real> b) {
  const std::size_t n = std::min(a.size(), b.size());
  double sum = 0;
  for (std::size_t k = 0; k < n; ++k) sum += std::abs(static_cast<double>(a[k]) - static_cast<double>(b[k]));
  return n > 0 ? sum / static_cast<double>(n) : 0;
}

}  // namespace takt

#endif  // TAKT_LEARNING_WASSERSTEIN_H_
