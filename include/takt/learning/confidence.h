// Estimates the probability that each model solves a prompt, by one logistic regression per model.
#ifndef TAKT_LEARNING_CONFIDENCE_H_
#define TAKT_LEARNING_CONFIDENCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/id.h"
#include "takt/base/parallel.h"
#include "takt/base/spec.h"
#include "takt/numeric/classification.h"

namespace takt {

// Prompts, and the results of models on them.
struct ConfidenceData {
  enum Outcome : std::uint8_t { kFailed, kSolved, kUntried };

  std::size_t features = 0;  // number of features of a prompt, for example of its sketch and its counts
  std::vector<ModelId> models = {};  // models, one per column of `outcomes`
  std::vector<float> numbers = {};  // features of each prompt; a value that is not finite counts as the mean
  std::vector<std::uint8_t> outcomes = {};  // an Outcome per prompt and model
  // Column of the only model tried on each prompt; `outcomes` then has one value per prompt. Empty: all models were
  // tried.
  std::vector<std::uint32_t> columns = {};
  // Group of each prompt; cross-validation never splits a group. Empty: each prompt is its own group.
  std::vector<std::uint64_t> groups = {};
};

struct ConfidenceOptions {
  double l2 = 1;  // factor of the squared weights in the loss; the features are standardised
  int iterations = 50;  // maximum iterations of Newton's method
  int folds = 5;  // number of folds of the cross-validation for the report; below 2: no report
  double tolerance = 1e-8;  // step size at which Newton's method has converged

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("l2", self.l2, {.most = 1e9}), Option("iterations", self.iterations, {.least = 1}),
                Option("tolerance", self.tolerance, {.most = 1e9}));
  }
};

// Results of cross-validation on groups of rows that were left out.
struct ConfidenceReport {
  ModelId model = {};
  std::int64_t rows = 0;  // number of checked rows; 0: the model was not tried, or there are no folds
  double solved = 0;  // share of solved rows
  double average_precision = 0;  // average precision; its mean over the models is the paper's macro mAP
  double cross_entropy = 0, calibration_error = 0;
  std::vector<ReliabilityBin> reliability = {};
};

// Immutable. Chimera's router fine-tunes a text encoder with independent sigmoids and binary cross entropy. This class
// uses the same loss on given features. Hosts with a router of their own can pass its scores in Request::scores.
class Confidence {
 public:
  static constexpr std::size_t kMostFeatures = 1000;

  // Trains the regressions. InvalidArgument: invalid options, no rows, no models, sizes that do not match, or an
  // invalid column.
  // Cancelled: `progress`, called in each step of Newton's method, returned false.
  static absl::StatusOr<std::shared_ptr<const Confidence>> Train(const ConfidenceData& data,
                                                                 const ConfidenceOptions& options = {},
                                                                 const ParallelFor& parallel = SerialFor,
                                                                 const Progress& progress = {});

  // Sets the probability for each of models(); below zero: unknown, because the model was not tried. Missing features
  // count as their mean.
  void Scores(std::span<const float> numbers, std::span<double> out) const;
  // Returns the probability for models()[column].
  double Score(std::size_t column, std::span<const float> numbers) const;

  std::size_t features() const { return features_; }
  std::span<const ModelId> models() const { return models_; }
  std::span<const ConfidenceReport> report() const { return report_; }  // reports of the models; not saved in files
  double mean_average_precision() const;  // Returns the mean over the tried models.

  // Save and Load work as in QuantileForest.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const Confidence>> Load(std::string_view bytes);

 private:
  std::size_t features_ = 0;
  std::vector<ModelId> models_;
  std::vector<double> means_;  // means of the features
  std::vector<double> weights_;  // weights of each model for centred features, intercept first
  std::vector<ConfidenceReport> report_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_CONFIDENCE_H_
