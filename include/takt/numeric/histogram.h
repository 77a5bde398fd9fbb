// A histogram whose bins widen with the value, as latencies and lengths ask for.
#ifndef TAKT_NUMERIC_HISTOGRAM_H_
#define TAKT_NUMERIC_HISTOGRAM_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/config.h"

namespace takt {

// Bin i holds [edge(i), edge(i + 1)), edges in geometric progression from `low` to `high`; what lies beyond joins the
// first and the last bin, and NaN is left out.
class LogHistogram {
 public:
  // 0 < low < high, bins > 0.
  LogHistogram(double low, double high, std::size_t bins) : low_(low), step_(std::log(high / low)), counts_(bins) {
    TAKT_ASSERT(low > 0 && low < high && bins > 0);
    step_ /= static_cast<double>(bins);
  }

  void Add(double x, std::int64_t times = 1) {
    if (x == x) counts_[BinOf(x)] += times;
  }

  std::size_t BinOf(double x) const {
    if (!(x > low_)) return 0;
    const double bin = std::log(x / low_) / step_;
    return bin < static_cast<double>(counts_.size()) ? static_cast<std::size_t>(bin) : counts_.size() - 1;
  }

  double edge(std::size_t i) const { return low_ * std::exp(step_ * static_cast<double>(i)); }
  std::span<const std::int64_t> counts() const { return counts_; }

 private:
  double low_;
  double step_;  // of the logarithm, per bin
  std::vector<std::int64_t> counts_;
};

}  // namespace takt

#endif  // TAKT_NUMERIC_HISTOGRAM_H_
