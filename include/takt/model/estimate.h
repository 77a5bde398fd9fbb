// What is believed about a quantity that has not been observed yet.
#ifndef TAKT_MODEL_ESTIMATE_H_
#define TAKT_MODEL_ESTIMATE_H_

#include <array>
#include <cmath>
#include <cstddef>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"

namespace takt {

// Made by Exact, Mean, LogNormal or Quantiles.
//
// A prediction as a mean and five quantiles, in the unit of the field that holds it. Unknown by default:
// policies then fall back to what their page says, usually to the order of arrival. A mean above 0 with quantiles that
// are all 0: the mean alone is known.
struct Estimate {
  static constexpr std::array<double, 5> kLevels = {0.1, 0.25, 0.5, 0.75, 0.9};

  // Quantiles of the standard normal distribution at kLevels.
  static constexpr std::array<double, 5> kNormal = {-1.2815515655446004, -0.6744897501960817, 0, 0.6744897501960817,
                                                    1.2815515655446004};

  // And of an exponential one whose mean is 1.
  static constexpr std::array<double, 5> kExponential = {0.10536051565782628, 0.28768207245178092, 0.69314718055994531,
                                                         1.3862943611198906, 2.3025850929940457};

  double mean = -1;  // below 0: unknown
  std::array<float, 5> quantiles = {};  // at kLevels

  static constexpr Estimate Exact(double x) {
    const auto q = static_cast<float>(x);
    return {x, {q, q, q, q, q}};
  }

  // Nothing is known but the mean: spread as an exponential distribution is.
  static constexpr Estimate Mean(double mean) {
    Estimate e{mean};
    for (std::size_t i = 0; i < kExponential.size(); ++i) e.quantiles[i] = static_cast<float>(mean * kExponential[i]);
    return e;
  }

  // Of these quantiles, at kLevels and not falling. The mean is that of a distribution which is linear between them
  // and has nothing beyond the first and the last.
  static constexpr Estimate Quantiles(const std::array<float, 5>& quantiles) {
    double mean = kLevels[0] * static_cast<double>(quantiles[0]) + (1 - kLevels[4]) * static_cast<double>(quantiles[4]);
    for (std::size_t i = 1; i < kLevels.size(); ++i) {
      const double middle = (static_cast<double>(quantiles[i - 1]) + static_cast<double>(quantiles[i])) / 2;
      mean += Rounded((kLevels[i] - kLevels[i - 1]) * middle);
    }
    return {mean, quantiles};
  }

  // Of a log-normal distribution with this mean, above 0, and this variance of the logarithm; of none, the point.
  static Estimate LogNormal(double mean, double log_variance) {
    if (!(log_variance > 0)) return Exact(mean);
    Estimate e{mean};
    for (std::size_t i = 0; i < kNormal.size(); ++i) {
      e.quantiles[i] = static_cast<float>(
          mean * exact::Exp(Rounded(std::sqrt(log_variance) * kNormal[i]) - Rounded(log_variance / 2)));
    }
    return e;
  }

  // False also for what no prediction can be: NaN, an infinity, a negative number.
  constexpr bool known() const { return mean >= 0 && mean <= 1e15; }

  // Only the mean was said.
  constexpr bool without_quantiles() const { return mean > 0 && quantiles == std::array<float, 5>{}; }

  // Linear between the levels, flat beyond them; the mean where the quantiles are unusable, and -1 where nothing
  // is known. p in [0, 1].
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
