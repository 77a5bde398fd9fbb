#include "takt/learning/confidence.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>

#include "Eigen/Dense"
#include "absl/status/status.h"
#include "learning/pack.h"
#include "takt/base/exact_math.h"
#include "takt/base/faults.h"

namespace takt {
namespace {

constexpr std::string_view kConfidenceMagic = "takt confidence ";
constexpr std::uint32_t kConfidenceVersion = 1;

double Logistic(double x) { return x >= 0 ? 1 / (1 + exact::Exp(-x)) : exact::Exp(x) / (1 + exact::Exp(x)); }

using Index = Eigen::Index;
using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// An outcome of a model on a prompt.
struct Try {
  Index row;
  double solved;
  std::size_t fold;  // fold in which the outcome is held out
};

constexpr std::size_t kNoFold = SIZE_MAX;

// Penalised maximum likelihood by Newton's method. The first column of x is ones and has no penalty.
struct Fit {
  std::span<const Try> tries;
  std::size_t left_out;  // the held-out fold
  Vector weights;
  bool done = false;

  void Step(const Matrix& x, const ConfidenceOptions& options) {
    Vector penalty = Vector::Constant(x.cols(), std::max(options.l2, 1e-6));
    penalty(0) = 1e-6;  // keeps the fit finite if all outcomes are equal
    Vector gradient = penalty.cwiseProduct(weights);
    Matrix hessian = penalty.asDiagonal();
    for (const Try& t : tries) {
      if (t.fold == left_out) continue;
      const double p = Logistic(x.row(t.row).dot(weights));
      gradient += (p - t.solved) * x.row(t.row).transpose();
      hessian.selfadjointView<Eigen::Lower>().rankUpdate(x.row(t.row).transpose(), std::max(p * (1 - p), 1e-9));
    }
    Vector step = hessian.selfadjointView<Eigen::Lower>().ldlt().solve(gradient);
    const double largest = step.cwiseAbs().maxCoeff();
    done = !(largest < 1e9);
    if (done) return;
    if (largest > 2) step *= 2 / largest;  // a full step far from the solution may overshoot
    weights -= step;
    done = largest < options.tolerance;
  }
};

// The prompts that each model was tried on.
class Trials {
 public:
  explicit Trials(const ConfidenceData& data, std::size_t folds) : data_(data), folds_(folds) {
    if (data.columns.empty()) return;
    begins_.resize(data.models.size() + 1);
    for (const std::uint32_t column : data.columns) ++begins_[column + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<std::size_t> next = begins_;
    rows_.resize(data.columns.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) rows_[next[data.columns[row]]++] = row;
  }

  std::vector<Try> Of(std::size_t column) const {
    std::vector<Try> tries;
    std::map<std::uint64_t, std::size_t> numbers;  // of groups, in order of their first rows
    const auto add = [&](std::size_t row, std::uint8_t outcome) {
      if (outcome > ConfidenceData::kSolved) return;
      const std::uint64_t group = data_.groups.empty() ? row : data_.groups[row];
      const std::size_t number = numbers.try_emplace(group, numbers.size()).first->second;
      tries.push_back({static_cast<Index>(row), outcome == ConfidenceData::kSolved ? 1.0 : 0.0,
                       folds_ >= 2 ? number % folds_ : kNoFold - 1});
    };
    const std::size_t models = data_.models.size();
    if (data_.columns.empty()) {
      for (std::size_t row = 0; row < data_.outcomes.size() / models; ++row) {
        add(row, data_.outcomes[row * models + column]);
      }
    } else {
      for (std::size_t i = begins_[column]; i < begins_[column + 1]; ++i) add(rows_[i], data_.outcomes[rows_[i]]);
    }
    return tries;
  }

 private:
  const ConfidenceData& data_;
  std::size_t folds_;
  std::vector<std::size_t> begins_, rows_;  // by column: outcomes of each
};

ConfidenceReport ReportOf(const Matrix& x, std::span<const Try> tries, std::span<const Fit> folds) {
  ConfidenceReport report;
  std::vector<double> scores;
  std::vector<std::uint8_t> outcomes;
  for (const Fit& fold : folds) {
    for (const Try& t : tries) {
      if (t.fold != fold.left_out) continue;
      scores.push_back(Logistic(x.row(t.row).dot(fold.weights)));
      outcomes.push_back(t.solved > 0 ? 1 : 0);
      report.solved += t.solved;
    }
  }
  report.rows = static_cast<std::int64_t>(scores.size());
  if (scores.empty()) return report;
  report.solved /= static_cast<double>(scores.size());
  report.average_precision = AveragePrecision(scores, outcomes);
  report.cross_entropy = CrossEntropy(scores, outcomes);
  report.reliability = Reliability(scores, outcomes);
  report.calibration_error = ExpectedCalibrationError(report.reliability);
  return report;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Confidence>> Confidence::Train(const ConfidenceData& data,
                                                                    const ConfidenceOptions& options,
                                                                    const ParallelFor& parallel,
                                                                    const Progress& progress) {
  const auto invalid = [](const std::string& text) { return absl::InvalidArgumentError("confidence: " + text); };
  const std::size_t models = data.models.size();
  if (models == 0) return invalid("there are no models");
  if (data.outcomes.empty()) return invalid("there are no outcomes to learn from");
  if (data.features > kMostFeatures) return invalid("more than 1,000 features");
  const bool all = data.columns.empty();
  const std::size_t rows = all ? data.outcomes.size() / models : data.columns.size();
  if (data.outcomes.size() != (all ? rows * models : rows) || data.numbers.size() != rows * data.features) {
    return invalid("features, models and outcomes do not match");
  }
  if (std::ranges::any_of(data.columns, [models](std::uint32_t column) { return column >= models; })) {
    return invalid("a prompt has an outcome of an unknown model");
  }
  if (!data.groups.empty() && data.groups.size() != rows)
    return invalid("some rows lack a group; expected one per row");
  Faults faults;
  faults.ExpectOptions(options, "confidence: ");
  if (!faults.empty()) return faults.ToStatus();
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
  const std::size_t folds = options.folds >= 2 ? static_cast<std::size_t>(options.folds) : 0;
  const Trials trials(data, folds);
  constexpr std::size_t kAtOnce = 8;  // models: with their folds, enough for many threads
  for (std::size_t from = 0; from < models; from += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, models - from);
    std::vector<std::vector<Try>> tries;
    std::vector<Fit> fits;  // per model its head, then one per fold
    for (std::size_t m = from; m < from + count; ++m) tries.push_back(trials.Of(m));
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k <= folds; ++k) {
        fits.push_back({tries[i], k > 0 ? k - 1 : kNoFold, Vector::Zero(x.cols()), tries[i].empty()});
      }
    }
    for (int iteration = 0; iteration < options.iterations; ++iteration) {
      const double part = static_cast<double>(iteration) / options.iterations;
      const double share =
          (static_cast<double>(from) + part * static_cast<double>(count)) / static_cast<double>(models);
      if (progress && !progress(share)) return absl::CancelledError("confidence: training was stopped");
      std::vector<Fit*> open;
      for (Fit& fit : fits) {
        if (!fit.done) open.push_back(&fit);
      }
      if (open.empty()) break;
      parallel(open.size(), [&](std::size_t i) { open[i]->Step(x, options); });
    }
    for (std::size_t i = 0; i < count; ++i) {
      const std::span own = std::span<const Fit>(fits).subspan(i * (folds + 1), folds + 1);
      double* out = &made->weights_[(from + i) * (data.features + 1)];
      if (tries[i].empty()) {  // a model without outcomes
        std::fill_n(out, data.features + 1, std::numeric_limits<double>::quiet_NaN());
      } else {
        out[0] = own[0].weights(0);
        for (std::size_t f = 0; f < data.features; ++f) {
          out[f + 1] = own[0].weights(static_cast<Index>(f) + 1) * scales[f];
        }
        made->report_[from + i] = ReportOf(x, tries[i], own.subspan(1));
      }
      made->report_[from + i].model = data.models[from + i];
    }
  }
  return made;
}

double Confidence::Score(std::size_t column, std::span<const float> numbers) const {
  const double* weights = &weights_[column * (features_ + 1)];
  double sum = weights[0];
  for (std::size_t f = 0; f < std::min(features_, numbers.size()); ++f) {
    if (std::isfinite(numbers[f])) sum += weights[f + 1] * (static_cast<double>(numbers[f]) - means_[f]);
  }
  return std::isnan(sum) ? -1 : Logistic(sum);
}

void Confidence::Scores(std::span<const float> numbers, std::span<double> out) const {
  for (std::size_t m = 0; m < models_.size(); ++m) out[m] = Score(m, numbers);
}

double Confidence::mean_average_precision() const {
  double sum = 0, models = 0;
  for (const ConfidenceReport& r : report_) {
    if (r.rows > 0) sum += r.average_precision, ++models;
  }
  return models > 0 ? sum / models : 0;
}

std::string Confidence::Save() const {
  internal::Packer out(kConfidenceMagic, kConfidenceVersion);
  out.Put(static_cast<std::uint64_t>(features_));
  out.Put(static_cast<std::uint64_t>(models_.size()));
  for (const ModelId model : models_) out.Put(model.value);
  out.Put(means_);
  out.Put(weights_);
  return out.Take();
}

absl::StatusOr<std::shared_ptr<const Confidence>> Confidence::Load(std::string_view bytes) {
  auto in = internal::Unpacker::Open(bytes, kConfidenceMagic, kConfidenceVersion, "a file of confidence heads");
  if (!in.ok()) return in.status();
  const auto made = std::make_shared<Confidence>();
  made->features_ = in->Get<std::uint64_t>();
  for (auto n = in->Get<std::uint64_t>(); n > 0 && in->ok(); --n) made->models_.push_back({in->Get<std::uint64_t>()});
  in->Get(made->means_);
  in->Get(made->weights_);
  const bool fits = made->means_.size() == made->features_ &&
                    made->weights_.size() == made->models_.size() * (made->means_.size() + 1);
  if (!in->done() || !fits)
    return absl::DataLossError("a file of confidence heads is invalid: its parts contradict each other");
  return made;
}

}  // namespace takt
