// Mean, spread and quantiles of observed values in constant memory.
#ifndef TAKT_LEARNING_QUANTILE_SKETCH_H_
#define TAKT_LEARNING_QUANTILE_SKETCH_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/numeric/histogram.h"
#include "takt/numeric/summary.h"

namespace takt {

// Mean and spread are exact for the weighted values. Quantiles have the resolution of the histogram's bins.
// Deterministic. Values must not be negative.
template <class Histogram>
class QuantileSketch {
 public:
  // Units that an observation adds to its bin, so that halving keeps single observations.
  static constexpr std::int64_t kUnits = 256;

  explicit QuantileSketch(Histogram bins) : bins_(std::move(bins)) {}

  std::int64_t count() const { return moments_.count(); }
  double mean() const { return moments_.mean(); }  // mean; 0 without values
  double deviation() const { return moments_.deviation(); }
  double least() const { return least_; }  // smallest value; above most() if there are no values
  double most() const { return most_; }
  const Histogram& histogram() const { return bins_; }

  void Observe(double x) {
    moments_.Add(x);
    Count(x, kUnits);
  }

  // Adds `times` values of a log-normal distribution with this mean and spread. If the spread is 0, all these values
  // equal the mean.
  void Seed(std::int64_t times, double mean, double spread) {
    moments_.Add(Moments::From(times, mean, spread));
    if (!(spread > 0 && mean > 0)) return Count(mean, times * kUnits);
    const double ratio = std::min(spread / mean, 1e6);  // the square of the ratio is finite
    const double variance = exact::Log1p(ratio * ratio);
    const double mu = exact::Log(mean) - Rounded(variance / 2);
    const auto units = static_cast<double>(times * kUnits);
    std::int64_t given = 0;
    for (std::size_t i = 0; i < bins_.counts().size(); ++i) {
      const double from = bins_.edge(i), to = bins_.edge(i + 1);
      const double share = 0.5 * exact::Erfc((mu - exact::Log(to)) / std::sqrt(2 * variance));
      const bool last = i + 1 == bins_.counts().size();
      const std::int64_t due = last ? times * kUnits : static_cast<std::int64_t>(std::round(share * units));
      if (due <= given) continue;
      bins_.Add((from + to) / 2, due - given);
      given = due;
      least_ = std::min(least_, i > 0 ? from : 0);
      most_ = std::max(most_, to);
    }
  }

  // Halves the weight of all values so far.
  void Halve() {
    moments_ = Moments::From(moments_.count() / 2, moments_.mean(), moments_.deviation());
    bins_.Halve();
  }

  // Writes the quantiles at ascending levels. O(bins).
  template <class Out>
  void Quantiles(std::span<const double> levels, Out out) const {
    QuantilesOf(bins_, levels, least_, most_, out);
  }

  // Restores everything except the bins. RestoreBin then restores each bin's `units`.
  void Restore(const Moments& moments, double least, double most) { moments_ = moments, least_ = least, most_ = most; }
  void RestoreBin(std::size_t bin, std::int64_t units) {
    bins_.Add((bins_.edge(bin) + bins_.edge(bin + 1)) / 2, units);
  }

 private:
  void Count(double x, std::int64_t units) {
    bins_.Add(x, units);
    least_ = std::min(least_, x);
    most_ = std::max(most_, x);
  }

  Moments moments_ = {};
  Histogram bins_;
  double least_ = 1e300, most_ = 0;
};

}  // namespace takt

#endif  // TAKT_LEARNING_QUANTILE_SKETCH_H_
