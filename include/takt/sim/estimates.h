// What a simulated scheduler is told about lengths that it has not seen, and nothing else.
#ifndef TAKT_SIM_ESTIMATES_H_
#define TAKT_SIM_ESTIMATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/time.h"
#include "takt/learning/tool_profile.h"
#include "takt/learning/length_table.h"
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
  kNone,
};

// "oracle", "noise:SIGMA", "gaussian:SIGMA", "calibrated:SIGMA", "class-mean", "lengths", "none".
struct EstimateSpec {
  EstimateKind kind = EstimateKind::kNone;
  double sigma = 0;  // of the log of the prediction's error; Gaussian: of the error as a share of the truth

  // InvalidArgument names what is wrong with `text`.
  static absl::StatusOr<EstimateSpec> Parse(std::string_view text);
  std::string ToString() const;

  friend constexpr bool operator==(const EstimateSpec&, const EstimateSpec&) = default;
};

// Fills in the estimates of one run's requests. A call's noise depends on the seed and its index alone, not on the
// order of events.
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
class Estimator {
 public:
  // `workload` must outlive this.
  Estimator(const Workload& workload, EstimateSpec spec, std::uint64_t seed);

  // Sets output_tokens and workflow_tokens_left as known when call `call` (an index into Workload::calls) of
  // workflow `workflow` is made.
  void Describe(std::uint32_t workflow, std::uint32_t call, Request& request);

  // The call has completed: its length is known from here on.
  void Ended(std::uint32_t workflow, std::uint32_t call);

  // Of a tool call, an index into Workload::tools, that comes after `generated` tokens of its call's output. Oracle
  // knows; class means are a ToolProfile's, by the tool's name and without seeds; noise of any kind is the same factor,
  // exp(sigma z) or 1 + sigma z, on duration and returned tokens of a call, and another on the output before it.
  NextCall Tool(std::uint32_t tool, std::int32_t generated) const;
  void ToolEnded(std::uint32_t tool, std::int32_t generated);

 private:
  struct Mean {
    double sum = 0;
    std::int64_t count = 0;

    void Add(double x) { sum += x, ++count; }
    double value() const { return count > 0 ? sum / static_cast<double>(count) : -1; }
  };
  struct ClassMeans {
    Mean output, left;
  };
  // A log-normal belief by its first two moments; a variance of zero is a point.
  struct Belief {
    double mean = 0, variance = 0;
  };

  void FitPrior();
  void FindClasses();
  Belief BeliefOf(std::uint32_t call) const;
  template <class Visit>
  void ForCallsLeft(const WorkloadWorkflow& workflow, Visit visit) const;
  std::int32_t OutputOf(std::uint32_t call) const { return workload_->calls[call].output_tokens; }

  const Workload* workload_;
  EstimateSpec spec_;
  std::uint64_t seed_;
  double prior_mean_ = 0, prior_variance_ = 0;  // of log lengths
  std::vector<bool> ended_;  // by call
  // Class means only.
  std::vector<std::uint32_t> class_of_;  // by call
  std::vector<ClassMeans> classes_;
  ClassMeans all_;
  std::vector<std::int64_t> left_at_arrival_;  // by call; looked at when its workflow has ended
  std::optional<ToolProfile> tools_;  // by name
  LengthTable lengths_;  // kLengths only
};

}  // namespace takt

#endif  // TAKT_SIM_ESTIMATES_H_
