// What is believed about a quantity that has not been observed yet.
#ifndef TAKT_MODEL_ESTIMATE_H_
#define TAKT_MODEL_ESTIMATE_H_

#include <array>
#include <cmath>
#include <cstddef>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"

namespace takt {

// A prediction as a mean and five quantiles, in the unit of the field that holds it. Unknown by default:
// policies then fall back to what their page says, usually to the order of arrival.
struct Estimate {
  static constexpr std::array<double, 5> kLevels = {0.1, 0.25, 0.5, 0.75, 0.9};

  // Quantiles of the standard normal distribution at kLevels.
  static constexpr std::array<double, 5> kNormal = {-1.2815515655446004, -0.6744897501960817, 0, 0.6744897501960817,
                                                    1.2815515655446004};

  double mean = -1;  // below 0: unknown
  std::array<float, 5> quantiles = {};  // at kLevels

  static constexpr Estimate Exact(double x) {
    const auto q = static_cast<float>(x);
    return {x, {q, q, q, q, q}};
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
