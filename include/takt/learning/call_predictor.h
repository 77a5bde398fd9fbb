// What a log of calls teaches about the next ones, in one file: lengths, the sketch of texts that they look at, and
// which model solves what. `takt train` writes it, `takt predict` and hosts read it.
#ifndef TAKT_LEARNING_CALL_PREDICTOR_H_
#define TAKT_LEARNING_CALL_PREDICTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/parallel.h"
#include "takt/learning/confidence.h"
#include "takt/learning/length_forest.h"
#include "takt/learning/text_sketch.h"
#include "takt/model/estimate.h"

namespace takt {

// What is known when a call begins, by names. Empty texts and counts below zero: not told.
struct CallDescription {
  std::string_view model = {};
  std::string_view kind = {};  // of workflow
  std::string_view stage = {};
  std::string_view text = {};  // of the prompt
  Tokens prompt_tokens{-1}, system_tokens{-1}, user_tokens{-1};
  std::int32_t calls_before = 0;  // of its workflow
  Tokens tokens_before{0};        // that those have generated
  Tokens generated{-1};           // by the call itself so far: what is told is the rest
};

// What came of it.
struct LoggedCall {
  CallDescription call = {};
  Tokens output_tokens{0};
  std::uint8_t solved = ConfidenceData::kUntried;  // ConfidenceData::Outcome
  Tokens before_tool{-1};  // output tokens before its first tool call; below 0: unknown, or no tool call
};

struct CallForecast {
  Estimate tokens_left = {};  // of this call and all after it in its workflow; unknown where the model is
  double solved = -1;         // probability; below zero: not known
  Estimate before_tool = {};  // output tokens before its next tool call; unknown if the log had none for its model
};

struct CallPredictorOptions {
  LengthForestOptions lengths = {};  // `sketch` is set here: dimensions where calls have texts, none otherwise
  TextSketchOptions sketch = {};
  ConfidenceOptions confidence = {};
  // LAMPS (section 5): the tokens before a tool call are learned as one of 50 bins of 10 tokens. The last bin also has
  // all larger counts. 0 bins: exact counts.
  std::int32_t tool_bins = 50, tool_bin_tokens = 10;
};

// Immutable: any number of threads may share one. Names are known by a hash of 64 bits; a model is told by its name.
class CallPredictor {
 public:
  struct Scratch {
    LengthForest::Scratch lengths = {};
    TextScratch text = {};
    std::vector<float> sketches = {}, numbers = {};
    std::vector<LengthForest::Query> queries = {};
    std::vector<Estimate> told = {};
  };

  // `workflows`: the calls of each, in the order in which they began. Confidence is learnt where any call tells whether
  // it solved its task. InvalidArgument: no calls, or options; Cancelled.
  static absl::StatusOr<std::shared_ptr<const CallPredictor>> Train(std::span<const std::vector<LoggedCall>> workflows,
                                                                    const CallPredictorOptions& options = {},
                                                                    const ParallelFor& parallel = SerialFor,
                                                                    const Progress& progress = {});

  // Of calls.size() calls; together is faster than one by one.
  void Predict(std::span<const CallDescription> calls, std::span<CallForecast> out, Scratch& scratch) const;

  std::span<const std::string> models() const { return models_; }  // ascending
  const LengthForest& lengths() const { return *lengths_; }
  // Returns the forest of tokens before a tool call; null: the log had none.
  const LengthForest* before_tool() const { return before_tool_.get(); }
  const TextSketch* sketch() const { return sketch_.get(); }  // null: calls had no texts
  const Confidence* confidence() const { return confidence_.get(); }  // null: it was not told what was solved
  // Of the model's forest; null: it has none.
  const ForestReport* ReportOf(std::string_view model) const;

  // As QuantileForest's.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const CallPredictor>> Load(std::string_view bytes);

 private:
  std::size_t dimensions() const { return sketch_ == nullptr ? 0 : sketch_->dimensions(); }
  ModelId IdOf(std::string_view model) const;  // zero: none
  void SketchOf(std::string_view text, std::span<float> out, TextScratch& scratch) const;
  LengthForest::Query QueryOf(const CallDescription& call, std::span<const float> sketch) const;

  std::vector<std::string> models_;  // ascending; the id of each is its place and one
  std::shared_ptr<const TextSketch> sketch_;
  std::shared_ptr<const LengthForest> lengths_;
  std::shared_ptr<const Confidence> confidence_;
  std::shared_ptr<const LengthForest> before_tool_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_CALL_PREDICTOR_H_
