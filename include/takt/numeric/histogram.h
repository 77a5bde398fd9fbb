// Counts by bins, of one width or widening with the value, and the quantiles they tell in bounded memory.
#ifndef TAKT_NUMERIC_HISTOGRAM_H_
#define TAKT_NUMERIC_HISTOGRAM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/config.h"

namespace takt {

// Bin i holds [edge(i), edge(i + 1)), edges in geometric progression from `low` to `high`; what lies beyond joins the
// first and the last bin, and NaN is left out.
class LogHistogram {
 public:
  // 0 < low < high, bins > 0.
  LogHistogram(double low, double high, std::size_t bins) : low_(low), step_(exact::Log(high / low)), counts_(bins) {
    TAKT_ASSERT(low > 0 && low < high && bins > 0);
    step_ /= static_cast<double>(bins);
  }

  void Add(double x, std::int64_t times = 1) {
    if (x == x) counts_[BinOf(x)] += times;
  }

  std::size_t BinOf(double x) const {
    if (!(x > low_)) return 0;
    const double bin = exact::Log(x / low_) / step_;
    return bin < static_cast<double>(counts_.size()) ? static_cast<std::size_t>(bin) : counts_.size() - 1;
  }

  // Every count by half, so that what is added from now on counts twice as much as what was.
  void Halve() {
    for (std::int64_t& count : counts_) count /= 2;
  }

  double edge(std::size_t i) const { return Rounded(low_ * exact::Exp(step_ * static_cast<double>(i))); }
  std::span<const std::int64_t> counts() const { return counts_; }

 private:
  double low_;
  double step_;  // of the logarithm, per bin
  std::vector<std::int64_t> counts_;
};

// The same with edges `width` apart, from zero.
class LinearHistogram {
 public:
  // width > 0, bins > 0.
  LinearHistogram(double width, std::size_t bins) : width_(width), counts_(bins) { TAKT_ASSERT(width > 0 && bins > 0); }

  void Add(double x, std::int64_t times = 1) {
    if (x == x) counts_[BinOf(x)] += times;
  }

  std::size_t BinOf(double x) const {
    if (!(x > 0)) return 0;
    const double bin = x / width_;
    return bin < static_cast<double>(counts_.size()) ? static_cast<std::size_t>(bin) : counts_.size() - 1;
  }

  void Halve() {
    for (std::int64_t& count : counts_) count /= 2;
  }

  double edge(std::size_t i) const { return Rounded(width_ * static_cast<double>(i)); }
  std::span<const std::int64_t> counts() const { return counts_; }

 private:
  double width_;
  std::vector<std::int64_t> counts_;
};

// Quantiles of what a histogram has counted, at levels `ps` that ascend; `least` and `most` are the extremes of that.
// Within a bin values are taken as spread evenly, so that the error is below the bin's width; the first bin begins at
// `least`, the last ends at `most`. `least` where nothing was counted. O(bins), allocates nothing.
template <class Histogram, class Out>
void QuantilesOf(const Histogram& histogram, std::span<const double> ps, double least, double most, Out out) {
  const std::span<const std::int64_t> counts = histogram.counts();
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  double below = 0;  // bin `i`
  std::size_t i = 0;
  for (const double p : ps) {
    const double rank = Rounded(total * std::clamp(p, 0.0, 1.0));
    while (i < counts.size() && (counts[i] == 0 || below + static_cast<double>(counts[i]) < rank)) {
      below += static_cast<double>(counts[i++]);
    }
    if (i == counts.size()) {
      *out++ = least;
      continue;
    }
    const double from = i > 0 ? std::max(histogram.edge(i), least) : least;
    const double to = i + 1 < counts.size() ? std::min(histogram.edge(i + 1), most) : most;
    const double share = (rank - below) / static_cast<double>(counts[i]);
    *out++ = std::clamp(from + Rounded((to - from) * share), least, most);
  }
}

}  // namespace takt

#endif  // TAKT_NUMERIC_HISTOGRAM_H_
