#include "takt/sim/estimates.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <tuple>

#include "takt/base/random.h"

namespace takt {
namespace {

// A standard normal number that belongs to (seed, index): Marsaglia's polar method on hashed bits, so that no
// generator has to be seeded per call.
double NormalOf(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t state = Mix64(seed) ^ Mix64(~index);
  const auto symmetric = [&state] {
    state = Mix64(state);
    return static_cast<double>(state >> 11) * 0x1p-52 - 1;
  };
  for (;;) {
    const double u = symmetric();
    const double v = symmetric();
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * std::log(s) / s);
  }
}

// What a noisy prediction is of the truth.
double ErrorFactor(const EstimateSpec& spec, double z) {
  return spec.kind == EstimateKind::kGaussian ? std::max(0.0, 1 + spec.sigma * z) : std::exp(spec.sigma * z);
}

// Salts, so that a tool call's errors are not those of a request.
constexpr std::uint64_t kToolNoise = 0x746f6f6cu, kOutputNoise = 0x6f757470u;

// Standard normal quantiles at Estimate::kLevels.
constexpr std::array<double, 5> kNormalQuantiles = {-1.2815515655446004, -0.6744897501960817, 0, 0.6744897501960817,
                                                    1.2815515655446004};

Estimate LogNormalEstimate(double mean, double variance) {
  if (!(variance > 0)) return Estimate::Exact(mean);
  const double log_variance = std::log1p(variance / (mean * mean));
  const double mu = std::log(mean) - log_variance / 2;
  Estimate e{mean};
  for (std::size_t i = 0; i < kNormalQuantiles.size(); ++i) {
    e.quantiles[i] = static_cast<float>(std::exp(mu + std::sqrt(log_variance) * kNormalQuantiles[i]));
  }
  return e;
}

// What makes a class of calls. The bucket tells the nameless apart.
using ClassKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

ClassKey KeyOf(const WorkloadWorkflow& workflow, const WorkloadCall& call) {
  const bool nameless = call.stage == 0 && call.agent == 0;
  const auto prompt = static_cast<std::uint32_t>(std::max(call.prompt_tokens, 0));
  return {workflow.name, call.stage, call.agent, nameless ? static_cast<std::uint32_t>(std::bit_width(prompt)) : 0};
}

}  // namespace

absl::StatusOr<EstimateSpec> EstimateSpec::Parse(std::string_view text) {
  const auto fail = [text](std::string_view why) {
    return absl::InvalidArgumentError(
        fmt::format("estimates '{}': {}; known are oracle, noise:SIGMA, gaussian:SIGMA, calibrated:SIGMA, class-mean, "
                    "lengths and none",
                    text, why));
  };
  if (text == "oracle") return EstimateSpec{EstimateKind::kOracle, 0};
  if (text == "class-mean") return EstimateSpec{EstimateKind::kClassMean, 0};
  if (text == "lengths") return EstimateSpec{EstimateKind::kLengths, 0};
  if (text == "none") return EstimateSpec{EstimateKind::kNone, 0};
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const EstimateKind kind = name == "noise"        ? EstimateKind::kNoise
                            : name == "gaussian"   ? EstimateKind::kGaussian
                            : name == "calibrated" ? EstimateKind::kCalibrated
                                                   : EstimateKind::kNone;
  if (kind == EstimateKind::kNone) return fail("unknown kind");
  if (colon == std::string_view::npos) return fail("a sigma is missing");
  const std::string_view number = text.substr(colon + 1);
  double sigma = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), sigma);
  if (error != std::errc() || end != number.data() + number.size()) return fail("sigma is not a number");
  if (!(sigma >= 0 && sigma <= 10)) return fail("sigma must lie in [0, 10]");
  return EstimateSpec{kind, sigma};
}

