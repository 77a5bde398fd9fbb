// Nonparametric tests of whether two samples have the same distribution.
#ifndef TAKT_NUMERIC_TWO_SAMPLE_H_
#define TAKT_NUMERIC_TWO_SAMPLE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/numeric/ttest.h"

namespace takt {

// p: upper bound of the probability of such a difference if the distributions are equal; 1 if a sample is empty.
struct TwoSampleTest {
  double statistic = 0;  // statistic of the test; above 0: values of the first sample are greater
  double p = 1;
};

// Tests if one sample's values tend to be greater: Mann and Whitney's rank sum test, two-sided. Uses the normal
// approximation with corrections for ties and continuity. Samples must be ascending, without NaN. The statistic is in
// standard deviations. The approximate tail exceeds the exact tail, which ends at a finite value.
inline TwoSampleTest RankSumTest(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(b.size());
  if (a.empty() || b.empty()) return {};
  double above = 0;  // number of pairs in which a's value is greater; ties count half
  double ties = 0;  // sum of t^3 - t over groups of t equal values
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const double value = j == b.size() || (i < a.size() && a[i] <= b[j]) ? a[i] : b[j];
    double in_a = 0, in_b = 0;
    const auto below = static_cast<double>(j);
    while (i < a.size() && a[i] == value) ++i, ++in_a;
    while (j < b.size() && b[j] == value) ++j, ++in_b;
    above += Rounded(in_a * (below + Rounded(in_b / 2)));
    const double t = in_a + in_b;
    ties += Rounded(t * t * t) - t;
  }
  const double variance = n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1)));
  if (!(variance > 0)) return {};
  const double distance = above - Rounded(n * m / 2);
  const double z = std::max(0.0, std::abs(distance) - 0.5) / std::sqrt(variance);
  return {std::copysign(z, distance), exact::Erfc(z / std::sqrt(2.0))};
}

// Tests for any difference, including spread, with Kolmogorov and Smirnov's largest distance D between the
// distributions. p is the bound C exp(-2 D^2 n m / (n + m)), with the small-sample C = 2.17 (Wei and Dudley, 2012, for
// n = m >= 4; the limit is 2). Samples must be ascending, without NaN. Ties make p larger. D is positive if the first
// sample's values are greater at the largest distance.
inline TwoSampleTest KolmogorovSmirnovTest(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return {};
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(b.size());
  double distance = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double value = std::min(a[i], b[j]);
    while (i < a.size() && a[i] == value) ++i;
    while (j < b.size() && b[j] == value) ++j;
    const double d = static_cast<double>(j) / m - static_cast<double>(i) / n;
    if (std::abs(d) > std::abs(distance)) distance = d;
  }
  return {distance, std::min(1.0, 2.17 * exact::Exp(-2 * distance * distance * n * m / (n + m)))};
}

// Returns P(F > f) for Fisher's F, with positive degrees of freedom.
inline double FisherTail(double f, double above, double below) {
  if (!(f > 0)) return 1;
  return IncompleteBeta(Rounded(below / 2), Rounded(above / 2), below / (below + Rounded(above * f)));
}

}  // namespace takt

#endif  // TAKT_NUMERIC_TWO_SAMPLE_H_
