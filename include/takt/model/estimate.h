// An estimate of a quantity that has not been observed yet.
#ifndef TAKT_MODEL_ESTIMATE_H_
#define TAKT_MODEL_ESTIMATE_H_

#include <array>
#include <cmath>
#include <cstddef>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"

namespace takt {

// Create one with Exact, Mean, LogNormal or Quantiles.
//
// A prediction: a mean and five quantiles, in the unit of the field that holds it. The default is unknown. For unknown
// estimates, each policy documents a fallback, usually the order of arrival. A mean above 0 with all quantiles 0 means
// that only the mean is known.
struct Estimate {
  static constexpr std::array<double, 5> kLevels = {0.1, 0.25, 0.5, 0.75, 0.9};

  // Quantiles of the standard normal distribution at kLevels.
  static constexpr std::array<double, 5> kNormal = {-1.2815515655446004, -0.6744897501960817, 0, 0.6744897501960817,
                                                    1.2815515655446004};

  // Quantiles of the exponential distribution with mean 1, at kLevels.
  static constexpr std::array<double, 5> kExponential = {0.10536051565782628, 0.28768207245178092, 0.69314718055994531,
                                                         1.3862943611198906, 2.3025850929940457};

  double mean = -1;  // mean; negative: unknown
  std::array<float, 5> quantiles = {};  // quantiles at kLevels

  static constexpr Estimate Exact(double x) {
    const auto q = static_cast<float>(x);
    return {x, {q, q, q, q, q}};
  }

  // Returns an estimate of which only the mean is known. Its quantiles are those of an exponential distribution.
  static constexpr Estimate Mean(double mean) {
    Estimate e{mean};
    for (std::size_t i = 0; i < kExponential.size(); ++i) e.quantiles[i] = static_cast<float>(mean * kExponential[i]);
    return e;
  }

  // Returns an estimate with the given quantiles at kLevels, which must not decrease. The mean assumes that the
  // distribution is linear between the quantiles and ends at the first and the last quantile.
  static constexpr Estimate Quantiles(const std::array<float, 5>& quantiles) {
    double mean = kLevels[0] * static_cast<double>(quantiles[0]) + (1 - kLevels[4]) * static_cast<double>(quantiles[4]);
    for (std::size_t i = 1; i < kLevels.size(); ++i) {
      const double middle = (static_cast<double>(quantiles[i - 1]) + static_cast<double>(quantiles[i])) / 2;
      mean += Rounded((kLevels[i] - kLevels[i - 1]) * middle);
    }
    return {mean, quantiles};
  }

  // Returns a log-normal estimate with this mean (above 0) and this variance of the logarithm. If the variance is not
  // positive, returns Exact(mean).
  static Estimate LogNormal(double mean, double log_variance) {
    if (!(log_variance > 0)) return Exact(mean);
    Estimate e{mean};
    for (std::size_t i = 0; i < kNormal.size(); ++i) {
      e.quantiles[i] = static_cast<float>(
          mean * exact::Exp(Rounded(std::sqrt(log_variance) * kNormal[i]) - Rounded(log_variance / 2)));
    }
    return e;
  }

  // Returns false for an unknown estimate, and for an invalid one: NaN, infinite, negative, or above 1e15.
  constexpr bool known() const { return mean >= 0 && mean <= 1e15; }

  // Returns true if only the mean is known.
  constexpr bool without_quantiles() const { return mean > 0 && quantiles == std::array<float, 5>{}; }

  // Returns the p-quantile, p in [0, 1]: linear between the levels, constant beyond them. Returns the mean if the
  // quantiles are invalid, and -1 if the estimate is unknown.
  constexpr double Quantile(double p) const {
    if (!known()) return -1;
    double value = At(0);
    for (std::size_t i = 1; i < kLevels.size() && p > kLevels[i - 1]; ++i) {
      const double share = (p - kLevels[i - 1]) / (kLevels[i] - kLevels[i - 1]);
      value = At(i - 1) + Rounded((At(i) - At(i - 1)) * (share < 1 ? share : 1));
    }
    return value >= 0 && value <= 1e15 ? value : mean;
  }

  friend constexpr bool operator==(const Estimate&, const Estimate&) = default;

 private:
  constexpr double At(std::size_t i) const { return static_cast<double>(quantiles[i]); }
};

}  // namespace takt

#endif  // TAKT_MODEL_ESTIMATE_H_
