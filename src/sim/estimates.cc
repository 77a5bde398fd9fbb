#include "takt/sim/estimates.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <span>
#include <tuple>

#include "takt/base/exact_math.h"
#include "takt/base/random.h"

namespace takt {
namespace {

// Returns a standard normal number for (seed, index), by Marsaglia's polar method on hashed bits. No generator needs
// seeding per call.
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
    if (s > 0 && s < 1) return u * std::sqrt(-2 * exact::Log(s) / s);
  }
}

// Returns the ratio of a noisy prediction to the true value.
double ErrorFactor(const EstimateSpec& spec, double z) {
  return spec.kind == EstimateKind::kGaussian ? std::max(0.0, 1 + spec.sigma * z) : exact::Exp(spec.sigma * z);
}

// Salts that make a tool call's errors differ from those of a request.
constexpr std::uint64_t kToolNoise = 0x746f6f6cu, kOutputNoise = 0x6f757470u;

// Key of a class of calls. The bucket separates calls without a name.
using ClassKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

ClassKey KeyOf(const WorkloadWorkflow& workflow, const WorkloadCall& call) {
  const bool nameless = call.stage == 0 && call.agent == 0;
  const auto prompt = static_cast<std::uint32_t>(std::max(call.prompt_tokens, 0));
  return {workflow.name, call.stage, call.agent, nameless ? static_cast<std::uint32_t>(std::bit_width(prompt)) : 0};
}

}  // namespace

absl::StatusOr<EstimateSpec> EstimateSpec::Parse(std::string_view text) {
  const auto fail = [text](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format(
        "estimates '{}': {}; expected one of oracle, noise:SIGMA, gaussian:SIGMA, calibrated:SIGMA, class-mean, "
        "lengths, forest, none, and learnt(KIND)",
        text, why));
  };
  if (constexpr std::string_view kLearnt = "learnt("; text.starts_with(kLearnt) && text.ends_with(")")) {
    absl::StatusOr<EstimateSpec> inner = Parse(text.substr(kLearnt.size(), text.size() - kLearnt.size() - 1));
    if (!inner.ok()) return inner;
    if (inner->learnt || inner->kind == EstimateKind::kNone) return fail("learnt needs a kind with estimates");
    inner->learnt = true;
    return inner;
  }
  if (text == "oracle") return EstimateSpec{EstimateKind::kOracle, 0};
  if (text == "class-mean") return EstimateSpec{EstimateKind::kClassMean, 0};
  if (text == "lengths") return EstimateSpec{EstimateKind::kLengths, 0};
  if (text == "forest") return EstimateSpec{EstimateKind::kForest, 0};
  if (text == "none") return EstimateSpec{EstimateKind::kNone, 0};
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const EstimateKind kind = name == "noise"        ? EstimateKind::kNoise
                            : name == "gaussian"   ? EstimateKind::kGaussian
                            : name == "calibrated" ? EstimateKind::kCalibrated
                                                   : EstimateKind::kNone;
  if (kind == EstimateKind::kNone) return fail("unknown kind");
  if (colon == std::string_view::npos) return fail("sigma is missing");
  const std::string_view number = text.substr(colon + 1);
  double sigma = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), sigma);
  if (error != std::errc() || end != number.data() + number.size()) return fail("sigma is invalid; expected a number");
  if (!(sigma >= 0 && sigma <= 10)) return fail("sigma is invalid; expected 0 to 10");
  return EstimateSpec{kind, sigma};
}

std::string EstimateSpec::ToString() const {
  if (learnt) return "learnt(" + EstimateSpec{kind, sigma}.ToString() + ")";
  switch (kind) {
    case EstimateKind::kOracle: return "oracle";
    case EstimateKind::kNoise: return fmt::format("noise:{}", sigma);
    case EstimateKind::kGaussian: return fmt::format("gaussian:{}", sigma);
    case EstimateKind::kCalibrated: return fmt::format("calibrated:{}", sigma);
    case EstimateKind::kClassMean: return "class-mean";
    case EstimateKind::kLengths: return "lengths";
    case EstimateKind::kForest: return "forest";
    case EstimateKind::kNone: break;
  }
  return "none";
}

