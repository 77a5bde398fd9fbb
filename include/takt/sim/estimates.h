// What a simulated scheduler is told about lengths that it has not seen, and nothing else.
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
  kOracle,      // the true length
  kNoise,       // true * exp(sigma * z), z standard normal: a raw prediction
  kGaussian,    // true * (1 + sigma * z), at least 0: LAMPS, section 6.4
  kCalibrated,  // the posterior of the length, given that prediction and the workload's own distribution of lengths
  kClassMean,   // running mean of what has finished in the same class
  kLengths,     // what has finished of the same stage with a prompt of like length (learning/length_table.h)
  kForest,      // quantile forests grown from what has finished (learning/length_forest.h)
  kNone,
};

// "oracle", "noise:SIGMA", "gaussian:SIGMA", "calibrated:SIGMA", "class-mean", "lengths", "forest", "none", and
// "learnt(...)" of any of them.
struct EstimateSpec {
  EstimateKind kind = EstimateKind::kNone;
  double sigma = 0;  // of the log of the prediction's error; Gaussian: of the error as a share of the truth
  bool learnt = false;  // calibrated on the way by what has ended in this run (learning/calibration.h)

  // InvalidArgument names what is wrong with `text`.
  static absl::StatusOr<EstimateSpec> Parse(std::string_view text);
  std::string ToString() const;

  friend constexpr bool operator==(const EstimateSpec&, const EstimateSpec&) = default;
};

// What predictors that were trained elsewhere say of a workload's calls on each of its models, before they run.
struct Forecasts {
  std::vector<Estimate> output = {};  // of the call: calls x models; empty: as EstimateSpec says
  std::vector<Estimate> left = {};    // of it and all after it in its workflow; likewise
  std::vector<float> scores = {};  // how probably the model solves it, workflows x models; empty: not told
};

// How far what was told of calls that ended, and of workflows that did, was from what came; `raw`: before calibration.
struct EstimateErrors {
  CalibrationError output, left;
  CalibrationError raw_output, raw_left;  // where the estimates are learnt; else as the above
};

// Fills in the estimates of one run's requests. A call's noise depends on the seed and its index alone, not on the
// order of events.
//
// What a workflow has left besides the call (Request::after) is told by oracle, noise of any kind (a call's prompt and
// output with the same error) and class means.
//
// Noise of any kind: what a workflow has left is the sum over its calls that have not ended, each with its own
// error, so that a workflow of one call has left what that call is estimated at. Calibrated: log lengths are taken
// as normal with the mean and variance of the workload's; the posterior given log true + sigma * z is log-normal,
// and a sum is matched to one by its first two moments (Fenton, 1960).
//
// Class means: a class is what bears the same names (workflow, stage, agent), or, where stage and agent are
// nameless, what has a prompt of the same bit length. Until something of the class has finished the mean over all
// stands in, and until anything has, nothing is known. What is left of a workflow is observed when it ends.
//
// Lengths: of the call as the table tells; nothing is known of the rest of its workflow, nor of tools.
//
// Forest: one forest of what a call generates, one of what its workflow has left, each of up to 50 trees and 8,000
// calls (the newest, mostly), grown anew whenever twice as many workflows have ended, from 32 on. They look at what is
// seen when a call begins: its prompt's length and visible features, its stage and agent, the class of its workflow,
// and what that has generated so far. Until the first is grown class means stand in, and tools and all else of what is
// left besides the call are told by them, outputs and what grows with them in proportion to the forest's.
//
// Learnt: whatever the kind (or a forecast) tells of a call and of what its workflow has left goes through a
// Calibration each, which learns a call's length when it ends, and what was left when the workflow has ended. The rest
// of Request::after scales with what is left besides the call. Tools are left as they are.
//
// Where models differ, all of this is of the model that a call is placed on: priors, classes and calibrations are the
// model's own. What calls that have ended generated, and what was left when one was made, is what came of the models
// that they ran on, which may be others.
class Estimator {
 public:
  // `workload` must outlive this.
  Estimator(const Workload& workload, EstimateSpec spec, std::uint64_t seed);

  // Sets output_tokens and workflow_tokens_left as known when call `call` (an index into Workload::calls) of
  // workflow `workflow` is made, or placed on `model`, a column of the workload.
  void Describe(std::uint32_t workflow, std::uint32_t call, Request& request, std::size_t model = Workload::kNoModel);

  // The call has completed: its length is known from here on. `model`: the one it was placed on.
  void Ended(std::uint32_t workflow, std::uint32_t call, std::size_t model = Workload::kNoModel);

  // Forecasts take the place of estimates where they say something. Scores, and what each of `models` would generate,
  // go with every request. InvalidArgument: tables of another size.
  absl::Status Use(std::shared_ptr<const Forecasts> forecasts, std::vector<std::size_t> models);

