// Student's t-test: does the difference of two means exceed chance?
#ifndef TAKT_NUMERIC_TTEST_H_
#define TAKT_NUMERIC_TTEST_H_

#include <cmath>
#include <limits>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/numeric/summary.h"

namespace takt {

namespace internal {

// Returns log Gamma(x) for x > 0 by Lanczos' series (g = 7, nine terms), with a relative error below 1e-14. std::lgamma
// is not used, since it writes a global variable.
inline double LogGamma(double x) {
  constexpr double kTerms[] = {676.5203681218851,  -1259.1392167224028,  771.32342877765313,    -176.61502916214059,
                               12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  double series = 0.99999999999980993;
  for (int i = 0; i < 8; ++i) series += kTerms[i] / (x + i);
  const double t = x + 6.5;
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
  return kHalfLogTwoPi + Rounded((x - 0.5) * exact::Log(t)) - t + exact::Log(series);
}

// Returns the continued fraction of the incomplete beta function, by Lentz' method (Numerical Recipes, 6.4).
inline double BetaFraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto keep = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / keep(1 - (a + b) * x / (a + 1));
  double result = d;
  for (int m = 1; m <= 10'000; ++m) {
    const double twice = 2 * m;
    const double even = m * (b - m) * x / ((a + twice - 1) * (a + twice));
    d = 1 / keep(1 + Rounded(even * d));
    c = keep(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + twice) * (a + twice + 1));
    d = 1 / keep(1 + Rounded(odd * d));
    c = keep(1 + odd / c);
    result *= d * c;
    if (std::abs(Rounded(d * c) - 1) < 1e-15) break;
  }
  return result;
}

}  // namespace internal

// Returns the regularized incomplete beta function I_x(a, b) for positive a and b, and x in [0, 1].
inline double IncompleteBeta(double a, double b, double x) {
  if (!(x > 0)) return 0;
  if (!(x < 1)) return 1;
  const double front = exact::Exp(internal::LogGamma(a + b) - internal::LogGamma(a) - internal::LogGamma(b) +
                                  Rounded(a * exact::Log(x)) + Rounded(b * exact::Log1p(-x)));
  if (x < (a + 1) / (a + b + 2)) return front * internal::BetaFraction(a, b, x) / a;
  return 1 - Rounded(front * internal::BetaFraction(b, a, 1 - x) / b);
}

// Returns P(T > t) for Student's t with `freedom` degrees of freedom. From 10^6 degrees on, uses the normal
// distribution.
inline double StudentTail(double t, double freedom) {
  if (freedom >= 1e6) return 0.5 * exact::Erfc(t / std::sqrt(2.0));
  const double tail = Rounded(0.5 * IncompleteBeta(Rounded(freedom / 2), 0.5, freedom / (freedom + Rounded(t * t))));
  return t > 0 ? tail : 1 - tail;
}

// Returns the p-quantile of Student's t by bisection; within (-1000, 1000).
inline double StudentQuantile(double p, double freedom) {
  double low = -1000, high = 1000;
  for (int i = 0; i < 64; ++i) {
    const double middle = (low + high) / 2;
    (StudentTail(middle, freedom) > 1 - p ? low : high) = middle;
  }
  return high;
}

// p_greater is the probability of a difference this large or larger if the true difference is zero. It is small if the
// first mean is significantly greater. With too few values, t is 0 and both probabilities are 1.
struct TTest {
  double t = 0;
  double freedom = 0;
  double p_greater = 1;
  double p_less = 1;
};

namespace internal {

inline TTest TestOf(double difference, double variance_of_it, double freedom) {
  if (!(variance_of_it > 0)) {
    // Without variance, any difference is significant.
    if (difference == 0) return {0, freedom, 0.5, 0.5};
    const double infinity = std::numeric_limits<double>::infinity();
    return difference > 0 ? TTest{infinity, freedom, 0, 1} : TTest{-infinity, freedom, 1, 0};
  }
  const double t = difference / std::sqrt(variance_of_it);
  return {t, freedom, StudentTail(t, freedom), StudentTail(-t, freedom)};
}

}  // namespace internal

// Tests two independent samples with unequal variances (Welch, 1947).
inline TTest WelchTest(const Moments& a, const Moments& b) {
  if (a.count() < 2 || b.count() < 2) return {};
  const auto n = static_cast<double>(a.count());
  const auto m = static_cast<double>(b.count());
  const double va = a.variance() / n;
  const double vb = b.variance() / m;
  const double sum = va + vb;
  const double freedom = sum > 0 ? sum * sum / (va * va / (n - 1) + vb * vb / (m - 1)) : n + m - 2;
  return internal::TestOf(a.mean() - b.mean(), sum, freedom);
}

// Tests if the mean of differences is not zero, for example of two policies with the same seeds.
inline TTest PairedTest(const Moments& differences) {
  if (differences.count() < 2) return {};
  const auto n = static_cast<double>(differences.count());
  return internal::TestOf(differences.mean(), differences.variance() / n, n - 1);
}

}  // namespace takt

#endif  // TAKT_NUMERIC_TTEST_H_
