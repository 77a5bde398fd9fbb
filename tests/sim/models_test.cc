// Engines of different models generate the workload's outputs for their model. No estimate knows an unseen output.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/placement/registry.h"
#include "takt/policy/registry.h"
#include "takt/sim/estimates.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"

namespace takt {
namespace {

Workload Apps(int workflows) { return *GenerateWorkload("gen:apps,workflows=" + std::to_string(workflows)); }

Profile A6000(const std::string& model) {
  const absl::StatusOr<Profile> profile = FindProfile("derived/" + model + "/a6000/bf16/tp1");
  REQUIRE(profile.ok());
  return *profile;
}

ReplayOptions Pair(const std::string& placement) {
  ReplayOptions options;
  options.engines = {A6000("qwen2.5-1.5b"), A6000("qwen2.5-7b")};
  options.engine.limits = {.tokens = {2048}, .max_seqs = 256};
  options.placement = *MakePlacement(placement);
  options.policy = *MakePolicyFactory("stjf");
  return options;
}

// The 7B solves everything, the 1.5B nothing.
std::shared_ptr<Forecasts> TrustLarge(const Workload& w) {
  auto forecasts = std::make_shared<Forecasts>();
  forecasts->scores.resize(w.workflows.size() * w.models.size());
  for (std::size_t i = 0; i < w.workflows.size(); ++i) {
    forecasts->scores[i * w.models.size() + w.ModelIndex("qwen2.5-7b")] = 1;
  }
  return forecasts;
}

ReplayResult Run(const Workload& w, const ReplayOptions& options) {
  absl::StatusOr<ReplayResult> result = Replay(w, options);
  INFO(std::string(result.status().message()));
  REQUIRE(result.ok());
  return *std::move(result);
}

double SolvedBy(const Workload& w, const char* model) {
  double solved = 0;
  for (const WorkloadWorkflow& f : w.workflows) solved += f.solved_by >> w.ModelIndex(model) & 1;
  return solved / static_cast<double>(w.workflows.size());
}

TEST_CASE("an engine generates its model's outputs, or else the calls' own") {
  const Workload w = Apps(60);
  for (const char* model : {"qwen2.5-14b", "llama-3.2-3b", "llama-3.1-8b"}) {
    ReplayOptions options;
    options.profile = A6000(model);
    const ReplayResult result = Run(w, options);
    const std::size_t m = w.ModelIndex(model);
    for (std::size_t c = 0; c < w.calls.size(); ++c) CHECK(result.requests[c].output_tokens == w.OutputOf(c, m));
    REQUIRE(result.metrics.score);
    CHECK(*result.metrics.score == (m != Workload::kNoModel ? Approx(SolvedBy(w, model)) : Approx(0)));
    CHECK(result.metrics.workflow_per_token.count == 60);
  }
  ReplayOptions options;
  options.profile = A6000("qwen2.5-7b");
  options.limit = 5;
  CHECK_FALSE(Run(BundledWorkload(), options).metrics.score);
}

TEST_CASE("a workflow keeps its model, and has that model's score") {
  const Workload w = Apps(200);
  const ReplayResult result = Run(w, Pair("confidence_slack"));
  double solved = 0;
  for (const WorkloadWorkflow& f : w.workflows) {
    const std::uint16_t instance = result.requests[f.first_call].instance;
    for (std::uint32_t c = f.first_call; c < f.first_call + f.calls; ++c) {
      CHECK(result.requests[c].instance == instance);
      CHECK(result.requests[c].output_tokens ==
            w.OutputOf(c, w.ModelIndex(instance == 0 ? "qwen2.5-1.5b" : "qwen2.5-7b")));
    }
    solved += f.solved_by >> w.ModelIndex(instance == 0 ? "qwen2.5-1.5b" : "qwen2.5-7b") & 1;
  }
  CHECK(*result.metrics.score == Approx(solved / 200));
}

TEST_CASE("scores reach the placement") {
  const Workload w = Apps(200);
  ReplayOptions options = Pair("confidence_slack(tau=1e9,floor_s=1e9)");
  options.forecasts = TrustLarge(w);
  const ReplayResult large = Run(w, options);
  for (const RequestRecord& r : large.requests) CHECK(r.instance == 1);
  CHECK(*large.metrics.score == Approx(SolvedBy(w, "qwen2.5-7b")));
  options.placement = *MakePlacement("confidence_slack(tau=0)");
  const ReplayResult spread = Run(w, options);
  CHECK(std::ranges::any_of(spread.requests, [](const RequestRecord& r) { return r.instance == 0; }));
}

TEST_CASE("forecasts of another size are refused") {
  const Workload w = Apps(20);
  for (int field = 0; field < 3; ++field) {
    auto wrong = std::make_shared<Forecasts>();
    if (field == 0) wrong->output.resize(5);
    if (field == 1) wrong->left.resize(w.calls.size());
    if (field == 2) wrong->scores.resize(w.calls.size() * w.models.size());
    ReplayOptions options = Pair("confidence_slack");
    options.forecasts = wrong;
    CHECK(Replay(w, options).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("estimates are for the engine's model") {
  const Workload w = Apps(30);
  const std::size_t small = w.ModelIndex("qwen2.5-1.5b"), large = w.ModelIndex("ministral-8b");
  const std::uint32_t call = w.workflows[3].first_call;
  const auto left = [&](std::size_t m) {
    double sum = 0;
    for (std::uint32_t c = call; c < call + w.workflows[3].calls; ++c) sum += w.OutputOf(c, m);
    return sum;
  };
  Estimator oracle(w, {EstimateKind::kOracle, 0}, 1);
  Request r;
  oracle.Describe(3, call, r);
  CHECK(r.output_tokens.mean == w.calls[call].output_tokens);
  for (const std::size_t m : {small, large}) {
    oracle.Describe(3, call, r, m);
    CHECK(r.output_tokens.mean == w.OutputOf(call, m));
    CHECK(r.workflow_tokens_left.mean == left(m));
  }

  // A prior of the model alone: with an unbounded error nothing else remains.
  Estimator calibrated(w, {EstimateKind::kCalibrated, 10}, 1);
  Request a, b;
  calibrated.Describe(3, call, a, small);
  calibrated.Describe(3, call, b, large);
  CHECK(b.output_tokens.Quantile(0.5) > 3 * a.output_tokens.Quantile(0.5));

  // Calls that ended on a model inform estimates for that model.
  Estimator means(w, {EstimateKind::kClassMean, 0}, 1);
  for (std::uint32_t c = call; c < call + w.workflows[3].calls; ++c) {
    means.Describe(3, c, r, small);
    means.Ended(3, c, small);
  }
  Request on_small, on_large;
  means.Describe(3, call, on_small, small);
  means.Describe(3, call, on_large, large);
  CHECK(on_small.output_tokens.mean == w.OutputOf(call, small));
  CHECK(on_small.workflow_tokens_left.mean == left(small));
  CHECK_FALSE(on_large.output_tokens.known());

  auto forecasts = std::make_shared<Forecasts>();
  forecasts->left.assign(w.calls.size() * w.models.size(), Estimate::Exact(7));
  forecasts->left[call * w.models.size() + large] = Estimate::Exact(9);
  forecasts->scores.assign(w.workflows.size() * w.models.size(), 0.25f);
  REQUIRE(oracle.Use(forecasts, {small, large, Workload::kNoModel}).ok());
  Request described;
  oracle.Describe(3, call, described);
  REQUIRE(described.scores.size() == 2);
  CHECK(described.scores[0].model == ModelId{small + 1});
  CHECK(described.scores[0].tokens == 7);
  CHECK(described.scores[1].tokens == 9);
  CHECK(described.scores[1].score == 0.25f);
  oracle.Describe(3, call, described, large);
  CHECK(described.workflow_tokens_left.mean == 9);
  CHECK(described.output_tokens.mean == w.OutputOf(call, large));  // it has no forecast
}

// Chains of three calls on two models. Each call runs on a random one and has random lengths on both.
struct TwoModels {
  static constexpr std::uint32_t kWorkflows = 300, kCalls = 3;
  Workload workload;
  std::vector<std::size_t> ran_on;  // by call

  TwoModels() {
    Random random(5);
    Workload& w = workload;
    w.models = {"a", "b"};
    w.names = {"", "first", "second", "third"};
    for (std::uint32_t i = 0; i < kWorkflows; ++i) {
      w.workflows.push_back({});
      w.workflows.back().first_call = i * kCalls, w.workflows.back().calls = kCalls;
      for (std::uint32_t c = 0; c < kCalls; ++c) {
        WorkloadCall& call = w.calls.emplace_back();
        call.prompt_tokens = 100, call.output_tokens = 10, call.stage = 1 + c;
        call.first_predecessor = static_cast<std::uint32_t>(w.predecessors.size());
        if (c > 0) call.predecessors = 1, w.predecessors.push_back(c - 1);
        for (int m = 0; m < 2; ++m) w.model_tokens.push_back(10 + static_cast<std::int32_t>(random.Below(1000)));
        ran_on.push_back(random.Below(2));
      }
    }
  }

  // Estimates of every call at its placement, on both models.
  std::vector<double> Told(const std::string& kind) const {
    Estimator estimator(workload, *EstimateSpec::Parse(kind), 1);
    std::vector<double> described;
    for (std::uint32_t c = 0; c < kWorkflows * kCalls; ++c) {
      for (const std::size_t model : {1 - ran_on[c], ran_on[c]}) {
        Request r;
        r.prompt_tokens = {100 + static_cast<std::int32_t>(c % 7)};
        estimator.Describe(c / kCalls, c, r, model);
        for (const double mean : {r.output_tokens.mean, r.workflow_tokens_left.mean, r.after.prompt_tokens,
                                  r.after.output_tokens, r.after.kv_steps, r.after.path_tokens}) {
          described.push_back(mean);
        }
      }
      estimator.Ended(c / kCalls, c, ran_on[c]);
    }
    const EstimateErrors errors = estimator.errors();
    described.insert(described.end(), {errors.left.by_octave, errors.raw_left.by_octave});
    return described;
  }
};

TEST_CASE("a call's output on a model that it skipped stays hidden") {
  TwoModels seen, other;
  Random random(9);
  for (std::size_t c = 0; c < other.ran_on.size(); ++c) {
    other.workload.model_tokens[2 * c + 1 - other.ran_on[c]] = 5 + static_cast<std::int32_t>(random.Below(3000));
    other.workload.calls[c].output_tokens = 77;
    other.workload.calls[c].prompt_tokens = 3000;
  }
  for (const char* kind : {"class-mean", "lengths", "forest", "learnt(class-mean)", "learnt(forest)"}) {
    INFO(kind);
    const std::vector<double> described = seen.Told(kind);
    CHECK(std::ranges::count_if(described, [](double x) { return x > 0; }) > 1000);
    CHECK((described == other.Told(kind)));
  }
}

TEST_CASE("a model's output is part of the workflow's later prompts") {
  const std::string head = R"({"takt_workload": 1, "models": ["qwen2.5-7b"]})";
  const auto took = [&](int output) {
    const absl::StatusOr<Workload> w = ParseWorkload(
        head + "\n" + R"({"arrival_s": 0, "calls": [{"prompt": 50, "output": 10, "outputs": [)" +
            std::to_string(output) + R"(]}, {"prompt": 500, "output": 20, "outputs": [20], "after": [0]}]})",
        "t");
    REQUIRE(w.ok());
    ReplayOptions options;
    options.profile = A6000("qwen2.5-7b");
    options.engine.limits.tokens = {1 << 14};
    std::int32_t prefill = 0;
    options.cluster.on_step = [&](const VirtualStep& step) { prefill = std::max(prefill, step.plan.run[0].tokens); };
    Run(*w, options);
    return prefill;
  };
  CHECK(took(10) == 500);
  CHECK(took(310) == 800);
  CHECK(took(1) == 491);
}

TEST_CASE("future outputs are hidden: other outputs give the same start") {
  const Workload w = Apps(120);
  Workload other = w;
  for (std::int32_t& tokens : other.model_tokens) tokens = tokens / 2 + 40;
  for (WorkloadWorkflow& f : other.workflows) f.solved_by = ~f.solved_by & 0x3f;
  ReplayOptions options = Pair("confidence_slack");
  auto forecasts = TrustLarge(w);
  for (std::size_t i = 0; i < w.calls.size() * w.models.size(); ++i) {
    forecasts->left.push_back(Estimate::Exact(static_cast<double>(w.features_of(i / w.models.size())[2])));
  }
  options.forecasts = forecasts;
  options.estimates = {EstimateKind::kClassMean, 0};
  const ReplayResult a = Run(w, options), b = Run(other, options);
  TimePoint first_end = kNever;
  for (const ReplayResult* r : {&a, &b}) {
    for (const RequestRecord& record : r->requests) first_end = std::min(first_end, record.end);
  }
  int begun = 0;
  for (std::size_t c = 0; c < w.calls.size(); ++c) {
    const RequestRecord &x = a.requests[c], &y = b.requests[c];
    if (x.first_step >= first_end) continue;
    ++begun;
    CHECK(x.first_step == y.first_step);
    CHECK(x.instance == y.instance);
  }
  CHECK(begun > 0);
}

}  // namespace
}  // namespace takt
