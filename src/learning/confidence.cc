#include "takt/learning/confidence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "Eigen/Dense"
#include "absl/status/status.h"
#include "learning/pack.h"

namespace takt {
namespace {

constexpr std::string_view kMagic = "takt confidence ";
constexpr std::uint32_t kVersion = 1;

double Logistic(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

using Eigen::Index;
using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// Penalised maximum likelihood by Newton's method; the first column of x is ones, and is not penalised. `rows`: of x.
Vector Fit(const Matrix& x, const Vector& y, const std::vector<Index>& rows, const ConfidenceOptions& options) {
  const Index d = x.cols();
  Vector weights = Vector::Zero(d);
  Vector penalty = Vector::Constant(d, std::max(options.l2, 1e-6));
  penalty(0) = 1e-6;  // finite, where all outcomes are alike
  for (int i = 0; i < options.iterations; ++i) {
    Vector gradient = penalty.cwiseProduct(weights);
    Matrix hessian = penalty.asDiagonal();
    for (const Index row : rows) {
      const double p = Logistic(x.row(row).dot(weights));
      gradient += (p - y(row)) * x.row(row).transpose();
      hessian.selfadjointView<Eigen::Lower>().rankUpdate(x.row(row).transpose(), std::max(p * (1 - p), 1e-9));
    }
    Vector step = hessian.selfadjointView<Eigen::Lower>().ldlt().solve(gradient);
    const double largest = step.cwiseAbs().maxCoeff();
    if (!(largest < 1e9)) break;
    if (largest > 2) step *= 2 / largest;  // far from the solution a full step may overshoot
    weights -= step;
    if (largest < options.tolerance) break;
  }
  return weights;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Confidence>> Confidence::Train(const ConfidenceData& data,
                                                                    const ConfidenceOptions& options,
                                                                    const ParallelFor& parallel,
                                                                    const Progress& progress) {
  const auto invalid = [](const std::string& text) { return absl::InvalidArgumentError("confidence: " + text); };
  const std::size_t models = data.models.size();
  if (models == 0) return invalid("there are no models");
  if (data.outcomes.empty()) return invalid("there are no rows to learn from");
  if (data.features > 1000) return invalid("more than 1,000 features");
  const std::size_t rows = data.outcomes.size() / models;
  if (data.outcomes.size() != rows * models || data.numbers.size() != rows * data.features) {
    return invalid("features, models and outcomes do not match");
  }
  if (!data.groups.empty() && data.groups.size() != rows) return invalid("some rows have a group, others have none");
  if (progress && !progress(0)) return absl::CancelledError("confidence: training was stopped");

  const auto made = std::make_shared<Confidence>();
  made->features_ = data.features;
  made->models_ = data.models;
  Matrix x = Matrix::Ones(static_cast<Index>(rows), static_cast<Index>(data.features) + 1);
  std::vector<double> scales;
  for (std::size_t f = 0; f < data.features; ++f) {
    double sum = 0, squares = 0, count = 0;
    const auto number = [&](std::size_t row) { return static_cast<double>(data.numbers[row * data.features + f]); };
    for (std::size_t row = 0; row < rows; ++row) {
      if (!std::isfinite(number(row))) continue;
      ++count;
      sum += number(row);
    }
    const double mean = count > 0 ? sum / count : 0;
    for (std::size_t row = 0; row < rows; ++row) {
      if (std::isfinite(number(row))) squares += (number(row) - mean) * (number(row) - mean);
    }
    const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
    made->means_.push_back(mean);
    scales.push_back(deviation > 1e-30 && std::isfinite(deviation) ? 1 / deviation : 0);
    for (std::size_t row = 0; row < rows; ++row) {
      const bool known = std::isfinite(number(row));
      x(static_cast<Index>(row), static_cast<Index>(f) + 1) = known ? (number(row) - mean) * scales[f] : 0;
    }
  }

  made->weights_.resize(models * (data.features + 1));
  made->report_.resize(models);
  parallel(models, [&](std::size_t m) {
    Vector y(static_cast<Index>(rows));
    std::vector<Index> tried;
    for (std::size_t row = 0; row < rows; ++row) {
      const std::uint8_t outcome = data.outcomes[row * models + m];
      y(static_cast<Index>(row)) = outcome == ConfidenceData::kSolved ? 1 : 0;
      if (outcome <= ConfidenceData::kSolved) tried.push_back(static_cast<Index>(row));
    }
    double* out = &made->weights_[m * (data.features + 1)];
    if (tried.empty()) {  // nothing is known of it
      std::fill_n(out, data.features + 1, std::numeric_limits<double>::quiet_NaN());
      made->report_[m].model = data.models[m];
      return;
    }
    const Vector weights = Fit(x, y, tried, options);
    out[0] = weights(0);
    for (std::size_t f = 0; f < data.features; ++f) out[f + 1] = weights(static_cast<Index>(f) + 1) * scales[f];

    ConfidenceReport& report = made->report_[m];
    report.model = data.models[m];
    std::vector<double> scores;
    std::vector<std::uint8_t> outcomes;
    std::map<std::uint64_t, std::size_t> numbers;  // of groups, in order of their first rows
    std::vector<std::size_t> group_of;
    for (const Index row : tried) {
      const auto i = static_cast<std::size_t>(row);
      group_of.push_back(numbers.try_emplace(data.groups.empty() ? i : data.groups[i], numbers.size()).first->second);
    }
    for (std::size_t fold = 0; options.folds >= 2 && fold < static_cast<std::size_t>(options.folds); ++fold) {
      std::vector<Index> in, left_out;
      for (std::size_t i = 0; i < tried.size(); ++i) {
        (group_of[i] % static_cast<std::size_t>(options.folds) == fold ? left_out : in).push_back(tried[i]);
      }
      const Vector part = Fit(x, y, in, options);
      for (const Index row : left_out) {
        scores.push_back(Logistic(x.row(row).dot(part)));
        outcomes.push_back(y(row) > 0 ? 1 : 0);
        report.solved += y(row);
      }
    }
    report.rows = static_cast<std::int64_t>(scores.size());
    if (!scores.empty()) report.solved /= static_cast<double>(scores.size());
    report.average_precision = AveragePrecision(scores, outcomes);
    report.cross_entropy = CrossEntropy(scores, outcomes);
    report.reliability = Reliability(scores, outcomes);
    report.calibration_error = ExpectedCalibrationError(report.reliability);
  });
  return made;
}

void Confidence::Scores(std::span<const float> numbers, std::span<double> out) const {
  for (std::size_t m = 0; m < models_.size(); ++m) {
    const double* weights = &weights_[m * (features_ + 1)];
    double sum = weights[0];
    for (std::size_t f = 0; f < std::min(features_, numbers.size()); ++f) {
      if (std::isfinite(numbers[f])) sum += weights[f + 1] * (static_cast<double>(numbers[f]) - means_[f]);
    }
    out[m] = std::isnan(sum) ? -1 : Logistic(sum);
  }
}

double Confidence::mean_average_precision() const {
  double sum = 0, models = 0;
  for (const ConfidenceReport& r : report_) {
    if (r.rows > 0) sum += r.average_precision, ++models;
  }
  return models > 0 ? sum / models : 0;
}

std::string Confidence::Save() const {
  internal::Packer out(kMagic, kVersion);
  out.Put(static_cast<std::uint64_t>(features_));
  out.Put(static_cast<std::uint64_t>(models_.size()));
  for (const ModelId model : models_) out.Put(model.value);
  out.Put(means_);
  out.Put(weights_);
  return out.Take();
}

absl::StatusOr<std::shared_ptr<const Confidence>> Confidence::Load(std::string_view bytes) {
  auto in = internal::Unpacker::Open(bytes, kMagic, kVersion, "a file of confidence heads");
  if (!in.ok()) return in.status();
  const auto made = std::make_shared<Confidence>();
  made->features_ = in->Get<std::uint64_t>();
  for (auto n = in->Get<std::uint64_t>(); n > 0 && in->ok(); --n) made->models_.push_back({in->Get<std::uint64_t>()});
  in->Get(made->means_);
  in->Get(made->weights_);
  const bool fits = made->means_.size() == made->features_ &&
                    made->weights_.size() == made->models_.size() * (made->means_.size() + 1);
  if (!in->done() || !fits) return absl::DataLossError("a file of confidence heads was damaged: its parts do not fit");
  return made;
}

}  // namespace takt
