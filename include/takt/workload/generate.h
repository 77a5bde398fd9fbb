// Seeded random workloads: arrival processes, length distributions and multi-stage workflows.
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

// Arrival times of workflows; the first is zero.
struct Arrivals {
  enum class Process : std::uint8_t {
    kConstant,  // equal gaps
    kPoisson,  // exponential gaps
    kGamma,  // gamma gaps with coefficient of variation `cv`; above 1: bursty, below 1: regular
    kWeibull,  // Weibull gaps with shape `shape`; below 1: bursty
  };
  Process process = Process::kPoisson;
  double rate = 1;  // mean arrivals [per second]
  double cv = 1;  // coefficient of variation of the gaps; kGamma only
  double shape = 1;  // shape of the gaps; kWeibull only

  // Returns the next gap [s].
  double Gap(Random& random) const;
};

// Returns n Poisson arrivals, with the gaps of `numpy.random.seed(seed); numpy.random.gamma(1, 1/rate)` in
// HexGen-Flow's simulator (Peng et al., 2025). The first arrival is one gap after zero.
std::vector<TimePoint> NumpyPoissonArrivals(double rate, std::uint32_t seed, std::size_t n);

// A distribution of token counts.
struct Lengths {
  enum class Kind : std::uint8_t { kConstant, kUniform, kLogNormal, kEmpirical };
  Kind kind = Kind::kConstant;
  double a = 1;  // first parameter of the distribution: the constant, the minimum or the median
  double b = 0;  // second parameter: unused, the maximum, or the standard deviation of the logarithm
  std::shared_ptr<const std::vector<std::int32_t>> sample = nullptr;  // kEmpirical: values drawn with replacement

  static Lengths Constant(double tokens) { return {.a = tokens}; }
  static Lengths Uniform(double least, double most) { return {Kind::kUniform, least, most, nullptr}; }
  static Lengths LogNormal(double median, double sigma) { return {Kind::kLogNormal, median, sigma, nullptr}; }
  static Lengths LogNormalWithMean(double mean, double sd);
  static Lengths Empirical(std::vector<std::int32_t> sample);
  static Lengths PromptsOf(const Workload& workload);
  static Lengths OutputsOf(const Workload& workload);

  // Returns a number of tokens that is not rounded, so that it can be scaled.
  double Draw(Random& random) const;
};

// A branch after a stage, and its probability. At most one branch of a stage is taken.
struct Branch {
  double probability = 1;
  std::vector<std::size_t> stages =
      {};  // stages that start in parallel if the branch is taken: indices in the template, greater than this stage's
};

// A call site. A stage runs if a preceding stage leads to it, after all calls of these stages have ended.
struct StageTemplate {
  std::string stage = "";
  std::string agent = "";  // name of the agent; empty: same as `stage`
  Lengths prompt = {};  // fixed part of the prompt, such as instructions
  Lengths output = {};
  double reads = 0;  // share of the predecessors' output that is added to the prompt
  bool reads_all = false;  // true: `reads` refers to the output of all earlier calls of the workflow
  std::int32_t least_calls = 1, most_calls = 1;  // minimum and maximum number of parallel calls, uniform
  std::vector<Branch> next = {};
};

// A kind of workflow. Its first stage always runs.
struct WorkflowTemplate {
  std::string name = "";
  double weight = 1;  // frequency relative to the other templates
  double size_sigma = 0;  // sigma of the log-normal factor (median 1) by which all outputs of a workflow are multiplied
  std::vector<StageTemplate> stages = {};
};

// Chimera's multi-agent workflows (section 4.1, appendix A), with models that differ in output length and correctness.
// A workflow has four, two or one stages with equal probability. The four stages have 0.25, 0.35, 0.15 and 0.25 of the
// workflow's output, normalized over the stages that exist. For model m:
//
//   log total output = mu(m) + sigma(m) (rho z + sqrt(1 - rho^2) e),  z, e standard normal; rho 0.89 (APPS), 0.87
//   (MATH) P(solved)        = logistic(a(m) - 1.5 d),                        d standard normal, correlation 0.5 with z
//
// z and d depend on the prompt and show in it: the counts of two kinds of marker words are Poisson, linear in z and d.
// e depends on prompt and model, and does not show. docs/reference/workloads.md has the parameters. Features: topic,
// words, long_words (markers of z), hard_words (markers of d).
enum class ChimeraDataset : std::uint8_t { kApps, kMath };
struct ChimeraShape {
  ChimeraDataset dataset = ChimeraDataset::kApps;
  std::string model = "qwen2.5-7b";  // model whose outputs the calls and later prompts contain
};

