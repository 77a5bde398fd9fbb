// Sums, moments and the common summary of a sample.
#ifndef TAKT_NUMERIC_SUMMARY_H_
#define TAKT_NUMERIC_SUMMARY_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "takt/base/rounded.h"
#include "takt/numeric/quantile.h"

namespace takt {

// A sum that compensates rounding errors (Neumaier, 1974).
class CompensatedSum {
 public:
  void Add(double x) {
    const double sum = sum_ + x;
    lost_ += std::abs(sum_) >= std::abs(x) ? (sum_ - sum) + x : (x - sum) + sum_;
    sum_ = sum;
  }
  double value() const { return std::isfinite(sum_) ? sum_ + lost_ : sum_; }

 private:
  double sum_ = 0;
  double lost_ = 0;
};

// Count, mean and variance in one pass (Welford, 1962). Ignores NaN.
class Moments {
 public:
  void Add(double x) {
    if (x != x) return;
    ++count_;
    const double delta = x - mean_;
    mean_ += delta / static_cast<double>(count_);
    squares_ += Rounded(delta * (x - mean_));
  }

  // Adds all values of another sample (Chan, Golub and LeVeque, 1979).
  void Add(const Moments& other) {
    if (other.count_ == 0) return;
    const auto a = static_cast<double>(count_);
    const auto b = static_cast<double>(other.count_);
    const double delta = other.mean_ - mean_;
    mean_ += delta * b / (a + b);
    squares_ += other.squares_ + delta * delta * a * b / (a + b);
    count_ += other.count_;
  }

  static Moments Of(std::span<const double> values) {
    Moments moments;
    for (const double x : values) moments.Add(x);
    return moments;
  }

  // Returns the moments of a sample with this count, mean and standard deviation.
  static Moments From(std::int64_t count, double mean, double deviation) {
    Moments moments;
    moments.count_ = count;
    moments.mean_ = mean;
    moments.squares_ = count > 1 ? Rounded(deviation * deviation * static_cast<double>(count - 1)) : 0;
    return moments;
  }

  std::int64_t count() const { return count_; }
  double mean() const { return mean_; }  // mean; 0 without values
  // Returns the unbiased variance (divisor n - 1); 0 for fewer than two values.
  double variance() const { return count_ > 1 ? squares_ / static_cast<double>(count_ - 1) : 0; }
  double deviation() const { return std::sqrt(variance()); }

 private:
  std::int64_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;  // sum of squared differences from the mean
};

// All fields are 0 for an empty sample.
struct Summary {
  std::int64_t count = 0;
  double mean = 0;
  double deviation = 0;
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;

  // Sorts the values. Ignores NaN. Quantiles are of type 7.
  static Summary Of(std::span<double> values) {
    const std::span<double> valid = WithoutNan(values);
    if (valid.empty()) return {};
    std::sort(valid.begin(), valid.end());
    CompensatedSum sum;
    for (const double x : valid) sum.Add(x);
    return {.count = static_cast<std::int64_t>(valid.size()),
            .mean = sum.value() / static_cast<double>(valid.size()),
            .deviation = Moments::Of(valid).deviation(),
            .min = valid.front(),
            .p50 = QuantileOfSorted(valid, 0.5),
            .p90 = QuantileOfSorted(valid, 0.9),
            .p95 = QuantileOfSorted(valid, 0.95),
            .p99 = QuantileOfSorted(valid, 0.99),
            .max = valid.back()};
  }

  friend bool operator==(const Summary&, const Summary&) = default;
};

}  // namespace takt

#endif  // TAKT_NUMERIC_SUMMARY_H_