std::string EstimateSpec::ToString() const {
  switch (kind) {
    case EstimateKind::kOracle: return "oracle";
    case EstimateKind::kNoise: return fmt::format("noise:{}", sigma);
    case EstimateKind::kGaussian: return fmt::format("gaussian:{}", sigma);
    case EstimateKind::kCalibrated: return fmt::format("calibrated:{}", sigma);
    case EstimateKind::kClassMean: return "class-mean";
    case EstimateKind::kLengths: return "lengths";
    case EstimateKind::kNone: break;
  }
  return "none";
}

Estimator::Estimator(const Workload& workload, EstimateSpec spec, std::uint64_t seed)
    : workload_(&workload), spec_(spec), seed_(seed) {
  if (spec_.kind == EstimateKind::kNone) return;
  ended_.resize(workload.calls.size());
  if (spec_.kind == EstimateKind::kCalibrated) FitPrior();
  if (spec_.kind == EstimateKind::kClassMean) FindClasses();
}

void Estimator::FitPrior() {
  double sum = 0, squares = 0;
  for (const WorkloadCall& call : workload_->calls) sum += std::log(std::max(call.output_tokens, 1));
  const double n = static_cast<double>(std::max<std::size_t>(workload_->calls.size(), 1));
  prior_mean_ = sum / n;
  for (const WorkloadCall& call : workload_->calls) {
    const double off = std::log(std::max(call.output_tokens, 1)) - prior_mean_;
    squares += off * off;
  }
  prior_variance_ = squares / n;
}

void Estimator::FindClasses() {
  std::vector<ClassKey> keys;
  keys.reserve(workload_->calls.size());
  for (const WorkloadWorkflow& workflow : workload_->workflows) {
    for (const WorkloadCall& call : workload_->calls_of(workflow)) keys.push_back(KeyOf(workflow, call));
  }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  class_of_.resize(workload_->calls.size());
  for (const WorkloadWorkflow& workflow : workload_->workflows) {
    for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
      const auto at = std::lower_bound(keys.begin(), keys.end(), KeyOf(workflow, workload_->calls[c]));
      class_of_[c] = static_cast<std::uint32_t>(at - keys.begin());
    }
  }
  classes_.resize(keys.size());
  left_at_arrival_.resize(workload_->calls.size());
  tools_.emplace();
}

Estimator::Belief Estimator::BeliefOf(std::uint32_t call) const {
  const double truth = OutputOf(call);
  if (spec_.kind == EstimateKind::kOracle) return {truth, 0};
  const double z = NormalOf(seed_, call);
  if (spec_.kind != EstimateKind::kCalibrated) return {truth * ErrorFactor(spec_, z), 0};
  // Normal prior, normal observation, in logs.
  const double noise = spec_.sigma * spec_.sigma;
  const double total = prior_variance_ + noise;
  const double weight = total > 0 ? prior_variance_ / total : 1;  // of the observation
  const double observed = std::log(std::max(truth, 1.0)) + spec_.sigma * z;
  const double mu = prior_mean_ + weight * (observed - prior_mean_);
  const double variance = weight * noise;
  const double mean = std::exp(mu + variance / 2);
  return {mean, mean * mean * std::expm1(variance)};
}

template <class Visit>
void Estimator::ForCallsLeft(const WorkloadWorkflow& workflow, Visit visit) const {
  for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
    if (!ended_[c]) visit(c);
  }
}

