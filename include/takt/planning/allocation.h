// Divides GPUs among models so that the slowest model is as fast as possible. Solves Cascadia's inner MILP (section
// 3.2) exactly, without a solver. The problem is the bottleneck multiple-choice knapsack.
//
//  minimize max_i l_i(f_i)   subject to   sum_i f_i <= N (or = N),   f_i in 0 .. N
//
// l_i(f): latency of model i on f GPUs [s]; infinite if f GPUs cannot serve it.
#ifndef TAKT_PLANNING_ALLOCATION_H_
#define TAKT_PLANNING_ALLOCATION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "takt/config.h"

namespace takt {

// l_i(f): models x (gpus + 1) latencies [s], initially infinite. NaN counts as infinite.
class LatencyTable {
 public:
  LatencyTable(std::size_t models, std::int32_t gpus)
      : models_(models),
        row_(static_cast<std::size_t>(std::max(gpus, 0)) + 1),
        values_(models * row_, std::numeric_limits<double>::infinity()) {}

  std::size_t models() const { return models_; }
  std::int32_t gpus() const { return static_cast<std::int32_t>(row_) - 1; }

  double at(std::size_t model, std::int32_t gpus) const {
    return values_[model * row_ + static_cast<std::size_t>(gpus)];
  }
  void Set(std::size_t model, std::int32_t gpus, double latency) {
    values_[model * row_ + static_cast<std::size_t>(gpus)] =
        latency == latency ? latency : std::numeric_limits<double>::infinity();
  }
  std::span<const double> of(std::size_t model) const { return std::span(values_).subspan(model * row_, row_); }

 private:
  std::size_t models_;
  std::size_t row_;
  std::vector<double> values_;
};

enum class GpuUse : std::uint8_t {
  kAtMost,  // sum_i f_i <= N: GPUs may be left over
  kExactly,  // sum_i f_i = N, as in the paper
};

// Both solvers write the GPUs of each model to `gpus` and return the latency of the slowest model. If no allocation
// serves all models, both return infinity and `gpus` is unspecified. Both are thread-compatible and allocate only for
// tables larger than any before.

// Bisection over the latencies in the table. T is feasible if N GPUs keep all models' latencies within T. Among
// allocations of equal latency, chooses the one with the fewest GPUs. O(C N log(C N)) to sort, then O(C log N) per
// probe.
class ThresholdSearch {
 public:
  double Solve(const LatencyTable& table, std::span<std::int32_t> gpus) {
    TAKT_ASSERT(gpus.size() == table.models());
    const auto row = static_cast<std::size_t>(table.gpus()) + 1;
    best_.clear();
    levels_.clear();
    for (std::size_t i = 0; i < table.models(); ++i) {
      double least = std::numeric_limits<double>::infinity();
      for (const double latency : table.of(i)) {
        if (latency < least) levels_.push_back(least = latency);
        best_.push_back(least);
      }
    }
    std::sort(levels_.begin(), levels_.end());
    const auto needs = [&](std::size_t i, double latency) {
      const auto begin = best_.begin() + static_cast<std::ptrdiff_t>(i * row);
      const auto end = begin + static_cast<std::ptrdiff_t>(row);
      return static_cast<std::int64_t>(std::partition_point(begin, end, [latency](double l) { return l > latency; }) -
                                       begin);
    };
    const auto missed = [&](double latency) {
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < table.models(); ++i) sum += needs(i, latency);
      return sum > table.gpus();
    };
    const auto level = std::partition_point(levels_.begin(), levels_.end(), missed);
    if (level == levels_.end()) {
      return table.models() == 0 ? 0 : std::numeric_limits<double>::infinity();
    }
    for (std::size_t i = 0; i < table.models(); ++i) gpus[i] = static_cast<std::int32_t>(needs(i, *level));
    return *level;
  }

 private:
  std::vector<double> best_;  // least l_i of at most f GPUs
  std::vector<double> levels_;  // distinct latencies of the table
};

// Dynamic programming over the models, D_i(s) = min_f max(D_{i-1}(s - f), l_i(f)). Works for any table, also if a model
// is slower on more GPUs, and for GpuUse::kExactly. O(C N^2).
class MinMaxDp {
 public:
  double Solve(const LatencyTable& table, std::span<std::int32_t> gpus, GpuUse use = GpuUse::kAtMost) {
    TAKT_ASSERT(gpus.size() == table.models());
    const std::size_t models = table.models();
    if (models == 0) return use == GpuUse::kAtMost || table.gpus() == 0 ? 0 : std::numeric_limits<double>::infinity();
    const auto row = static_cast<std::size_t>(table.gpus()) + 1;
    best_.resize(models * row);
    std::copy(table.of(0).begin(), table.of(0).end(), best_.begin());
    for (std::size_t i = 1; i < models; ++i) {
      const double* const own = table.of(i).data();
      const double* const before = &best_[(i - 1) * row];
      for (std::size_t s = i + 1 == models && use == GpuUse::kExactly ? row - 1 : 0; s < row; ++s) {
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t f = 0; f <= s; ++f) least = std::min(least, std::max(before[s - f], own[f]));
        best_[i * row + s] = least;
      }
    }
    const double* const last = &best_[(models - 1) * row];
    std::size_t left = row - 1;
    if (use == GpuUse::kAtMost) left = static_cast<std::size_t>(std::min_element(last, last + row) - last);
    const double latency = last[left];
    if (!(latency < std::numeric_limits<double>::infinity())) return latency;
    for (std::size_t i = models; i-- > 0;) {
      std::size_t f = left;
      if (i > 0) {
        const double* const own = table.of(i).data();
        const double* const before = &best_[(i - 1) * row];
        for (f = 0; std::max(before[left - f], own[f]) > latency; ++f) {
        }
      }
      gpus[i] = static_cast<std::int32_t>(f);
      left -= f;
    }
    return latency;
  }

 private:
  std::vector<double> best_;  // D_i(s), by model
};

}  // namespace takt

#endif  // TAKT_PLANNING_ALLOCATION_H_
