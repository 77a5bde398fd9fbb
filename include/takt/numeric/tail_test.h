// Tests if the tail of a sample is worse than that of another.
#ifndef TAKT_NUMERIC_TAIL_TEST_H_
#define TAKT_NUMERIC_TAIL_TEST_H_

#include <algorithm>
#include <span>
#include <vector>

#include "takt/numeric/quantile.h"
#include "takt/numeric/summary.h"
#include "takt/numeric/ttest.h"

namespace takt {

// Compares the excess of values over the `tail` quantile of both samples by Welch's test. A value below the quantile
// has no excess. p_greater is small if `now` has the worse tail.
inline TTest TailTest(std::span<const double> before, std::span<const double> now, double tail) {
  std::vector<double> both(before.begin(), before.end());
  both.insert(both.end(), now.begin(), now.end());
  const double from = Quantile(both, tail);
  const auto excess = [from](std::span<const double> values) {
    Moments moments;
    for (const double x : values) moments.Add(std::max(0.0, x - from));
    return moments;
  };
  return WelchTest(excess(now), excess(before));
}

}  // namespace takt

#endif  // TAKT_NUMERIC_TAIL_TEST_H_