  // Of a tool call, an index into Workload::tools, that comes after `generated` tokens of its call's output. Oracle
  // knows; class means are a ToolProfile's, by the tool's name and without seeds; noise of any kind is the same factor,
  // exp(sigma z) or 1 + sigma z, on duration and returned tokens of a call, and another on the output before it.
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
    Mean calls_after, prompt_after, kv_after, path_after;  // output_after is what is left less the call's own
  };
  // A log-normal belief by its first two moments; a variance of zero is a point.
  struct Belief {
    double mean = 0, variance = 0;

    Estimate ToEstimate() const {
      return mean > 0 ? Estimate::LogNormal(mean, exact::Log1p(variance / (mean * mean))) : Estimate::Exact(mean);
    }
  };

  // What a call was told, and what is compared with that when it is over.
  struct Told {
    double raw_output = -1, raw_left = -1, output = -1, left = -1;  // means; below 0: nothing
    double generated = 0;  // by the workflow, then
    std::size_t column = 0;
    std::int32_t prompt_tokens = -1;  // of its request; below 0: not told
    std::uint32_t since = 0;  // `ends_`, then
  };
  struct Checks {
    CalibrationCheck output, left, raw_output, raw_left;  // raw: of learnt estimates
  };
  struct Calibrations {
    Calibration output, left;
  };

  struct Forests {
    LengthLearner output, left;
    std::shared_ptr<const LengthForest> output_now = {}, left_now = {};  // null: not grown yet
    LengthForest::Scratch scratch = {};
    std::int64_t ended = 0, refresh_at = 32;  // workflows
    std::vector<LengthInput> inputs = {};  // by call, as of when it was made
  };

  bool learns_classes() const { return spec_.kind == EstimateKind::kClassMean || spec_.kind == EstimateKind::kForest; }

  // Normal, of log lengths.
  struct Prior {
    double mean = 0, variance = 0;
  };

  void FitPriors();
  Told Tell(std::uint32_t workflow, Request& request) const;
  void CheckLeft(const WorkloadWorkflow& workflow);
  void Expect(std::uint32_t workflow, std::uint32_t call, Request& request);
  void ExpectByKind(std::uint32_t workflow, std::uint32_t call, Request& request);
  void Score(std::uint32_t workflow, std::uint32_t call, Request& request);
  std::size_t column() const { return std::min(model_, workload_->models.size()); }  // the last: none of them
  void FindClasses();
  void PlantForests();
  void DescribeByClass(std::uint32_t call, Request& request);
  void DescribeByForest(std::uint32_t workflow, std::uint32_t call, Request& request);
  void LearnClasses(const WorkloadWorkflow& workflow);
  void LearnForests(const WorkloadWorkflow& workflow);
  Belief BeliefOf(std::uint32_t call) const;
  template <class BeliefOfCall>
  WorkAfter AfterOf(const WorkloadWorkflow& workflow, std::uint32_t call, std::uint32_t since, BeliefOfCall belief_of);
  // Those that had not ended when `since` calls had.
  template <class Visit>
  void ForCallsLeft(const WorkloadWorkflow& workflow, std::uint32_t since, Visit visit) const;
  double LeftOf(const WorkloadWorkflow& workflow, std::uint32_t call) const;
  // What the call has generated, on whatever model it ran; before it has ended, what it would on the one at hand.
  std::int32_t OutputOf(std::uint32_t call) const {
    return outputs_[call] < 0 ? workload_->OutputOf(call, model_) : outputs_[call];
  }
  // Prompts, too, hold what models have written: those of calls that have ended are as they were.
  std::int32_t PromptOf(std::uint32_t call) const {
    const bool seen = ended_[call] != kRuns && told_[call].prompt_tokens >= 0;
    return seen ? told_[call].prompt_tokens : workload_->calls[call].prompt_tokens;
  }

  ClassMeans& ClassOf(std::uint32_t call) {
    return classes_[class_of_[call] * (workload_->models.size() + 1) + column()];
  }
  // A call site of its own for each model.
  StageId SiteOf(std::uint32_t call) const {
    const std::size_t columns = workload_->models.size() + 1;
    return {workload_->calls[call].stage * columns + (columns > 1 ? column() : 0)};
  }

  const Workload* workload_;
  EstimateSpec spec_;
  std::uint64_t seed_;
  std::size_t model_ = Workload::kNoModel;  // whose outputs are looked at
  std::vector<Prior> priors_;  // by column()
  static constexpr std::uint32_t kRuns = UINT32_MAX;
  std::uint32_t ends_ = 0;  // calls that have ended
  std::vector<std::uint32_t> ended_;  // by call: how many had before it; kRuns: it has not
  std::vector<std::int32_t> outputs_;  // of calls that have ended; below 0: it has not
  std::vector<Told> told_;  // likewise
  std::vector<double> generated_;  // by workflow: output of the calls that have ended
  Checks checks_;
  std::vector<Calibrations> calibrations_;  // by column(); empty where nothing is learnt
  std::shared_ptr<const Forecasts> forecasts_;
  std::vector<std::size_t> scored_;  // models
  std::vector<ModelScore> scores_;  // of the request that was described last
  // Class means and forests.
  std::vector<std::uint32_t> class_of_;  // by call
  std::vector<ClassMeans> classes_;  // by class and column()
  std::vector<ClassMeans> all_;  // by column()
  std::vector<double> path_;  // of AfterOf, by call of the workflow
  std::optional<ToolProfile> tools_;  // by name
  LengthTable lengths_;  // kLengths only
  std::optional<Forests> forests_;  // kForest only
};

}  // namespace takt

#endif  // TAKT_SIM_ESTIMATES_H_
