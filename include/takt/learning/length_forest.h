// Predicts the remaining output tokens of a workflow by a quantile forest per model, and collects training data.
#ifndef TAKT_LEARNING_LENGTH_FOREST_H_
#define TAKT_LEARNING_LENGTH_FOREST_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/parallel.h"
#include "takt/base/random.h"
#include "takt/learning/quantile_forest.h"

namespace takt {

// Features of a call that are known when it begins. Counts below zero: unknown.
struct LengthInput {
  std::uint64_t kind = 0;  // kind of workflow, for example its program; 0: unknown
  StageId stage = {};
  Tokens prompt_tokens{-1};
  Tokens system_tokens{-1};  // tokens of the system prompt
  Tokens user_tokens{-1};  // tokens of the user's part of the prompt
  std::int32_t calls_before = 0;  // number of ended calls of the workflow
  Tokens tokens_before{0};  // output tokens of these calls
  std::span<const float> sketch = {};  // sketch of the prompt's text (text_sketch.h), or other features of the host
};

// A call of a finished workflow.
struct FinishedCall {
  LengthInput input = {};
  Tokens output_tokens{0};
};

struct LengthForestOptions {
  std::size_t sketch = 0;  // number of dimensions of a sketch; further values are ignored, missing values are unknown
  std::size_t reservoir = 60'000;  // maximum stored calls per model
  std::uint64_t seed = 1;  // seed of the random choice of stored calls
  ForestOptions forest = {};

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("sketch", self.sketch, {.most = 247}));  // a forest has 254 features, and 7 are counts and names
  }
};

// Predicts Chimera's Y: the output tokens of a call and all later calls of its workflow on the given model. Numeric
// features: prompt tokens, system tokens, user tokens, number of earlier calls, output of the earlier calls, and
// sketch. Kind and stage are categories. Immutable, so any number of threads may share it.
class LengthForest {
 public:
  struct Query {
    ModelId model;
    LengthInput input;
    Tokens generated{-1};  // output tokens of this call so far, which the prediction excludes; below zero: not begun
  };

  // Working memory of one thread.
  struct Scratch {
    ForestScratch forest = {};
    std::vector<float> numbers = {};
    std::vector<std::uint64_t> names = {};
    std::vector<ForestRow> rows = {};
    std::vector<double> known = {};
    std::vector<std::size_t> order = {};
    std::vector<Estimate> predicted = {};
  };

  // Predicts each query; unknown for a model without a forest. Batches are faster than single queries.
  void Predict(std::span<const Query> queries, std::span<Estimate> out, Scratch& scratch) const;
  Estimate Predict(const Query& query, Scratch& scratch) const;

  std::size_t sketch() const { return sketch_; }  // number of dimensions of a sketch
  std::span<const ModelId> models() const { return models_; }
  const QuantileForest* Of(ModelId model) const;  // Returns the model's forest; null: the model has no forest.

  // Save and Load work as in QuantileForest.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const LengthForest>> Load(std::string_view bytes);

 private:
  friend class LengthLearner;

  std::size_t sketch_ = 0;
  std::vector<ModelId> models_;  // models with a forest, ascending
  std::vector<std::shared_ptr<const QuantileForest>> forests_;
};

// Collects calls of finished workflows, up to a maximum per model. Beyond it, a new call replaces a random one. So old
// calls fade exponentially, and the forest follows a drift. Thread-compatible.
//
//   learner.Finished(model, calls);                              // in the step loop, when a workflow ends
//   auto rows = std::make_shared<const LengthLearner>(learner);  // from time to time, a snapshot for slow work
//   auto fresh = rows->Train(parallel, progress);                // on the host's threads
//   if (fresh.ok()) running = *fresh;                            // a shared_ptr<const LengthForest>
class LengthLearner {
 public:
  explicit LengthLearner(LengthForestOptions options = {}) : options_(options) {}

  // Adds the calls of one workflow, in order of start. The label of a call is its output plus the output of all later
  // calls. Negative outputs count as 0. Calls with the same `workflow` form a group of ForestData. 0: each call is its
  // own group, and the forests' reports are too optimistic.
  void Finished(ModelId model, std::span<const FinishedCall> calls, std::uint64_t workflow = 0);

  // Trains a forest for each model with at least one stored call. Deterministic. InvalidArgument: no stored calls.
  // Cancelled: `progress` returned false.
  absl::StatusOr<std::shared_ptr<const LengthForest>> Train(const ParallelFor& parallel = SerialFor,
                                                            const Progress& progress = {}) const;

  std::size_t calls(ModelId model) const;  // Returns the number of stored calls.
  std::uint64_t seen() const { return seen_; }

 private:
  struct Rows {
    ForestData data;
    Random random;
  };

  LengthForestOptions options_;
  std::map<ModelId, Rows> models_;
  std::uint64_t seen_ = 0;
};

}  // namespace takt

#endif  // TAKT_LEARNING_LENGTH_FOREST_H_