inline constexpr std::size_t kChimeraTopics = 20;

// Logit by which a model solves prompts of a topic better than its average prompt: standard normal, the same for every
// seed. `model` is a column of Workload::models. 0: no such model or topic.
double ChimeraStrength(std::size_t model, std::size_t topic);

// Returns a prompt of made-up words in random order. Only the features determine it, so it contains no other
// information. Empty if there are too few features.
std::string ChimeraPrompt(std::span<const float> features, std::uint64_t seed);

struct GeneratorOptions {
  std::string name = "generated";
  std::int64_t workflows = 1000;
  Arrivals arrivals = {};
  std::vector<WorkflowTemplate> templates = {};
  std::optional<ChimeraShape> chimera = {};  // Chimera's workflows, which replace `templates`
  double least_deadline_s = 0, most_deadline_s = 0;  // deadline of a workflow, uniform in this range [s]; 0: none
  std::int32_t max_prompt_tokens = 65536;  // maximum prompt length, to which longer draws are clamped
  std::int32_t max_output_tokens = 16384;
  std::uint64_t seed = 1;

  absl::Status Validate() const;  // Returns InvalidArgument with all invalid fields.
};

// Generates a workload; equal options give equal workloads. Arrivals and sizes have separate random streams, so sizes
// do not depend on the rate. InvalidArgument: as Validate().
absl::StatusOr<Workload> GenerateWorkload(const GeneratorOptions& options);

// Draws workflows from a workload with replacement, with new arrivals, as InferCept's and LAMPS' benchmarks do for
// files without times. Choices and arrivals have separate random streams, so the rate does not change the workflows.
// InvalidArgument: an empty workload, a number outside 1 to 50 million, invalid arrivals, or arrivals beyond
// kMaxWorkloadTime.
absl::StatusOr<Workload> Draw(const Workload& from, std::int64_t workflows, const Arrivals& arrivals,
                              std::uint64_t seed);

// Coding agents similar to Chimera's: the stages Planner, Coder, QA, Coder, of which a workflow has four, two or one
// with equal probability. Output shares are 0.25, 0.35, 0.15 and 0.25. Up to three coders work in parallel, and every
// second review requests more code. A workflow's output is log-normal with mean 2,400 and standard deviation 3,000, as
// Chimera reports for Llama-3.2-3B, for any number of stages.
std::vector<WorkflowTemplate> MultiStageTemplates();

// The applications of Kairos' experiments (section 2.1). Lengths are takt's choice, since no data was published.
// kQuestions: a router asks one of two experts. kReports: research, then a report. kCode: five roles; failed tests
// return to the engineer, at most three times. kMix: all three applications with equal frequency. `group` 1 to 3
// selects inputs of different lengths; kMix has only group 1. Poisson arrivals at 1 per second.
enum class KairosApplication : std::uint8_t { kQuestions, kReports, kCode, kMix };
GeneratorOptions KairosOptions(KairosApplication application, int group = 1);

// 1,000 workflows with Poisson arrivals at 8 per second, the lowest of the paper's three rates.
GeneratorOptions ChimeraOptions(ChimeraDataset dataset);

// The bundled workload: 1,200 workflows of MultiStageTemplates(), about 3,000 calls, Poisson arrivals at 3 per second,
// deadlines from 30 to 120 s.
GeneratorOptions BundledOptions();
Workload BundledWorkload();

// Parses a text such as `gen:poisson,requests=1000,rate=5,prompt=lognormal:1000:0.8,output=lognormal:200:0.8` or
// `gen:multi_stage,workflows=500,rate=2,seed=7`; docs/reference/workloads.md lists the names. Reads a file for
// `empirical:FILE`. InvalidArgument contains the key, the value and the alternatives.
absl::StatusOr<GeneratorOptions> ParseGeneratorSpec(std::string_view spec);
absl::StatusOr<Workload> GenerateWorkload(std::string_view spec);

}  // namespace takt

#endif  // TAKT_WORKLOAD_GENERATE_H_
