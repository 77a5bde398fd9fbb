// Seeded workloads: arrival processes, length distributions, workflows of several stages.
#ifndef TAKT_WORKLOAD_GENERATE_H_
#define TAKT_WORKLOAD_GENERATE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/random.h"
#include "takt/base/time.h"
#include "takt/workload/workload.h"

namespace takt {

// When workflows arrive; the first at time zero.
struct Arrivals {
  enum class Process : std::uint8_t {
    kConstant,  // equal gaps
    kPoisson,   // exponential gaps
    kGamma,     // gamma gaps with a coefficient of variation of `cv`: above 1 bursty, below 1 regular
    kWeibull,   // Weibull gaps with shape `shape`: below 1 bursty
  };
  Process process = Process::kPoisson;
  double rate = 1;   // mean [per second]
  double cv = 1;     // kGamma only
  double shape = 1;  // kWeibull only

  // The next gap [s].
  double Gap(Random& random) const;
};

// n arrivals of a Poisson process as `numpy.random.seed(seed); numpy.random.gamma(1, 1/rate)` yields them, which
// HexGen-Flow's simulator does (Peng et al., 2025). The first is one gap after zero.
std::vector<TimePoint> NumpyPoissonArrivals(double rate, std::uint32_t seed, std::size_t n);

// How many tokens.
struct Lengths {
  enum class Kind : std::uint8_t { kConstant, kUniform, kLogNormal, kEmpirical };
  Kind kind = Kind::kConstant;
  double a = 1;  // the constant; the least; the median
  double b = 0;  // -; the most; the standard deviation of the logarithm
  std::shared_ptr<const std::vector<std::int32_t>> sample = nullptr;  // kEmpirical: drawn from with replacement

  static Lengths Constant(double tokens) { return {.a = tokens}; }
  static Lengths Uniform(double least, double most) { return {Kind::kUniform, least, most, nullptr}; }
  static Lengths LogNormal(double median, double sigma) { return {Kind::kLogNormal, median, sigma, nullptr}; }
  static Lengths LogNormalWithMean(double mean, double sd);
  static Lengths Empirical(std::vector<std::int32_t> sample);
  static Lengths PromptsOf(const Workload& workload);
  static Lengths OutputsOf(const Workload& workload);

  // Not rounded yet, so that it can be scaled.
  double Draw(Random& random) const;
};

// What follows a stage: of its branches one is taken, each with its probability; with what is left of 1, none.
struct Branch {
  double probability = 1;
  std::vector<std::size_t> stages =
      {};  // all of them, side by side; positions in the template, later than this stage's
};

// A call site. It runs where a stage before it leads to it, and waits for every call of the stages that did (a join).
struct StageTemplate {
  std::string stage = "";
  std::string agent = "";  // empty: as the stage
  Lengths prompt = {};     // its fixed part: instructions and the like
  Lengths output = {};
  double reads = 0;   // share of its predecessors' output that joins its prompt
  bool reads_all = false;  // that of all calls of the workflow so far, instead
  std::int32_t least_calls = 1, most_calls = 1;  // side by side, uniform (a fan-out)
  std::vector<Branch> next = {};
};

// A kind of workflow. Its first stage always runs.
struct WorkflowTemplate {
  std::string name = "";
  double weight = 1;      // how often, relative to the other templates
  double size_sigma = 0;  // a log-normal factor of median 1, common to all outputs of a workflow
  std::vector<StageTemplate> stages = {};
};

// Chimera's multi-agent workflows (section 4.1, appendix A), where models of unlike sizes differ in how long they
// answer and in what they solve. Four stages, two or one with equal probability; their shares of the workflow's output
// are 0.25, 0.35, 0.15 and 0.25, renormalised over those present. Of model m:
//
//   log total output = mu(m) + sigma(m) (rho z + sqrt(1 - rho^2) e),  z, e standard normal, rho 0.89 (APPS), 0.87
//   (MATH) P(solved)        = logistic(a(m) - 1.5 d),                        d standard normal, 0.5 correlated with z
//
// z and d are of the prompt, which shows them: the counts of two kinds of marker words are Poisson, linear in z and d.
// e, of the prompt and the model, shows nowhere. docs/reference/workloads.md has the figures. Features: topic, words,
// long_words (markers of z), hard_words (markers of d).
enum class ChimeraDataset : std::uint8_t { kApps, kMath };
struct ChimeraShape {
  ChimeraDataset dataset = ChimeraDataset::kApps;
  std::string model = "qwen2.5-7b";  // whose outputs are those of the calls, and in the prompts after them
};

// A prompt's text, of made-up words in any order, as its features say and nothing else does: so it cannot tell more.
// Empty where there are too few features.
std::string ChimeraPrompt(std::span<const float> features, std::uint64_t seed);

struct GeneratorOptions {
  std::string name = "generated";
  std::int64_t workflows = 1000;
  Arrivals arrivals = {};
  std::vector<WorkflowTemplate> templates = {};
  std::optional<ChimeraShape> chimera = {};  // instead of templates
  double least_deadline_s = 0, most_deadline_s = 0;  // of a workflow, uniform; 0: none
  std::int32_t max_prompt_tokens = 65536;            // longer draws are cut
  std::int32_t max_output_tokens = 16384;
  std::uint64_t seed = 1;