Estimator::Estimator(const Workload& workload, EstimateSpec spec, std::uint64_t seed)
    : workload_(&workload), spec_(spec), seed_(seed) {
  if (spec_.kind == EstimateKind::kNone) return;
  ended_.resize(workload.calls.size(), kRuns);
  shown_.resize(workload.calls.size());
  outputs_.resize(workload.calls.size(), -1);
  generated_.resize(workload.workflows.size());
  if (spec_.learnt) calibrations_.resize(workload.models.size() + 1);
  if (spec_.kind == EstimateKind::kCalibrated) FitPriors();
  if (learns_classes()) FindClasses();
  if (spec_.kind == EstimateKind::kForest) PlantForests();
}

void Estimator::FitPriors() {
  const double n = static_cast<double>(std::max<std::size_t>(workload_->calls.size(), 1));
  for (model_ = 0; model_ <= workload_->models.size(); ++model_) {
    double sum = 0, squares = 0;
    for (std::uint32_t c = 0; c < workload_->calls.size(); ++c) sum += exact::Log(std::max(OutputOf(c), 1));
    const double mean = sum / n;
    for (std::uint32_t c = 0; c < workload_->calls.size(); ++c) {
      const double off = exact::Log(std::max(OutputOf(c), 1)) - mean;
      squares += off * off;
    }
    priors_.push_back({mean, squares / n});
  }
  model_ = Workload::kNoModel;
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
  const std::size_t columns = workload_->models.size() + 1;
  classes_.resize(keys.size() * columns);
  all_.resize(columns);
  tools_.emplace();
}

Estimator::Belief Estimator::BeliefOf(std::uint32_t call) const {
  const double truth = OutputOf(call);
  if (spec_.kind == EstimateKind::kOracle) return {truth, 0};
  const double z = NormalOf(seed_, call);
  if (spec_.kind != EstimateKind::kCalibrated) return {truth * ErrorFactor(spec_, z), 0};
  // Normal prior and normal observation, in logarithms.
  const double noise = spec_.sigma * spec_.sigma;
  const Prior& prior = priors_[column()];
  const double total = prior.variance + noise;
  const double weight = total > 0 ? prior.variance / total : 1;  // weight of the observation
  const double observed = exact::Log(std::max(truth, 1.0)) + spec_.sigma * z;
  const double mu = prior.mean + weight * (observed - prior.mean);
  const double variance = weight * noise;
  const double mean = exact::Exp(mu + variance / 2);
  return {mean, mean * mean * exact::Expm1(variance)};
}

template <class Visit>
void Estimator::ForCallsLeft(const WorkloadWorkflow& workflow, std::uint32_t since, Visit visit) const {
  for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
    if (ended_[c] >= since) visit(c);
  }
}

// Sums over the calls that remain, except this one.
template <class BeliefOfCall>
WorkAfter Estimator::AfterOf(const WorkloadWorkflow& workflow, std::uint32_t call, std::uint32_t since,
                             BeliefOfCall belief_of) {
  WorkAfter after{0, 0, 0, 0, 0};
  if (workflow.calls == 1) return after;
  path_.assign(workflow.calls, -1);  // output up to the end of calls that wait for this call
  path_[call - workflow.first_call] = 0;
  ForCallsLeft(workflow, since, [&](std::uint32_t c) {
    if (c == call) return;
    const WorkloadCall& other = workload_->calls[c];
    const Belief belief = belief_of(c);
    const double error = belief.mean / std::max<double>(OutputOf(c), 1);
    double prompt = PromptOf(c);
    double kv = belief.mean * prompt + (belief.mean * belief.mean + belief.variance) / 2;
    for (const WorkloadTool& tool : workload_->tools_of(other)) {
      prompt += tool.returned_tokens;
      kv += error * tool.returned_tokens * std::max(other.output_tokens - tool.after_tokens, 0);
    }
    after.calls += 1;
    after.prompt_tokens += error * prompt;
    after.output_tokens += belief.mean;
    after.kv_steps += kv;
    double before = -1;
    for (const std::uint32_t b : workload_->predecessors_of(other)) before = std::max(before, path_[b]);
    if (before < 0) return;
    after.path_tokens = std::max(after.path_tokens, path_[c - workflow.first_call] = before + belief.mean);
  });
  return after;
}

