// Histograms with linear or geometric bins, and quantiles from them in bounded memory.
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

// Bin i counts values in [edge(i), edge(i + 1)). Edges form a geometric progression from `low` to `high`. Smaller
// values count in the first bin, larger values in the last bin. NaN is ignored.
class LogHistogram {
 public:
  // Requires 0 < low < high and bins > 0.
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

  // Halves every count, so that later values have twice the weight of earlier ones.
  void Halve() {
    for (std::int64_t& count : counts_) count /= 2;
  }

  double edge(std::size_t i) const { return Rounded(low_ * exact::Exp(step_ * static_cast<double>(i))); }
  std::span<const std::int64_t> counts() const { return counts_; }

 private:
  double low_;
  double step_;  // logarithm of the ratio of adjacent edges
  std::vector<std::int64_t> counts_;
};

// A histogram like LogHistogram, with edges at multiples of `width`.
class LinearHistogram {
 public:
  // Requires width > 0 and bins > 0.
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

// Computes quantiles of the counted values at ascending levels `ps`. `least` and `most` are the extremes of these
// values. Values are assumed uniform within a bin, so the error is below the bin's width. The first bin begins at
// `least`, the last ends at `most`. Returns `least` if nothing was counted. O(bins), without allocation.
template <class Histogram, class Out>
void QuantilesOf(const Histogram& histogram, std::span<const double> ps, double least, double most, Out out) {
  const std::span<const std::int64_t> counts = histogram.counts();
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  double below = 0;  // sum of the counts before bin `i`
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
