#include "takt/learning/calibration.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "takt/base/exact_math.h"
#include "takt/numeric/two_sample.h"

namespace takt {
namespace {

constexpr double kLongest = 1e15;      // as Estimate::known
constexpr double kLinePrior = 4;       // pseudo-observations of the identity, of variance 1 in ln(predicted)
constexpr double kMostVariance = 6;   // largest variance of ln(actual / predicted) that is assumed to be real
constexpr double kVariancePrior = 8;  // pseudo-observations of a layer's variance in the next

bool IsLength(double x) { return x >= 0 && x <= kLongest; }
double AtLeastOne(double x) { return std::max(x, 1.0); }

// Makes `value` nondecreasing by pooling violators (Ayer et al., 1955).
template <std::size_t n>
void MakeMonotone(std::array<double, n>& value, std::array<double, n> weight) {
  std::array<std::size_t, n> size{};
  std::size_t blocks = 0;
  for (std::size_t i = 0; i < n; ++i) {
    value[blocks] = value[i];
    weight[blocks] = weight[i];
    size[blocks] = 1;
    for (++blocks; blocks > 1 && value[blocks - 2] > value[blocks - 1]; --blocks) {
      const double sum = weight[blocks - 2] + weight[blocks - 1];
      value[blocks - 2] += (value[blocks - 1] - value[blocks - 2]) * weight[blocks - 1] / sum;
      weight[blocks - 2] = sum;
      size[blocks - 2] += size[blocks - 1];
    }
  }
  for (std::size_t i = n; blocks-- > 0;) {
    const double pooled = value[blocks];
    for (std::size_t k = 0; k < size[blocks]; ++k) value[--i] = pooled;
  }
}

}  // namespace

void CalibrationCheck::Observe(double predicted, double actual) {
  if (!IsLength(predicted) || !IsLength(actual)) return;
  predicted = AtLeastOne(predicted);
  actual = AtLeastOne(actual);
  Octave& octave = octaves_[static_cast<std::size_t>(exact::Log2(predicted))];
  octave.count += 1;
  octave.predicted += predicted;
  octave.actual += actual;
  errors_.Add(exact::Log(actual / predicted));
}

CalibrationError CalibrationCheck::error() const {
  CalibrationError e{.count = errors_.count(), .spread = errors_.deviation()};
  if (e.count == 0) return e;
  double predicted = 0, actual = 0;
  for (const Octave& octave : octaves_) {
    if (octave.count == 0) continue;
    predicted += octave.predicted;
    actual += octave.actual;
    e.by_octave += octave.count * std::abs(exact::Log(octave.actual / octave.predicted));
  }
  e.by_octave /= static_cast<double>(e.count);
  e.bias = exact::Log(actual / predicted);
  return e;
}

void Calibration::Sums::Add(const Sums& more, double share) {
  count += share * more.count;
  predicted += share * more.predicted;
  actual += share * more.actual;
  error += share * more.error;
  error_squares += share * more.error_squares;
}

double Calibration::Sums::SquaresAboutMean() const {
  return count > 0 ? std::max(0.0, error_squares - error * error / count) : 0;
}

Calibration::Calibration(const Options& options) : options_(options), cells_(kRows * kColumns), columns_(kColumns) {
  options_.window = std::max<std::int64_t>(options_.window, 2);
  recent_.reserve(kRecent);
  newest_.reserve(kNewest);
  before_.reserve(kRecent - kNewest);
  Rebuild();
}

std::size_t Calibration::RowOf(double log_predicted) {
  return std::min(static_cast<std::size_t>(2 * log_predicted / std::numbers::ln2), kRows - 1);
}

std::size_t Calibration::ColumnOf(double generated) {
  if (!(generated > 0)) return 0;
  const double octave = exact::Log2(std::min(generated, kLongest));
  return std::min(static_cast<std::size_t>(std::max(octave - 2, 1.0)), kColumns - 1);
}

Estimate Calibration::Expect(double predicted, double generated) const {
  if (!IsLength(predicted)) return {};
  const double x = exact::Log(AtLeastOne(predicted));
  const std::size_t column = ColumnOf(generated);
  const double mean = std::min(exact::Exp(LogMean(x, column)), kLongest);
  return Estimate::LogNormal(mean, columns_[column].variance[RowOf(x)]);
}

void Calibration::Observe(double predicted, double generated, double actual, bool again) {
  if (!IsLength(predicted) || !IsLength(actual)) return;
  const Pair seen{AtLeastOne(predicted), generated, AtLeastOne(actual)};
  Learn(seen);
  if (again) return;
  if (recent_.size() < kRecent) recent_.push_back(seen);
  else recent_[kept_ % kRecent] = seen;
  ++kept_;
  if (recent_.size() == kRecent && kept_ % kTestEvery == 0 && Drifted()) ForgetAllButNewest();
}

void Calibration::Learn(const Pair& seen) {
  ++observations_;
  const double x = exact::Log(seen.predicted);
  const std::size_t column = ColumnOf(seen.generated);
  const double expected = LogMean(x, column);
  const double reach = std::max(3.0, 4 * deviation_);
  const double y = std::clamp(exact::Log(seen.actual), expected - reach, expected + reach);
  const double error = y - x;

  Sums& sums = cell(column, RowOf(x));
  const auto window = static_cast<double>(options_.window);
  if (sums.count >= window) sums.Add(sums, -0.5);
  sums.Add({1, seen.predicted, exact::Exp(y), error, error * error});

  constexpr double kLineWindow = 8;  // window of the line, in windows of a cell
  if (line_.count >= kLineWindow * window) {
    for (double* sum : {&line_.count, &line_.x, &line_.error, &line_.xx, &line_.x_error, &line_.error_squares}) {
      *sum /= 2;
    }
  }
  line_.count += 1;
  line_.x += x;
  line_.error += error;
  line_.xx += x * x;
  line_.x_error += x * error;
  line_.error_squares += error * error;
  if (observations_ >= rebuild_at_) Rebuild();
}

bool Calibration::Drifted() {
  if (!(options_.drift_p > 0)) return false;
  newest_.clear();
  before_.clear();
  for (std::size_t age = 0; age < kRecent; ++age) {
    const Pair& pair = recent_[(kept_ + kRecent - 1 - age) % kRecent];
    const double error = exact::Log(pair.actual) - LogMean(exact::Log(pair.predicted), ColumnOf(pair.generated));
    (age < kNewest ? newest_ : before_).push_back(error);
  }
  std::sort(newest_.begin(), newest_.end());
  std::sort(before_.begin(), before_.end());
  return KolmogorovSmirnovTest(newest_, before_).p < options_.drift_p;
}

void Calibration::ForgetAllButNewest() {
  ++drifts_;
  std::rotate(recent_.begin(), recent_.begin() + static_cast<std::ptrdiff_t>(kept_ % kRecent), recent_.end());
  recent_.erase(recent_.begin(), recent_.end() - static_cast<std::ptrdiff_t>(kNewest));
  std::fill(cells_.begin(), cells_.end(), Sums{});
  line_ = {};
  observations_ = rebuild_at_ = 0;
  kept_ = kNewest;
  Rebuild();
  for (const Pair& pair : recent_) Learn(pair);
  Rebuild();
}

void Calibration::Rebuild() {
  rebuild_at_ = observations_ + std::clamp<std::int64_t>(observations_ / 16, 1, 256);

  // The line: errors by ln(predicted), shrunk towards zero.
  const double n = std::max(line_.count, 1.0);
  const double x_mean = line_.x / n;
  const double xx = std::max(0.0, line_.xx - line_.x * x_mean);
  const double x_error = line_.x_error - line_.error * x_mean;
  const double bend = std::clamp(x_error / (xx + kLinePrior), -1.0, 2.0);
  const double offset = line_.error / (line_.count + kLinePrior);
  const double squares = line_.error_squares - line_.error * line_.error / n - 2 * bend * x_error + bend * bend * xx;
  const double variance = std::clamp(squares / (line_.count + kLinePrior), 0.0, kMostVariance);
  slope_ = 1 + bend;
  deviation_ = std::sqrt(variance);
  const auto line = [&](double x) { return exact::Exp(x + offset + bend * (x - x_mean) + variance / 2); };
  // Number of observations at which a bin's own mean has the same weight as the previous layer's. Bins are assumed to
  // differ by about a third.
  const double prior = std::clamp(8 * exact::Expm1(variance), 1.0, 64.0);

  std::array<Sums, kRows> rows{};
  std::array<double, kRows> row{}, weight{}, row_variance{};
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kColumns; ++c) rows[r].Add(cell(c, r));
    const Sums& sums = rows[r];
    row_at_[r] = sums.count > 0 ? exact::Log(sums.predicted / sums.count)
                                : (static_cast<double>(r) + 0.5) / 2 * std::numbers::ln2;
    weight[r] = sums.count + prior;
    row[r] = (sums.actual + prior * line(row_at_[r])) / weight[r];
    row_variance[r] = (sums.SquaresAboutMean() + kVariancePrior * variance) / (sums.count + kVariancePrior);
  }
  MakeMonotone(row, weight);

  double factor = 1;  // factor of the column, shrunk towards the previous column's
  for (std::size_t c = 0; c < kColumns; ++c) {
    double count = 0, expected = 0, actual = 0;
    std::array<double, kRows> at_row{};  // sums of actual values, scaled to the row's mean prediction
    for (std::size_t r = 0; r < kRows; ++r) {
      const Sums& sums = cell(c, r);
      if (!(sums.count > 0)) continue;
      at_row[r] = sums.actual * exact::Exp(slope_ * (row_at_[r] - exact::Log(sums.predicted / sums.count)));
      count += sums.count;
      expected += sums.count * row[r];
      actual += at_row[r];
    }
    if (count > 0) {
      const double pseudo = prior * expected / count;
      factor = (actual + pseudo * factor) / (expected + pseudo);
    }
    Curve& curve = columns_[c];
    for (std::size_t r = 0; r < kRows; ++r) {
      const Sums& sums = cell(c, r);
      weight[r] = sums.count + prior;
      curve.log_mean[r] = (at_row[r] + prior * factor * row[r]) / weight[r];
      curve.variance[r] = (sums.SquaresAboutMean() + kVariancePrior * row_variance[r]) / (sums.count + kVariancePrior);
    }
    MakeMonotone(curve.log_mean, weight);
    for (double& mean : curve.log_mean) mean = exact::Log(mean);
  }
}

double Calibration::LogMean(double log_predicted, std::size_t column) const {
  const std::array<double, kRows>& value = columns_[column].log_mean;
  const std::size_t row = RowOf(log_predicted);
  const std::size_t above = log_predicted < row_at_[row] ? row : row + 1;
  const double longest = exact::Log(kLongest);
  if (above == 0) return value.front() + slope_ * (log_predicted - row_at_.front());
  if (above == kRows) return std::min(value.back() + slope_ * (log_predicted - row_at_.back()), longest);
  const double width = row_at_[above] - row_at_[above - 1];
  const double share = width > 0 ? std::clamp((log_predicted - row_at_[above - 1]) / width, 0.0, 1.0) : 1;
  return std::min(value[above - 1] + share * (value[above] - value[above - 1]), longest);
}

}  // namespace takt
