// How many tokens a workflow has still to generate, per model: quantile forests, and the rows that they are grown from.
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

// What is known when a call begins. Counts below zero: not told.
struct LengthInput {
  std::uint64_t kind = 0;  // of workflow: its program; 0: not told
  StageId stage = {};
  Tokens prompt_tokens{-1};
  Tokens system_tokens{-1};  // of the prompt
  Tokens user_tokens{-1};  // of the prompt
  std::int32_t calls_before = 0;  // of its workflow, that have ended: siblings that still run are not known
  Tokens tokens_before{0};  // that those have generated
  std::span<const float> sketch = {};  // of the prompt's text (text_sketch.h), or whatever the host has
};

// One call of a workflow that has finished.
struct FinishedCall {
  LengthInput input = {};
  Tokens output_tokens{0};
};

struct LengthForestOptions {
  std::size_t sketch = 0;  // dimensions; what a call has more is left out, what it has less counts as not known
  std::size_t reservoir = 60'000;  // calls kept of each model
  std::uint64_t seed = 1;  // of what is kept
  ForestOptions forest = {};
};

// Predicts Chimera's Y: the output tokens of this call and of all that follow in its workflow, on the model at hand.
// Features: counts of the whole prompt, its system and its user part, calls and tokens before, the sketch; kind and
// stage as names. Immutable: any number of threads may share one.
class LengthForest {
 public:
  struct Query {
    ModelId model;
    LengthInput input;
    Tokens generated{-1};  // by this call so far; what is told is the rest. Below zero: it has not begun
  };

  // As QuantileForest's, with what a row is made of.
  struct Scratch {
    ForestScratch forest = {};
    std::vector<float> numbers = {};
    std::vector<std::uint64_t> names = {};
    std::vector<ForestRow> rows = {};
    std::vector<double> known = {};
    std::vector<std::size_t> order = {};
    std::vector<Estimate> predicted = {};
  };

  // Unknown where the model has no forest. Together is faster than one by one.
  void Predict(std::span<const Query> queries, std::span<Estimate> out, Scratch& scratch) const;
  Estimate Predict(const Query& query, Scratch& scratch) const;

  std::size_t sketch() const { return sketch_; }  // dimensions
  std::span<const ModelId> models() const { return models_; }
  const QuantileForest* Of(ModelId model) const;  // null: it has none

  // As QuantileForest's.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const LengthForest>> Load(std::string_view bytes);

 private:
  friend class LengthLearner;

  std::size_t sketch_ = 0;
  std::vector<ModelId> models_;  // ascending
  std::vector<std::shared_ptr<const QuantileForest>> forests_;
};

// Collects finished workflows, a bounded number of calls of each model: once that is reached, a new call takes the
// place of one drawn at random, so that old ones fade exponentially and the forest follows a drift. Thread-compatible.
//
//   learner.Finished(model, calls);                              // the loop, as workflows end
//   auto rows = std::make_shared<const LengthLearner>(learner);  // every so often: slow work gets a snapshot
//   auto fresh = rows->Train(parallel, progress);                // on the host's threads
//   if (fresh.ok()) running = *fresh;                            // a shared_ptr<const LengthForest>
class LengthLearner {
 public:
  explicit LengthLearner(LengthForestOptions options = {}) : options_(options) {}

  // Calls of one workflow, in the order in which they began; the label of each is what it and all after it generated.
  // Negative outputs count as none. `workflow`: calls that bear the same are a group of ForestData, however they are
  // told; 0: each call is one, and the forests' reports flatter.
  void Finished(ModelId model, std::span<const FinishedCall> calls, std::uint64_t workflow = 0);

  // Of models of which at least one call is known; deterministic. InvalidArgument: nothing known; Cancelled.
  absl::StatusOr<std::shared_ptr<const LengthForest>> Train(const ParallelFor& parallel = SerialFor,
                                                            const Progress& progress = {}) const;

  std::size_t calls(ModelId model) const;  // that are kept
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
