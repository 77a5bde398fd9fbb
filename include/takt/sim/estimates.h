// Estimates of unknown lengths for simulated schedulers.
#ifndef TAKT_SIM_ESTIMATES_H_
#define TAKT_SIM_ESTIMATES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/exact_math.h"
#include "takt/base/time.h"
#include "takt/learning/calibration.h"
#include "takt/learning/length_forest.h"
#include "takt/learning/length_table.h"
#include "takt/learning/tool_profile.h"
#include "takt/model/estimate.h"
#include "takt/model/request.h"
#include "takt/workload/workload.h"

namespace takt {

enum class EstimateKind : std::uint8_t {
  kOracle,  // the true length
  kNoise,  // true * exp(sigma * z), z standard normal: a raw prediction
  kGaussian,  // true * (1 + sigma * z), at least 0: LAMPS, section 6.4
  kCalibrated,  // posterior of the length, given a kNoise prediction and the workload's length distribution
  kClassMean,  // running mean over finished calls of the same class
  kLengths,  // lengths of finished calls of the same stage with a similar prompt length (learning/length_table.h)
  kForest,  // quantile forests trained on finished calls (learning/length_forest.h)
  kNone,
};

// Text form: "oracle", "noise:SIGMA", "gaussian:SIGMA", "calibrated:SIGMA", "class-mean", "lengths", "forest", "none",
// or "learnt(...)" of any of them.
struct EstimateSpec {
  EstimateKind kind = EstimateKind::kNone;
  double sigma = 0;  // standard deviation of the log error; kGaussian: of the relative error
  bool learnt = false;  // true: finished calls calibrate the estimates during the run (learning/calibration.h)

  // InvalidArgument describes the error in `text`.
  static absl::StatusOr<EstimateSpec> Parse(std::string_view text);
  std::string ToString() const;

  friend constexpr bool operator==(const EstimateSpec&, const EstimateSpec&) = default;
};

// Predictions for a workload's calls on each of its models, made before the run by predictors trained elsewhere.
struct Forecasts {
  std::vector<Estimate> output = {};  // output tokens of each call on each model; empty: estimates by EstimateSpec
  std::vector<Estimate> left = {};  // output tokens of the call and all later calls; empty: estimates by EstimateSpec
  std::vector<float> scores = {};  // probability that each model solves each workflow; empty: unknown
};

// Errors of estimates, over finished calls and workflows. `raw`: before calibration.
struct EstimateErrors {
  CalibrationError output, left;
  CalibrationError raw_output, raw_left;  // equal to `output` and `left` without calibration
};

// Sets the estimates of the requests of one run. A call's noise depends only on the seed and its index, not on the
// order of events.
//
// The remaining work of other calls (Request::after) is estimated by the oracle, by all noise kinds and by class means.
// With noise, a call's prompt and output have the same error.
//
// Noise kinds: a workflow's remaining output is the sum over its unfinished calls, each with its own error. A workflow
// of one call thus has the estimate of that call. kCalibrated assumes normal log lengths with the workload's mean and
// variance. The posterior given log true + sigma * z is log-normal. The sum over calls is approximated as log-normal
// with the right mean and variance (Fenton, 1960).
//
// Class means: a class is a combination of workflow, stage and agent name. Calls without stage and agent names are
// classed by the bit length of their prompts. Until a call of the class has finished, the mean over all calls is used.
// Before the first finished call, estimates are unknown. A workflow's remaining output is learned when the workflow
// ends.
//
// Lengths: estimates only the call's output, from the table.
//
// Forest: one forest for the output of a call and one for the remaining output of its workflow. Each has up to 50 trees
// and 8,000 calls, mostly the newest. Forests are rebuilt whenever the number of finished workflows has doubled,
// starting at 32. Inputs are known when a call begins: prompt length, visible features, stage, agent, class of the
// workflow, and output of the workflow so far. Class means are used before the first forest, and always for tools and
// other parts of Request::after. Outputs, and quantities that grow with them, are scaled to the forest's estimate.
//
// Learnt: estimates or forecasts of a call's output and of its workflow's remaining output each pass through a
// Calibration. The first learns when the call ends, the second when the workflow ends. Other output fields of
// Request::after scale with the remaining output after the call. Tool estimates do not change.
//
// With several models, estimates are for the model that a call is placed on: priors, classes and calibrations are per
// model. Finished calls contribute their actual outputs, possibly from other models.
class Estimator {
 public:
  // `workload` must outlive this object.
  Estimator(const Workload& workload, EstimateSpec spec, std::uint64_t seed);

  // Sets output_tokens and workflow_tokens_left of call `call` (an index into Workload::calls) of workflow `workflow`,
  // when it is made or placed on `model` (a column of the workload).
  void Describe(std::uint32_t workflow, std::uint32_t call, Request& request, std::size_t model = Workload::kNoModel);

  // Learns from a finished call. `model`: the model that it was placed on.
  void Ended(std::uint32_t workflow, std::uint32_t call, std::size_t model = Workload::kNoModel);

  // Uses known forecasts instead of estimates. Every request then contains scores and expected outputs for each of
  // `models`. InvalidArgument: the tables have the wrong size.
  absl::Status Use(std::shared_ptr<const Forecasts> forecasts, std::vector<std::size_t> models);

  // Estimates a tool call (index into Workload::tools) after `generated` tokens. All kinds name the tool. The oracle
  // returns the true values. Class means use a ToolProfile by tool name, without seeds. Noise kinds multiply duration
  // and returned tokens by one factor, exp(sigma z) or 1 + sigma z, and the output before the call by another.
  NextCall Tool(std::uint32_t tool, std::int32_t generated) const;
  void ToolEnded(std::uint32_t tool, std::int32_t generated);

  EstimateErrors errors() const;

