// Multidimensional scaling onto a line: gives distributions coordinates with similar distances.
#ifndef TAKT_LEARNING_LINE_MDS_H_
#define TAKT_LEARNING_LINE_MDS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/config.h"

namespace takt {

struct LineMdsOptions {
  // Power iteration starts at the distributions' means. It ends after `max_steps`, or when a step turns the axis by
  // less than `tolerance` [squared sine]. If distributions differ mostly in location, a few steps are enough.
  double tolerance = 1e-12;
  std::int32_t max_steps = 100;
  // Steps of SMACOF (de Leeuw, 1977; unit weights) after the classical solution. On a line, each step keeps the order
  // or swaps close points, so few are enough.
  std::int32_t smacof_steps = 0;
};

// Points are quantile functions at the same `levels` evenly spaced levels. The distance of two points is the mean
// distance of their quantiles, which is the first Wasserstein distance (learning/wasserstein.h).
//
// Classical scaling (Torgerson, 1952) takes the leading eigenvector of the doubly centred squared distances, by power
// iteration. Fit needs 2 n^2 bytes, of which O(n levels) remain, and takes O(n^2 (levels + steps)). Deterministic. The
// sign follows the means, so larger distributions have larger coordinates.
class LineMds {
 public:
  // Fits n points: `quantiles` has n rows of `levels`.
  void Fit(std::span<const float> quantiles, std::size_t levels, const LineMdsOptions& options = {}) {
    TAKT_ASSERT(levels > 0 && quantiles.size() % levels == 0);
    levels_ = levels;
    points_.assign(quantiles.begin(), quantiles.end());
    const std::size_t n = points_.size() / levels;
    at_.assign(n, 0);
    middle_.assign(n, 0);
    for (std::size_t i = 0; i < n; ++i) at_[i] = MeanOf(Row(i));
    mean_ = Centre(at_);
    scale_ = 0;
    if (n > 1) Measure(), Scale(options), Majorize(options);
    square_ = {};
  }

  std::span<const double> coordinates() const { return at_; }

  // Returns the coordinate of a new point; the fitted points do not move (Gower, 1968). If all fitted points are equal,
  // the new point's distance from them is the difference of the means. O(n levels), allocates nothing.
  double Place(std::span<const float> quantiles) const {
    TAKT_ASSERT(quantiles.size() == levels_);
    if (!(scale_ > 0)) return MeanOf(quantiles) - mean_;
    double sum = 0;
    for (std::size_t i = 0; i < at_.size(); ++i) {
      const double distance = static_cast<double>(Distance(quantiles, Row(i)));
      sum += Rounded(at_[i] * (middle_[i] - Rounded(distance * distance)));
    }
    return sum / (2 * scale_);
  }

  // Returns the error of distances on the line (Kruskal's stress-1), sqrt(sum of squared errors / sum of squared
  // distances); 0 without distances. O(n^2 levels).
  double Stress() const {
    double error = 0, total = 0;
    for (std::size_t i = 0; i < at_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const double d = static_cast<double>(Distance(Row(i), Row(j))), line = std::abs(at_[i] - at_[j]);
        error += Rounded((d - line) * (d - line));
        total += Rounded(d * d);
      }
    }
    return total > 0 ? std::sqrt(error / total) : 0;
  }

 private:
  static constexpr std::size_t kLanes = 16;  // number of rows per block, for vector instructions

  std::span<const float> Row(std::size_t i) const { return std::span(points_).subspan(i * levels_, levels_); }

  static double MeanOf(std::span<const float> row) {
    double sum = 0;
    for (const float q : row) sum += static_cast<double>(q);
    return sum / static_cast<double>(row.size());
  }

  // Subtracts the mean, and returns it.
  static double Centre(std::vector<double>& x) {
    double sum = 0;
    for (const double v : x) sum += v;
    const double mean = x.empty() ? 0 : sum / static_cast<double>(x.size());
    for (double& v : x) v -= mean;
    return mean;
  }

