// Predicts output lengths and success of calls, as learnt from a log of calls. `takt train` writes a predictor to a
// file. `takt predict` and hosts read it.
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

// Facts about a call that are known when it begins. Empty texts and counts below zero: unknown.
struct CallDescription {
  std::string_view model = {};
  std::string_view kind = {};  // kind of workflow
  std::string_view stage = {};
  std::string_view text = {};  // text of the prompt
  Tokens prompt_tokens{-1}, system_tokens{-1}, user_tokens{-1};
  std::int32_t calls_before = 0;  // earlier calls of its workflow
  Tokens tokens_before{0};  // output tokens of the earlier calls
  Tokens generated{-1};  // output tokens of this call so far, which the forecast excludes
};

// A call and its result.
struct LoggedCall {
  CallDescription call = {};
  Tokens output_tokens{0};
  std::uint8_t solved = ConfidenceData::kUntried;  // whether the call was solved, a value of ConfidenceData::Outcome
  Tokens before_tool{-1};  // output tokens before the call's first tool call; below 0: unknown, or no tool call
};

struct CallForecast {
  Estimate tokens_left = {};  // output tokens of this and all later calls of the workflow; unknown for an unknown model
  double solved = -1;  // probability that the model solves the call; below zero: unknown
  Estimate before_tool = {};  // output tokens before the next tool call; unknown if the model's log had no tool calls
};

struct CallPredictorOptions {
  LengthForestOptions lengths =
      {};  // `sketch` is ignored: Train sets it to the sketch's dimensions, or 0 without texts
  TextSketchOptions sketch = {};
  ConfidenceOptions confidence = {};
  // LAMPS (section 5): the tokens before a tool call are learned as one of 50 bins of 10 tokens. The last bin also
  // contains all larger counts. 0 bins: exact counts.
  std::int32_t tool_bins = 50, tool_bin_tokens = 10;
};

// Immutable, so any number of threads may share it. Stages and kinds are identified by 64-bit hashes, models by name.
class CallPredictor {
 public:
  struct Scratch {
    LengthForest::Scratch lengths = {};
    TextScratch text = {};
    std::vector<float> sketches = {}, numbers = {};
    std::vector<LengthForest::Query> queries = {};
    std::vector<Estimate> predicted = {};
  };

  // Trains a predictor. `workflows`: the calls of each workflow, in order of start. Confidence is learnt if any call
  // has an outcome. InvalidArgument: no calls, or invalid options. Cancelled: `progress` returned false.
  static absl::StatusOr<std::shared_ptr<const CallPredictor>> Train(std::span<const std::vector<LoggedCall>> workflows,
                                                                    const CallPredictorOptions& options = {},
                                                                    const ParallelFor& parallel = SerialFor,
                                                                    const Progress& progress = {});

  // Predicts calls.size() calls. Batches are faster than single calls.
  void Predict(std::span<const CallDescription> calls, std::span<CallForecast> out, Scratch& scratch) const;

  std::span<const std::string> models() const { return models_; }  // names of the known models, ascending
  const LengthForest& lengths() const { return *lengths_; }
  // Returns the forest that predicts tokens before a tool call; null: the log had no tool calls.
  const LengthForest* before_tool() const { return before_tool_.get(); }
  const TextSketch* sketch() const { return sketch_.get(); }  // sketch of texts; null: calls had no texts
  const Confidence* confidence() const { return confidence_.get(); }  // model of success; null: no call had an outcome
  // Returns the report of the model's forest; null if it has none.
  const ForestReport* ReportOf(std::string_view model) const;

  // Save and Load work as in QuantileForest.
  std::string Save() const;
  static absl::StatusOr<std::shared_ptr<const CallPredictor>> Load(std::string_view bytes);

 private:
  std::size_t dimensions() const { return sketch_ == nullptr ? 0 : sketch_->dimensions(); }
  ModelId IdOf(std::string_view model) const;  // 0: unknown model
  void SketchOf(std::string_view text, std::span<float> out, TextScratch& scratch) const;
  LengthForest::Query QueryOf(const CallDescription& call, std::span<const float> sketch) const;

  std::vector<std::string> models_;  // names of models, ascending; a model's id is its index + 1
  std::shared_ptr<const TextSketch> sketch_;
  std::shared_ptr<const LengthForest> lengths_;
  std::shared_ptr<const Confidence> confidence_;
  std::shared_ptr<const LengthForest> before_tool_;
};

}  // namespace takt

#endif  // TAKT_LEARNING_CALL_PREDICTOR_H_