 private:
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;

    void Add(double x) { sum += x, ++count; }
    double value() const { return count > 0 ? sum / static_cast<double>(count) : -1; }
  };
  struct ClassMeans {
    Mean output, left;
    Mean calls_after, prompt_after, kv_after, path_after;  // work after the call; its output is `left` minus the call's
  };
  // A log-normal belief, given by its first two moments; variance 0: a known value.
  struct Belief {
    double mean = 0, variance = 0;

    Estimate ToEstimate() const {
      return mean > 0 ? Estimate::LogNormal(mean, exact::Log1p(variance / (mean * mean))) : Estimate::Exact(mean);
    }
  };

  // The estimates of a call, for a comparison with the outcome.
  struct Shown {
    double raw_output = -1, raw_left = -1, output = -1, left = -1;  // means of the estimates; below 0: unknown
    double generated = 0;  // output tokens of the workflow at that time
    std::size_t column = 0;
    std::int32_t prompt_tokens = -1;  // prompt tokens of the request; below 0: unknown
    std::uint32_t since = 0;  // `ends_` at that time
  };
  struct Checks {
    CalibrationCheck output, left, raw_output, raw_left;  // errors of estimates; raw: before calibration
  };
  struct Calibrations {
    Calibration output, left;
  };

  struct Forests {
    LengthLearner output, left;
    std::shared_ptr<const LengthForest> output_now = {}, left_now = {};  // current forests; null: no forest yet
    LengthForest::Scratch scratch = {};
    std::int64_t ended = 0, refresh_at = 32;  // finished workflows
    std::vector<LengthInput> inputs = {};  // inputs of each call at its start
  };

  bool learns_classes() const { return spec_.kind == EstimateKind::kClassMean || spec_.kind == EstimateKind::kForest; }

  // A normal distribution of log lengths.
  struct Prior {
    double mean = 0, variance = 0;
  };

  void FitPriors();
  Shown Show(std::uint32_t workflow, Request& request) const;
  void CheckLeft(const WorkloadWorkflow& workflow);
  void Expect(std::uint32_t workflow, std::uint32_t call, Request& request);
  void ExpectByKind(std::uint32_t workflow, std::uint32_t call, Request& request);
  void Score(std::uint32_t workflow, std::uint32_t call, Request& request);
  // column of the current model; last column: a model that is not in the workload
  std::size_t column() const { return std::min(model_, workload_->models.size()); }
  void FindClasses();
  void PlantForests();
  void DescribeByClass(std::uint32_t call, Request& request);
  void DescribeByForest(std::uint32_t workflow, std::uint32_t call, Request& request);
  void LearnClasses(const WorkloadWorkflow& workflow);
  void LearnForests(const WorkloadWorkflow& workflow);
  Belief BeliefOf(std::uint32_t call) const;
  template <class BeliefOfCall>
  WorkAfter AfterOf(const WorkloadWorkflow& workflow, std::uint32_t call, std::uint32_t since, BeliefOfCall belief_of);
  // Visits calls that were unfinished when `since` calls had finished.
  template <class Visit>
  void ForCallsLeft(const WorkloadWorkflow& workflow, std::uint32_t since, Visit visit) const;
  double LeftOf(const WorkloadWorkflow& workflow, std::uint32_t call) const;
  // Returns the actual output of a finished call, on its model; otherwise the true output on the current model.
  std::int32_t OutputOf(std::uint32_t call) const {
    return outputs_[call] < 0 ? workload_->OutputOf(call, model_) : outputs_[call];
  }
  // Returns the prompt length. Prompts contain outputs of models, so a finished call has its actual prompt.
  std::int32_t PromptOf(std::uint32_t call) const {
    const bool seen = ended_[call] != kRuns && shown_[call].prompt_tokens >= 0;
    return seen ? shown_[call].prompt_tokens : workload_->calls[call].prompt_tokens;
  }

  ClassMeans& ClassOf(std::uint32_t call) {
    return classes_[class_of_[call] * (workload_->models.size() + 1) + column()];
  }
  // Returns the call site, which is separate per model.
  StageId SiteOf(std::uint32_t call) const {
    const std::size_t columns = workload_->models.size() + 1;
    return {workload_->calls[call].stage * columns + (columns > 1 ? column() : 0)};
  }

  const Workload* workload_;
  EstimateSpec spec_;
  std::uint64_t seed_;
  std::size_t model_ = Workload::kNoModel;  // model of the current estimates
  std::vector<Prior> priors_;  // by column()
  static constexpr std::uint32_t kRuns = UINT32_MAX;
  std::uint32_t ends_ = 0;  // number of finished calls
  std::vector<std::uint32_t> ended_;  // number of calls that finished before each call; kRuns: it has not finished
  std::vector<std::int32_t> outputs_;  // outputs of finished calls; below 0: not finished
  std::vector<Shown> shown_;  // by call
  std::vector<double> generated_;  // output of each workflow's finished calls
  Checks checks_;
  std::vector<Calibrations> calibrations_;  // by column(); empty without calibration
  std::shared_ptr<const Forecasts> forecasts_;
  std::vector<std::size_t> scored_;  // models with scores
  std::vector<ModelScore> scores_;  // scores of the most recently described request
  // Class means and forests.
  std::vector<std::uint32_t> class_of_;  // by call
  std::vector<ClassMeans> classes_;  // by class and column()
  std::vector<ClassMeans> all_;  // by column()
  std::vector<double> path_;  // used by AfterOf, by call of the workflow
  std::optional<ToolProfile> tools_;  // by tool name
  LengthTable lengths_;  // kLengths only
  std::optional<Forests> forests_;  // kForest only
};

}  // namespace takt

#endif  // TAKT_SIM_ESTIMATES_H_