void Estimator::Describe(std::uint32_t workflow, std::uint32_t call, Request& request, std::size_t model) {
  if (forecasts_ != nullptr && !forecasts_->scores.empty() && request.scores.empty()) Score(workflow, call, request);
  model_ = model;
  Expect(workflow, call, request);
  if (spec_.kind == EstimateKind::kNone) return;
  Shown& shown = shown_[call];
  shown = Show(workflow, request);
  shown.column = column();
  shown.prompt_tokens = request.prompt_tokens.value;
  shown.since = ends_;
}

// Sets the expected values, or the values learned from them.
Estimator::Shown Estimator::Show(std::uint32_t workflow, Request& request) const {
  Shown shown{.raw_output = request.output_tokens.mean,
              .raw_left = request.workflow_tokens_left.mean,
              .generated = generated_[workflow]};
  if (spec_.learnt) {
    const Calibrations& known = calibrations_[column()];
    request.output_tokens = known.output.Expect(shown.raw_output, shown.generated);
    request.workflow_tokens_left = known.left.Expect(shown.raw_left, shown.generated);
    if (WorkAfter& after = request.after; after.known() && after.output_tokens > 0) {
      const double rest = std::max(request.workflow_tokens_left.mean - request.output_tokens.mean, 0.0);
      const double factor = std::clamp(rest / after.output_tokens, 0.01, 100.0);
      after.output_tokens = rest;
      for (double* work : {&after.prompt_tokens, &after.kv_steps, &after.path_tokens}) *work *= factor;
    }
  }
  shown.output = request.output_tokens.mean;
  shown.left = request.workflow_tokens_left.mean;
  return shown;
}

// Sets the scores of each model, for placements that choose among models.
void Estimator::Score(std::uint32_t workflow, std::uint32_t call, Request& request) {
  scores_.clear();
  for (const std::size_t m : scored_) {
    model_ = m;
    Request on_model;
    on_model.stage = request.stage;
    on_model.prompt_tokens = request.prompt_tokens;
    Expect(workflow, call, on_model);
    if (spec_.learnt) Show(workflow, on_model);
    const Estimate& left = on_model.workflow_tokens_left;
    const float score = forecasts_->scores[workflow * workload_->models.size() + m];
    scores_.push_back({{m + 1}, score, left.known() ? static_cast<float>(left.Quantile(0.5)) : -1});
  }
  request.scores = scores_;
}

absl::Status Estimator::Use(std::shared_ptr<const Forecasts> forecasts, std::vector<std::size_t> models) {
  const std::size_t columns = workload_->models.size();
  const auto fits = [&](std::size_t size, std::size_t rows) { return size == 0 || size == rows * columns; };
  if (!fits(forecasts->output.size(), workload_->calls.size()) ||
      !fits(forecasts->left.size(), workload_->calls.size()) ||
      !fits(forecasts->scores.size(), workload_->workflows.size())) {
    return absl::InvalidArgumentError(fmt::format(
        "forecasts: {} outputs, {} remaining outputs and {} scores do not fit {} calls and {} workflows on {} models",
        forecasts->output.size(), forecasts->left.size(), forecasts->scores.size(), workload_->calls.size(),
        workload_->workflows.size(), columns));
  }
  forecasts_ = std::move(forecasts);
  scored_ = std::move(models);
  std::erase_if(scored_, [&](std::size_t m) { return m >= columns; });
  return absl::OkStatus();
}

void Estimator::Expect(std::uint32_t workflow_index, std::uint32_t call, Request& request) {
  ExpectByKind(workflow_index, call, request);
  if (forecasts_ == nullptr || model_ >= workload_->models.size()) return;
  const std::size_t at = call * workload_->models.size() + model_;
  if (!forecasts_->output.empty()) request.output_tokens = forecasts_->output[at];
  if (!forecasts_->left.empty()) request.workflow_tokens_left = forecasts_->left[at];
}