  static float Distance(std::span<const float> a, std::span<const float> b) {
    std::array<float, kLanes> sums = {};
    const std::size_t whole = a.size() - a.size() % kLanes;
    for (std::size_t k = 0; k < whole; k += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) sums[l] += std::abs(a[k + l] - b[k + l]);
    }
    for (std::size_t l = 0; l < a.size() - whole; ++l) sums[l] += std::abs(a[whole + l] - b[whole + l]);
    float sum = 0;
    for (const float s : sums) sum += s;
    return sum / static_cast<float>(a.size());
  }

  // Returns the index of row i's first squared distance; a row has distances to all rows before it.
  static std::size_t Begin(std::size_t i) { return i * (i - 1) / 2; }

  void Measure() {
    const std::size_t n = at_.size();
    square_.resize(n * (n - 1) / 2);
    std::vector<float> columns(points_.size());  // quantiles of all points, sorted by level
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < levels_; ++k) columns[k * n + i] = points_[i * levels_ + k];
    }
    const auto share = 1 / static_cast<float>(levels_);
    double total = 0;
    for (std::size_t i = 1; i < n; ++i) {
      const std::span<const float> row = Row(i);
      float* out = &square_[Begin(i)];
      std::size_t j = 0;
      for (; j + kLanes <= i; j += kLanes) {
        std::array<float, kLanes> sums = {};
        for (std::size_t k = 0; k < levels_; ++k) {
          const float* other = &columns[k * n + j];
          for (std::size_t l = 0; l < kLanes; ++l) sums[l] += std::abs(other[l] - row[k]);
        }
        for (std::size_t l = 0; l < kLanes; ++l) out[j + l] = sums[l] * share * (sums[l] * share);
      }
      for (; j < i; ++j) {
        const float d = Distance(row, Row(j));
        out[j] = d * d;
      }
      double sum = 0;
      for (j = 0; j < i; ++j) {
        const auto square = static_cast<double>(out[j]);
        sum += square;
        middle_[j] += square;
      }
      middle_[i] += sum;
      total += Rounded(2 * sum);
    }
    // Gower's formula needs each point's diagonal element of the doubly centred matrix.
    const auto count = static_cast<double>(n);
    for (double& m : middle_) m = m / count - total / (2 * count * count);
  }

  // Sets out = B x for a centred x and the doubly centred matrix B. Reads half of B.
  void Multiply(const std::vector<double>& x, std::vector<double>& out) const {
    const std::size_t n = x.size();
    out.assign(n, 0);
    for (std::size_t i = 1; i < n; ++i) {
      const float* row = &square_[Begin(i)];
      std::array<double, 4> sums = {};
      std::size_t j = 0;
      for (; j + sums.size() <= i; j += sums.size()) {
        std::array<double, sums.size()> of_row, of_column;
        for (std::size_t l = 0; l < sums.size(); ++l) {
          const auto square = static_cast<double>(row[j + l]);
          of_row[l] = square * x[j + l];
          of_column[l] = square * x[i];
        }
        Round(of_row), Round(of_column);
        for (std::size_t l = 0; l < sums.size(); ++l) sums[l] += of_row[l], out[j + l] += of_column[l];
      }
      for (; j < i; ++j) {
        const auto square = static_cast<double>(row[j]);
        sums[0] += Rounded(square * x[j]);
        out[j] += Rounded(square * x[i]);
      }
      out[i] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
    for (double& v : out) v /= -2;
    Centre(out);
  }

  static double Dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += Rounded(a[i] * b[i]);
    return sum;
  }

  // If all means are equal, their order gives no axis, so another direction is chosen.
  void ChooseStart(std::vector<double>& x) const {
    const auto largest = static_cast<double>(*std::max_element(square_.begin(), square_.end()));
    if (Dot(x, x) > 1e-9 * largest) return;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sqrt(std::max(middle_[i], 0.0)) * (i % 2 == 0 ? 1 : -1);
    Centre(x);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += Rounded(1e-3 * std::sqrt(largest) * static_cast<double>(i % 7));
    Centre(x);
  }

  void Scale(const LineMdsOptions& options) {
    std::vector<double> x = at_, next;
    const std::vector<double> means = at_;
    std::fill(at_.begin(), at_.end(), 0.0);
    if (!(*std::max_element(square_.begin(), square_.end()) > 0)) return;  // all points are equal
    ChooseStart(x);
    // Squared L1 distances need not be Euclidean, so a negative eigenvalue may have the largest magnitude. A shift then
    // makes the greatest eigenvalue the largest in magnitude.
    double shift = 0, value = 0;
    for (std::int32_t step = 0; step < options.max_steps; ++step) {
      const double size = Dot(x, x);
      if (!(size > 0)) return;
      Multiply(x, next);
      value = Dot(x, next) / size;
      for (std::size_t i = 0; i < x.size(); ++i) next[i] += Rounded(shift * x[i]);
      const double along = Dot(x, next) / size, grown = Dot(next, next);
      const bool steady = grown <= 0 || 1 - along * along * size / grown < options.tolerance;
      if (steady && (value > 0 || shift > 0)) break;
      if (steady) shift = 2 * std::abs(value);
      const double norm = grown > 0 ? 1 / std::sqrt(grown) : 1;
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = next[i] * norm;
    }
    if (!(value > 0)) return;
    scale_ = value;
    double length = std::sqrt(value / Dot(x, x));
    if (Dot(x, means) < 0) length = -length;
    for (std::size_t i = 0; i < x.size(); ++i) at_[i] = x[i] * length;
  }

  // Improves the coordinates by Guttman transforms. For new points, Place uses the classical solution, stretched to the
  // improved solution's size.
  void Majorize(const LineMdsOptions& options) {
    const std::size_t n = at_.size();
    std::vector<double> next(n);
    for (std::int32_t step = 0; step < options.smacof_steps; ++step) {
      std::fill(next.begin(), next.end(), 0.0);
      for (std::size_t i = 1; i < n; ++i) {
        const float* row = &square_[Begin(i)];
        for (std::size_t j = 0; j < i; ++j) {
          const double d = std::sqrt(static_cast<double>(row[j]));
          const double toward = at_[i] > at_[j] ? d : at_[i] < at_[j] ? -d : 0;
          next[i] += toward;
          next[j] -= toward;
        }
      }
      double moved = 0;
      for (std::size_t i = 0; i < n; ++i) {
        next[i] /= static_cast<double>(n);
        moved = std::max(moved, std::abs(next[i] - at_[i]));
      }
      at_.swap(next);
      if (!(moved > 0)) break;
    }
    if (options.smacof_steps > 0) scale_ = Dot(at_, at_);
  }

  std::size_t levels_ = 1;
  std::vector<float> points_;  // quantiles of each point, row by row
  std::vector<double> at_;  // coordinates of the points
  std::vector<double> middle_;  // diagonal of the doubly centred matrix: squared distance from the centre
  std::vector<float> square_;  // squared distances below the diagonal, during Fit
  double mean_ = 0;
  double scale_ = 0;  // eigenvalue, which is the sum of squared coordinates
};

}  // namespace takt

#endif  // TAKT_LEARNING_LINE_MDS_H_
