// The mode of a sample.
#ifndef TAKT_LEARNING_MODE_H_
#define TAKT_LEARNING_MODE_H_

#include <cstddef>
#include <limits>
#include <span>

namespace takt {

// Returns the half-sample mode (Robertson and Cryer, 1974; Bickel and Fruehwirth, 2006). It repeatedly keeps the
// densest half of the sample, or the first of equally dense halves. Values must ascend without NaN. Returns NaN if the
// sample is empty. O(n).
inline double HalfSampleMode(std::span<const double> ascending) {
  while (ascending.size() > 3) {
    const std::size_t half = (ascending.size() + 1) / 2;
    std::size_t best = 0;
    for (std::size_t i = 1; i + half <= ascending.size(); ++i) {
      const double width = ascending[i + half - 1] - ascending[i];
      if (width < ascending[best + half - 1] - ascending[best]) best = i;
    }
    ascending = ascending.subspan(best, half);
  }
  switch (ascending.size()) {
    case 0: return std::numeric_limits<double>::quiet_NaN();
    case 1: return ascending[0];
    case 2: return (ascending[0] + ascending[1]) / 2;
    default: break;
  }
  const double low = ascending[1] - ascending[0], high = ascending[2] - ascending[1];
  if (low < high) return (ascending[0] + ascending[1]) / 2;
  return high < low ? (ascending[1] + ascending[2]) / 2 : ascending[1];
}

}  // namespace takt

#endif  // TAKT_LEARNING_MODE_H_