void Estimator::ExpectByKind(std::uint32_t workflow_index, std::uint32_t call, Request& request) {
  const WorkloadWorkflow& workflow = workload_->workflows[workflow_index];
  switch (spec_.kind) {
    case EstimateKind::kNone: return;
    case EstimateKind::kOracle:
    case EstimateKind::kNoise:
    case EstimateKind::kGaussian:
    case EstimateKind::kCalibrated: {
      const Belief own = BeliefOf(call);
      Belief left;
      ForCallsLeft(workflow, ends_, [&](std::uint32_t c) {
        const Belief belief = c == call ? own : BeliefOf(c);
        left.mean += belief.mean;
        left.variance += belief.variance;
      });
      request.output_tokens = own.ToEstimate();
      request.workflow_tokens_left = left.ToEstimate();
      request.after = AfterOf(workflow, call, ends_, [this](std::uint32_t c) { return BeliefOf(c); });
      return;
    }
    case EstimateKind::kLengths:
      request.output_tokens = lengths_.Expect(SiteOf(call), request.prompt_tokens.value);
      return;
    case EstimateKind::kClassMean:
    case EstimateKind::kForest:
      DescribeByClass(call, request);
      if (forests_) DescribeByForest(workflow_index, call, request);
      return;
  }
}

void Estimator::DescribeByClass(std::uint32_t call, Request& request) {
  const ClassMeans &own = ClassOf(call), &all = all_[column()];
  const ClassMeans& ended = own.left.count > 0 ? own : all;
  const double output = own.output.count > 0 ? own.output.value() : all.output.value();
  const double left = ended.left.value();
  if (output >= 0) request.output_tokens = Estimate::Exact(output);
  if (left < 0) return;
  request.workflow_tokens_left = Estimate::Exact(left);
  request.after = {ended.calls_after.value(), ended.prompt_after.value(), std::max(left - output, 0.0),
                   ended.kv_after.value(), ended.path_after.value()};
}

void Estimator::DescribeByForest(std::uint32_t workflow_index, std::uint32_t call, Request& request) {
  const WorkloadWorkflow& workflow = workload_->workflows[workflow_index];
  const WorkloadCall& made = workload_->calls[call];
  LengthInput& input = forests_->inputs[call];
  input = {.kind = workflow.name,
           .stage = {std::uint64_t{made.stage} << 32 | made.agent},
           .prompt_tokens = request.prompt_tokens,
           .sketch = workload_->features_of(call)};
  for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
    input.calls_before += ended_[c] == kRuns ? 0 : 1;
  }
  input.tokens_before = {static_cast<std::int32_t>(std::min(generated_[workflow_index], 2e9))};
  if (forests_->left_now == nullptr || forests_->left_now->Of({column()}) == nullptr) return;
  const LengthForest::Query query{{column()}, input, {-1}};
  request.workflow_tokens_left = forests_->left_now->Predict(query, forests_->scratch);
  request.output_tokens = forests_->output_now->Predict(query, forests_->scratch);
  WorkAfter& after = request.after;
  const double output = std::max(request.workflow_tokens_left.mean - request.output_tokens.mean, 0.0);
  const double ratio = after.output_tokens > 0 ? output / after.output_tokens : 1;
  after.output_tokens = output;
  after.kv_steps *= ratio;
  after.path_tokens *= ratio;
}

void Estimator::Ended(std::uint32_t workflow_index, std::uint32_t call, std::size_t model) {
  if (spec_.kind == EstimateKind::kNone) return;
  model_ = model;
  outputs_[call] = workload_->OutputOf(call, model);
  ended_[call] = ends_++;
  generated_[workflow_index] += OutputOf(call);
  const Shown& shown = shown_[call];
  checks_.output.Observe(shown.output, OutputOf(call));
  if (spec_.learnt) checks_.raw_output.Observe(shown.raw_output, OutputOf(call));
  if (spec_.learnt) {
    calibrations_[shown.column].output.Observe(shown.raw_output, shown.generated, OutputOf(call), shown.generated > 0);
  }
  if (spec_.kind == EstimateKind::kLengths) {
    lengths_.Observe(SiteOf(call), PromptOf(call), OutputOf(call));
  }
  if (learns_classes()) {
    ClassOf(call).output.Add(OutputOf(call));
    all_[column()].output.Add(OutputOf(call));
  }
  const WorkloadWorkflow& workflow = workload_->workflows[workflow_index];
  bool over = true;
  ForCallsLeft(workflow, ends_, [&](std::uint32_t) { over = false; });
  if (!over) return;
  CheckLeft(workflow);
  if (learns_classes()) LearnClasses(workflow);
  if (forests_) LearnForests(workflow);
}

