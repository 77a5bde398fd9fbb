// What head starts do to the latencies of works, forecast: the setting of least mean that keeps p95 and p99.
#ifndef TAKT_POLICY_TAIL_FORECAST_H_
#define TAKT_POLICY_TAIL_FORECAST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"

namespace takt {

// Works in classes of like size, the smallest first. In a backlog that keeps an engine busy for W, first come, first
// served lets all wait W. Under head starts of h_i W, h_i = weight ln(cut / size_i) or 0, a work of class i waits F_i
// W:
//
//   F_i = 1 + sum_j w_j min(max(h_j - h_i, -1), F_i)
//
// where w_j is the share of class j in the work: those of class j pass it that come up to (h_j - h_i) W after it, but
// not after it was served; and it passes those that came as long before it, as far as they still wait. W is taken to
// be uniform, as of a backlog that grows. docs/reference/policies/boosted_footprint.md has what came of it.
class TailForecast {
 public:
  static constexpr std::size_t kClasses = 16;

  // A share `count` of the works, which is a share `work` of the work, of about e^log_size seconds each.
  struct Class {
    double count = 0, work = 0, log_size = 0;
  };
  struct Setting {
    double cut = 0, weight = 0;  // no head starts
    double mean = 1;  // over that of first come, first served
  };

  // The next class; at most kClasses.
  void Begin() { classes_[size_++] = {}; }
  Class& last() { return classes_[size_ - 1]; }
  std::size_t size() const { return size_; }

  // Of cuts between classes and seven weights, that of least mean under which p95 and p99 are at most `tail_factor`
  // times those of first come, first served. No class, however few it has, waits more than
  // 1 + kMostExcess (tail_factor - 1) times as long.
  Setting Best(double tail_factor) const {
    Setting best;
    if (!(tail_factor > 1)) return best;
    for (std::size_t k = 1; k < size_; ++k) {
      const double cut = (classes_[k - 1].log_size + classes_[k].log_size) / 2;
      for (const double weight : {0.15, 0.3, 0.5, 0.8, 1.4, 3.0, 8.0}) {
        const double mean = Mean(cut, weight, tail_factor);
        if (!(mean < 1)) break;  // more weight makes a longer tail
        if (mean < best.mean) best = {exact::Exp(cut), weight, mean};
      }
    }
    return best;
  }

 private:
  static constexpr double kMostExcess = 8;

  // Infinite where a tail becomes longer than it may.
  double Mean(double log_cut, double weight, double tail_factor) const {
    std::array<double, kClasses> start = {};
    for (std::size_t i = 0; i < size_; ++i) start[i] = Rounded(weight * std::max(log_cut - classes_[i].log_size, 0.0));
    double mean = 0, beyond_95 = 0, beyond_99 = 0;
    for (std::size_t i = size_; i-- > 0;) {
      double f = 1;
      for (int round = 0; round < 3; ++round) {
        double sum = 1;
        for (std::size_t j = 0; j < size_; ++j) {
          sum += Rounded(classes_[j].work * std::min(std::max(start[j] - start[i], -1.0), f));
        }
        f = std::max(sum, 0.0);
      }
      if (f > 1 + Rounded(kMostExcess * (tail_factor - 1))) return std::numeric_limits<double>::infinity();
      mean += Rounded(classes_[i].count * f);
      if (f > 0) {
        beyond_95 += Rounded(classes_[i].count * std::max(1 - 0.95 * tail_factor / f, 0.0));
        beyond_99 += Rounded(classes_[i].count * std::max(1 - 0.99 * tail_factor / f, 0.0));
      }
      if (beyond_95 > 0.05 || beyond_99 > 0.01) return std::numeric_limits<double>::infinity();
    }
    return mean;
  }

  std::array<Class, kClasses> classes_ = {};
  std::size_t size_ = 0;
};

}  // namespace takt

#endif  // TAKT_POLICY_TAIL_FORECAST_H_