void Estimator::Describe(std::uint32_t workflow_index, std::uint32_t call, Request& request) {
  const WorkloadWorkflow& workflow = workload_->workflows[workflow_index];
  switch (spec_.kind) {
    case EstimateKind::kNone: return;
    case EstimateKind::kOracle:
    case EstimateKind::kNoise:
    case EstimateKind::kGaussian:
    case EstimateKind::kCalibrated: {
      const Belief own = BeliefOf(call);
      Belief left;
      ForCallsLeft(workflow, [&](std::uint32_t c) {
        const Belief belief = c == call ? own : BeliefOf(c);
        left.mean += belief.mean;
        left.variance += belief.variance;
      });
      request.output_tokens = LogNormalEstimate(own.mean, own.variance);
      request.workflow_tokens_left = LogNormalEstimate(left.mean, left.variance);
      return;
    }
    case EstimateKind::kLengths:
      request.output_tokens = lengths_.Expect(request.stage, request.prompt_tokens.value);
      return;
    case EstimateKind::kClassMean: {
      std::int64_t left = 0;
      ForCallsLeft(workflow, [&](std::uint32_t c) { left += OutputOf(c); });
      left_at_arrival_[call] = left;  // for later: not read before the workflow has ended
      const ClassMeans& own = classes_[class_of_[call]];
      const double output = own.output.count > 0 ? own.output.value() : all_.output.value();
      const double ahead = own.left.count > 0 ? own.left.value() : all_.left.value();
      if (output >= 0) request.output_tokens = Estimate::Exact(output);
      if (ahead >= 0) request.workflow_tokens_left = Estimate::Exact(ahead);
      return;
    }
  }
}

void Estimator::Ended(std::uint32_t workflow_index, std::uint32_t call) {
  if (spec_.kind == EstimateKind::kNone) return;
  ended_[call] = true;
  if (spec_.kind == EstimateKind::kLengths) {
    const WorkloadCall& ended = workload_->calls[call];
    lengths_.Observe({ended.stage}, ended.prompt_tokens, ended.output_tokens);
  }
  if (spec_.kind != EstimateKind::kClassMean) return;
  classes_[class_of_[call]].output.Add(OutputOf(call));
  all_.output.Add(OutputOf(call));
  const WorkloadWorkflow& workflow = workload_->workflows[workflow_index];
  bool over = true;
  ForCallsLeft(workflow, [&](std::uint32_t) { over = false; });
  if (!over) return;
  for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
    const auto left = static_cast<double>(left_at_arrival_[c]);
    classes_[class_of_[c]].left.Add(left);
    all_.left.Add(left);
  }
}

NextCall Estimator::Tool(std::uint32_t index, std::int32_t generated) const {
  const WorkloadTool& tool = workload_->tools[index];
  const auto tokens = [](double count) { return Tokens{static_cast<std::int32_t>(std::clamp(count, 0.0, 1e9))}; };
  NextCall next{.tool = {std::uint64_t{tool.name} + 1}};
  switch (spec_.kind) {
    case EstimateKind::kLengths:
    case EstimateKind::kNone: return {};
    case EstimateKind::kOracle:
    case EstimateKind::kNoise:
    case EstimateKind::kGaussian:
    case EstimateKind::kCalibrated: {
      const bool noisy = spec_.kind != EstimateKind::kOracle;
      const double call = noisy ? ErrorFactor(spec_, NormalOf(seed_ ^ kToolNoise, index)) : 1;
      const double output = noisy ? ErrorFactor(spec_, NormalOf(seed_ ^ kOutputNoise, index)) : 1;
      next.after = tokens(output * (tool.after_tokens - generated));
      next.returned = tokens(call * tool.returned_tokens);
      next.duration = FromSeconds(std::min(call * ToSeconds(tool.duration), 1e9));
      return next;
    }
    case EstimateKind::kClassMean: {
      const ToolExpectation& expected = tools_->Expect(next.tool);
      if (!expected.seconds.known()) return {};
      next.after = tokens(expected.tokens_before.mean);
      next.returned = tokens(expected.returned_tokens.mean);
      next.duration = FromSeconds(expected.seconds.mean);
      return next;
    }
  }
  return {};
}

void Estimator::ToolEnded(std::uint32_t index, std::int32_t generated) {
  if (spec_.kind != EstimateKind::kClassMean) return;
  const WorkloadTool& tool = workload_->tools[index];
  tools_->Observe({.tool = {std::uint64_t{tool.name} + 1},
                   .seconds = ToSeconds(tool.duration),
                   .returned_tokens = tool.returned_tokens,
                   .tokens_before = std::max(tool.after_tokens - generated, 0)});
}

}  // namespace takt