// Returns the output since the call was made, by the call and by all calls that had not ended then, on any model.
double Estimator::LeftOf(const WorkloadWorkflow& workflow, std::uint32_t call) const {
  double left = 0;
  ForCallsLeft(workflow, shown_[call].since, [&](std::uint32_t c) { left += OutputOf(c); });
  return left;
}

void Estimator::CheckLeft(const WorkloadWorkflow& workflow) {
  for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
    const Shown& shown = shown_[c];
    const double left = LeftOf(workflow, c);
    checks_.left.Observe(shown.left, left);
    if (spec_.learnt) checks_.raw_left.Observe(shown.raw_left, left);
    if (!spec_.learnt) continue;
    calibrations_[shown.column].left.Observe(shown.raw_left, shown.generated, left, shown.generated > 0);
  }
}

EstimateErrors Estimator::errors() const {
  const CalibrationCheck& raw_output = spec_.learnt ? checks_.raw_output : checks_.output;
  const CalibrationCheck& raw_left = spec_.learnt ? checks_.raw_left : checks_.left;
  return {checks_.output.error(), checks_.left.error(), raw_output.error(), raw_left.error()};
}

void Estimator::LearnClasses(const WorkloadWorkflow& workflow) {
  for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
    model_ = shown_[c].column;
    const WorkAfter after = AfterOf(workflow, c, shown_[c].since, [this](std::uint32_t other) {
      return Belief{static_cast<double>(OutputOf(other)), 0};
    });
    for (ClassMeans* means : {&ClassOf(c), &all_[column()]}) {
      means->left.Add(after.output_tokens + OutputOf(c));
      means->calls_after.Add(after.calls);
      means->prompt_after.Add(after.prompt_tokens);
      means->kv_after.Add(after.kv_steps);
      means->path_after.Add(after.path_tokens);
    }
  }
}

void Estimator::PlantForests() {
  LengthForestOptions options{.sketch = workload_->feature_names.size(),
                              .reservoir = 8000,
                              .seed = seed_,
                              .forest = {.trees = 50, .seed = seed_}};
  forests_.emplace(Forests{LengthLearner(options), LengthLearner(options)});
  forests_->inputs.resize(workload_->calls.size());
}

void Estimator::LearnForests(const WorkloadWorkflow& workflow) {
  Forests& f = *forests_;
  const auto number = static_cast<std::uint64_t>(&workflow - workload_->workflows.data()) + 1;
  for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
    model_ = shown_[c].column;
    const double left = std::min(LeftOf(workflow, c), 2e9);
    const FinishedCall own{f.inputs[c], {OutputOf(c)}}, all{f.inputs[c], {static_cast<std::int32_t>(left)}};
    f.output.Finished({column()}, std::span(&own, 1), number);
    f.left.Finished({column()}, std::span(&all, 1), number);
  }
  if (++f.ended < f.refresh_at) return;
  f.refresh_at = 2 * f.ended;
  f.output_now = f.output.Train().value_or(f.output_now);
  f.left_now = f.left.Train().value_or(f.left_now);
}

NextCall Estimator::Tool(std::uint32_t index, std::int32_t generated) const {
  const WorkloadTool& tool = workload_->tools[index];
  const auto tokens = [](double count) { return Tokens{static_cast<std::int32_t>(std::clamp(count, 0.0, 1e9))}; };
  NextCall next{.tool = {std::uint64_t{tool.name} + 1}};
  switch (spec_.kind) {
    case EstimateKind::kLengths:
    case EstimateKind::kNone: return next;
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
    case EstimateKind::kClassMean:
    case EstimateKind::kForest: {
      const ToolExpectation& expected = tools_->Expect(next.tool);
      if (!expected.seconds.known()) return next;
      next.after = tokens(expected.tokens_before.mean);
      next.returned = tokens(expected.returned_tokens.mean);
      next.duration = FromSeconds(expected.seconds.mean);
      return next;
    }
  }
  return {};
}

void Estimator::ToolEnded(std::uint32_t index, std::int32_t generated) {
  if (!learns_classes()) return;
  const WorkloadTool& tool = workload_->tools[index];
  tools_->Observe({.tool = {std::uint64_t{tool.name} + 1},
                   .seconds = ToSeconds(tool.duration),
                   .returned_tokens = tool.returned_tokens,
                   .tokens_before = std::max(tool.after_tokens - generated, 0)});
}

}  // namespace takt
