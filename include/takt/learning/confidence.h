// How probably each model solves what a prompt asks: a logistic head per model.
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
#include "takt/numeric/classification.h"

namespace takt {

// Prompts that models were tried on.
struct ConfidenceData {
  enum Outcome : std::uint8_t { kFailed, kSolved, kUntried };

  std::size_t features = 0;               // of a prompt: its sketch, its counts, whatever the host has
  std::vector<ModelId> models = {};       // columns
  std::vector<float> numbers = {};        // prompts x features; what is no finite number counts as the mean
  std::vector<std::uint8_t> outcomes = {};  // prompts x models, of Outcome
  // Of each prompt the one model that was tried on it, as a column: `outcomes` has one of each then. Empty: all were.
  std::vector<std::uint32_t> columns = {};
  std::vector<std::uint64_t> groups = {};  // of each prompt: those of one are left out together; empty: each is one
};

struct ConfidenceOptions {
  double l2 = 1;  // penalty on a weight's square, of standardised features, against the sum of cross entropies
  int iterations = 50;  // of Newton's method, at most
  int folds = 5;  // of the cross-validation that the report is of; below 2: none
  double tolerance = 1e-8;  // of the largest step: converged
};

// Of rows that were left out, with all others of their groups (cross-validation).
struct ConfidenceReport {
  ModelId model = {};
  std::int64_t rows = 0;  // 0: the model was not tried, or there are no folds, and nothing is told
  double solved = 0;  // share of them
  double average_precision = 0;  // its mean over the models is the paper's macro mAP
  double cross_entropy = 0, calibration_error = 0;
  std::vector<ReliabilityBin> reliability = {};
};

// Immutable. Chimera's router fine-tunes a text encoder with independent sigmoids and binary cross entropy; here the
// same loss over features that are given. Hosts with a router of their own hand its scores in (Request::scores).
class Confidence {
 public:
  // InvalidArgument: no rows, no models, sizes that do not match, columns that are none; Cancelled. `progress` is asked
  // at every step of Newton's method.
  static absl::StatusOr<std::shared_ptr<const Confidence>> Train(const ConfidenceData& data,
                                                                 const ConfidenceOptions& options = {},
                                                                 const ParallelFor& parallel = SerialFor,
                                                                 const Progress& progress = {});

  // Probability for each of models(), in that order; below zero: not known, since the model was not tried. Missing
  // features count as their mean.
  void Scores(std::span<const float> numbers, std::span<double> out) const;
  double Score(std::size_t column, std::span<const float> numbers) const;  // for models()[column]

  std::size_t features() const { return features_; }
  std::span<const ModelId> models() const { return models_; }
  std::span<const ConfidenceReport> report() const { return report_; }  // of each model; not kept in files
  double mean_average_precision() const;  // over the models that were tried

  // As QuantileForest's.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const Confidence>> Load(std::string_view bytes);

 private:
  std::size_t features_ = 0;
  std::vector<ModelId> models_;
  std::vector<double> means_;  // of the features
  std::vector<double> weights_;  // models x (features + 1), of the features less their means; the intercept is first
  std::vector<ConfidenceReport> report_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_CONFIDENCE_H_