  absl::Status Validate() const;  // all faults at once, by field
};

// The same options give the same workload. Arrivals and sizes have random streams of their own: the sizes do not change
// with the rate. InvalidArgument as Validate() says.
absl::StatusOr<Workload> GenerateWorkload(const GeneratorOptions& options);

// As many workflows, drawn from it with replacement, with arrivals of their own: how InferCept's and LAMPS' benchmarks
// make a load from a file without times. The same seed draws the same; picks and arrivals have random streams of their
// own, so that another rate meets the same workflows. InvalidArgument where there is nothing to draw from, for a number
// that is not in 1 .. 50 million, or arrivals that are out of bounds or lie beyond kMaxWorkloadTime.
absl::StatusOr<Workload> Draw(const Workload& from, std::int64_t workflows, const Arrivals& arrivals,
                              std::uint64_t seed);

// Coding agents in the shape of Chimera's (Planner, Coder, QA, Coder in four stages, two or one with equal
// probability, the stages' shares of the output 0.25, 0.35, 0.15, 0.25), where up to three coders work side by side,
// and only every second review asks for more code. The output of a workflow is log-normal with the mean 2,400 and the
// standard deviation 3,000 that Chimera reports for Llama-3.2-3B, whatever its number of stages.
std::vector<WorkflowTemplate> MultiStageTemplates();

// The applications of Kairos' experiments (section 2.1), with lengths of our choosing, since no data was published:
// questions to a router that asks one of two experts; research, then a report; code by five roles, where tests that
// fail go back to the engineer, at most three times; and all three, equally often. `group` 1 to 3: families of inputs,
// of other lengths; of the mix there is only the first. Poisson at 1 per second.
enum class KairosApplication : std::uint8_t { kQuestions, kReports, kCode, kMix };
GeneratorOptions KairosOptions(KairosApplication application, int group = 1);

// 1,000 workflows, Poisson at 8 per second: the least of the paper's three rates.
GeneratorOptions ChimeraOptions(ChimeraDataset dataset);

// The workload that comes with takt: 1,200 workflows of MultiStageTemplates(), about 3,000 calls, Poisson at 3 per
// second, with deadlines from 30 to 120 s.
GeneratorOptions BundledOptions();
Workload BundledWorkload();

// From a text such as `gen:poisson,requests=1000,rate=5,prompt=lognormal:1000:0.8,output=lognormal:200:0.8` or
// `gen:multi_stage,workflows=500,rate=2,seed=7`; docs/reference/workloads.md lists the names. Reads a file for
// `empirical:FILE`. InvalidArgument names the key and the value and says what exists.
absl::StatusOr<GeneratorOptions> ParseGeneratorSpec(std::string_view spec);
absl::StatusOr<Workload> GenerateWorkload(std::string_view spec);

}  // namespace takt

#endif  // TAKT_WORKLOAD_GENERATE_H_
