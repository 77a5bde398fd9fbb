#include "takt/sim/estimates.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"

namespace takt {
namespace {

constexpr EstimateSpec kOracle{EstimateKind::kOracle, 0};
constexpr EstimateSpec kClassMean{EstimateKind::kClassMean, 0};
constexpr EstimateSpec kForest{EstimateKind::kForest, 0};

// Workflows given by the output lengths of their calls. Call i has the stage name i + 1.
Workload Chains(const std::vector<std::vector<std::int32_t>>& outputs) {
  Workload w;
  w.names = {"", "first", "second", "third"};
  for (const auto& chain : outputs) {
    WorkloadWorkflow workflow;
    workflow.first_call = static_cast<std::uint32_t>(w.calls.size());
    workflow.calls = static_cast<std::uint32_t>(chain.size());
    w.workflows.push_back(workflow);
    for (std::size_t i = 0; i < chain.size(); ++i) {
      WorkloadCall call;
      call.prompt_tokens = 100;
      call.output_tokens = chain[i];
      call.stage = static_cast<std::uint32_t>(i + 1);
      w.calls.push_back(call);
    }
  }
  return w;
}

Workload LogNormalCalls(std::size_t n, double mu, double sigma) {
  Random random(11);
  Workload w;
  for (std::size_t i = 0; i < n; ++i) {
    w.workflows.push_back({});
    w.workflows.back().first_call = static_cast<std::uint32_t>(i);
    w.workflows.back().calls = 1;
    w.calls.push_back({});
    w.calls.back().output_tokens = static_cast<std::int32_t>(1 + random.LogNormal(mu, sigma));
  }
  return w;
}

Request Described(Estimator& estimator, std::uint32_t workflow, std::uint32_t call, std::int32_t prompt = 100) {
  Request request;
  request.prompt_tokens = {prompt};
  estimator.Describe(workflow, call, request);
  return request;
}

TEST_CASE("kinds are read from their names, and faults are named") {
  CHECK(*EstimateSpec::Parse("oracle") == kOracle);
  CHECK(*EstimateSpec::Parse("class-mean") == kClassMean);
  CHECK(EstimateSpec::Parse("lengths")->ToString() == "lengths");
  CHECK(*EstimateSpec::Parse("forest") == kForest);
  CHECK(kForest.ToString() == "forest");
  CHECK(*EstimateSpec::Parse("none") == EstimateSpec{});
  CHECK(*EstimateSpec::Parse("noise:0.5") == EstimateSpec{EstimateKind::kNoise, 0.5});
  CHECK(EstimateSpec::Parse("calibrated:1.2")->ToString() == "calibrated:1.2");
  CHECK(*EstimateSpec::Parse("learnt(noise:0.5)") == EstimateSpec{EstimateKind::kNoise, 0.5, true});
  CHECK(EstimateSpec::Parse("learnt(class-mean)")->ToString() == "learnt(class-mean)");
  for (const char* text :
       {"", "orakel", "noise", "noise:", "noise:x", "noise:0.5x", "noise:-1", "noise:nan", "oracle:1", "learnt()",
        "learnt(none)", "learnt(noise:1", "learnt(learnt(oracle))", "learnt"}) {
    INFO(text);
    CHECK_FALSE(EstimateSpec::Parse(text).ok());
  }
}

TEST_CASE("learned estimates start as given, then use ended calls only") {
  const Workload w = LogNormalCalls(8000, 5, 1);
  const EstimateSpec noise{EstimateKind::kNoise, 1.2}, learnt{EstimateKind::kNoise, 1.2, true};
  Estimator raw(w, noise, 3), estimator(w, learnt, 3);
  CHECK(Described(estimator, 0, 0).output_tokens.mean == Approx(Described(raw, 0, 0).output_tokens.mean));
  for (std::uint32_t c = 0; c < 6000; ++c) {
    Described(raw, c, c), Described(estimator, c, c);
    if (c % 4 == 3) continue;
    raw.Ended(c, c), estimator.Ended(c, c);
  }
  const EstimateErrors errors = estimator.errors();
  CHECK(errors.output.count == 4500);
  CHECK(errors.raw_output.by_octave == raw.errors().output.by_octave);
  CHECK(errors.raw_output.by_octave > 0.5);
  CHECK(errors.output.by_octave < 0.12);
  CHECK(errors.left.by_octave == errors.output.by_octave);

  // The learned estimate of the rest is nearer than the given estimate. It does not depend on the true rest.
  Workload other = w;
  for (std::uint32_t c = 6001; c < 8000; ++c) other.calls[c].output_tokens = 1;
  Estimator elsewhere(other, learnt, 3);
  for (std::uint32_t c = 0; c < 6000; ++c) {
    Described(elsewhere, c, c);
    if (c % 4 != 3) elsewhere.Ended(c, c);
  }
  CHECK(Described(elsewhere, 6000, 6000).output_tokens == Described(estimator, 6000, 6000).output_tokens);
  double raw_squares = 0, squares = 0;
  for (std::uint32_t c = 6000; c < 8000; ++c) {
    const double truth = w.calls[c].output_tokens;
    raw_squares += std::pow(Described(raw, c, c).output_tokens.mean - truth, 2);
    squares += std::pow(Described(estimator, c, c).output_tokens.mean - truth, 2);
  }
  CHECK(squares < raw_squares / 4);
}

TEST_CASE("learned estimates give a workflow's rest by its generated tokens") {
  // One kind of workflow that ends after one call or after ten.
  std::vector<std::vector<std::int32_t>> chains;
  for (int i = 0; i < 4000; ++i) chains.push_back(std::vector<std::int32_t>(i % 3 == 0 ? 10 : 1, 100));
  Workload w = Chains(chains);
  for (WorkloadCall& call : w.calls) call.stage = 1;
  Estimator means(w, kClassMean, 1), learnt(w, {EstimateKind::kClassMean, 0, true}, 1);
  const auto play = [&](Estimator& estimator, std::uint32_t workflow, std::uint32_t calls) {
    const std::uint32_t first = w.workflows[workflow].first_call;
    for (std::uint32_t c = first; c < first + calls; ++c)
      Described(estimator, workflow, c), estimator.Ended(workflow, c);
  };
  for (std::uint32_t i = 0; i < 3999; ++i) {
    play(means, i, w.workflows[i].calls);
    play(learnt, i, w.workflows[i].calls);
  }
  // Among 12 first and later calls, 2 are the end of short workflows. At the start a workflow has 400 left on average.
  const std::uint32_t last = 3999, first = w.workflows[last].first_call;
  const Request at_start = Described(learnt, last, first);
  CHECK(at_start.workflow_tokens_left.mean == Approx(400).epsilon(0.1));
  CHECK(Described(means, last, first).workflow_tokens_left.mean == Approx(5700 / 12.0).epsilon(0.02));
  CHECK(at_start.output_tokens.mean == Approx(100).epsilon(0.01));
  CHECK(at_start.after.output_tokens == Approx(at_start.workflow_tokens_left.mean - at_start.output_tokens.mean));
  const Request raw = Described(means, last, first);
  CHECK(at_start.after.kv_steps / raw.after.kv_steps == Approx(at_start.after.output_tokens / raw.after.output_tokens));
  CHECK(at_start.after.calls == raw.after.calls);
  // 300 generated: a long workflow. In one class with 400 and 500 (256 to 511): 700, 600 and 500 left.
  play(learnt, last, 3);
  CHECK(Described(learnt, last, first + 3).workflow_tokens_left.mean == Approx(600).epsilon(0.1));
}

TEST_CASE("the oracle knows the call and the rest of its workflow") {
  const Workload w = Chains({{10, 20, 30}});
  Estimator estimator(w, kOracle, 1);
  CHECK(Described(estimator, 0, 0).output_tokens == Estimate::Exact(10));
  CHECK(Described(estimator, 0, 0).workflow_tokens_left == Estimate::Exact(60));
  estimator.Ended(0, 0);
  CHECK(Described(estimator, 0, 1).workflow_tokens_left == Estimate::Exact(50));
}

// First -> (second, third) -> fourth; the third calls a tool after 4 of its 10 tokens, which returns 50.
Workload Diamond() {
  Workload w = Chains({{10, 20, 10, 40}});
  w.predecessors = {0, 0, 1, 2};
  w.calls[1].predecessors = 1, w.calls[1].first_predecessor = 0;
  w.calls[2].predecessors = 1, w.calls[2].first_predecessor = 1;
  w.calls[3].predecessors = 2, w.calls[3].first_predecessor = 2;
  w.tools = {{4, 50, FromSeconds(1), 1}};
  w.calls[2].tools = 1;
  return w;
}

TEST_CASE("the rest of a workflow without a call equals values by hand") {
  const Workload w = Diamond();
  Estimator estimator(w, kOracle, 1);
  // Contexts over steps: 20 * 100 + 20^2 / 2; 10 * 100 + 10^2 / 2 + 50 * (10 - 4); 40 * 100 + 40^2 / 2.
  CHECK(Described(estimator, 0, 0).after == WorkAfter{3, 350, 70, 2200 + 1350 + 4800, 60});
  estimator.Ended(0, 0);
  CHECK(Described(estimator, 0, 1).after == WorkAfter{2, 250, 50, 1350 + 4800, 40});
  estimator.Ended(0, 1), estimator.Ended(0, 2);
  CHECK(Described(estimator, 0, 3).after == WorkAfter{0, 0, 0, 0, 0});
  CHECK_FALSE(Described(*std::make_unique<Estimator>(w, EstimateSpec{}, 1), 0, 0).after.known());
}

TEST_CASE("a noisy prediction of the rest errs like those of its calls") {
  const Workload w = Diamond();
  Estimator estimator(w, {EstimateKind::kNoise, 0.5}, 3);
  const double last = Described(estimator, 0, 3).output_tokens.mean;
  for (std::uint32_t c : {0u, 1u, 2u}) estimator.Ended(0, c);
  Estimator other(w, {EstimateKind::kNoise, 0.5}, 3);
  for (std::uint32_t c : {0u, 1u}) other.Ended(0, c);
  const WorkAfter after = Described(other, 0, 2).after;
  CHECK(after.output_tokens == Approx(last));
  CHECK(after.path_tokens == Approx(last));
  CHECK(after.prompt_tokens == Approx(100 * last / 40));
  CHECK(after.kv_steps == Approx(100 * last + last * last / 2));
}

TEST_CASE("without estimates nothing is known") {
  const Workload w = Chains({{10, 20}});
  Estimator estimator(w, {}, 1);
  estimator.Ended(0, 0);
  CHECK_FALSE(Described(estimator, 0, 1).output_tokens.known());
  CHECK_FALSE(Described(estimator, 0, 1).workflow_tokens_left.known());
}

TEST_CASE("noise depends on seed and call, not on order of events") {
  const Workload w = Chains({{100, 100}, {100, 100}});
  Estimator forward(w, {EstimateKind::kNoise, 1}, 5), backward(w, {EstimateKind::kNoise, 1}, 5);
  std::vector<Estimate> there, back;
  for (std::uint32_t c = 0; c < 4; ++c) there.push_back(Described(forward, c / 2, c).output_tokens);
  for (std::uint32_t c = 4; c-- > 0;) back.push_back(Described(backward, c / 2, c).output_tokens);
  std::reverse(back.begin(), back.end());
  CHECK(there == back);
  CHECK(there[0] != there[1]);
  Estimator other(w, {EstimateKind::kNoise, 1}, 6);
  CHECK(Described(other, 0, 0).output_tokens != there[0]);
}

TEST_CASE("noise is log-normal around the truth") {
  const Workload w = LogNormalCalls(20'000, 5, 1);
  Estimator estimator(w, {EstimateKind::kNoise, 0.7}, 3);
  double sum = 0, squares = 0;
  for (std::uint32_t c = 0; c < w.calls.size(); ++c) {
    const Request r = Described(estimator, c, c);
    CHECK(r.output_tokens == r.workflow_tokens_left);
    const double error = std::log(r.output_tokens.mean / w.calls[c].output_tokens);
    sum += error;
    squares += error * error;
  }
  const double n = static_cast<double>(w.calls.size());
  CHECK(sum / n == Approx(0).margin(0.02));
  CHECK(std::sqrt(squares / n) == Approx(0.7).margin(0.02));
}

// LAMPS, section 6.4.
TEST_CASE("Gaussian errors are unbiased shares of the truth, never below zero") {
  Workload w = LogNormalCalls(20'000, 7, 0.5);
  w.names.push_back("search");
  for (std::size_t i = 0; i < w.calls.size(); ++i) w.tools.push_back({100'000, 10'000, FromSeconds(2), 1});
  for (const double sigma : {0.05, 0.1, 0.3, 0.5}) {
    Estimator estimator(w, {EstimateKind::kGaussian, sigma}, 3);
    double sum = 0, squares = 0, tool_sum = 0, tool_squares = 0;
    for (std::uint32_t c = 0; c < w.calls.size(); ++c) {
      const Request r = Described(estimator, c, c);
      REQUIRE(r.output_tokens.mean >= 0);
      const double error = r.output_tokens.mean / w.calls[c].output_tokens - 1;
      sum += error, squares += error * error;
      const NextCall next = estimator.Tool(c, 0);
      REQUIRE(next.duration >= Duration(0));
      const double off = ToSeconds(next.duration) / 2 - 1;
      tool_sum += off, tool_squares += off * off;
      CHECK(next.returned.value == Approx(10'000 * (1 + off)).margin(1));
    }
    const double n = static_cast<double>(w.calls.size());
    INFO("sigma " << sigma);
    CHECK(sum / n == Approx(0).margin(0.012));
    CHECK(tool_sum / n == Approx(0).margin(0.012));
    CHECK(std::sqrt(squares / n) == Approx(sigma).epsilon(0.03));
    CHECK(std::sqrt(tool_squares / n) == Approx(sigma).epsilon(0.03));
  }
}

TEST_CASE("calibrated estimates are unbiased for any prediction, and their quantiles hold") {
  const Workload w = LogNormalCalls(40'000, 5, 1);
  Estimator estimator(w, {EstimateKind::kCalibrated, 0.8}, 3);
  struct Pair {
    Estimate estimate;
    double truth;
  };
  std::vector<Pair> pairs;
  for (std::uint32_t c = 0; c < w.calls.size(); ++c) {
    pairs.push_back({Described(estimator, c, c).output_tokens, static_cast<double>(w.calls[c].output_tokens)});
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.estimate.mean < b.estimate.mean; });
  // In each quarter by prediction, the mean truth is the mean prediction. Raw predictions are far from this property.
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    double predicted = 0, truth = 0;
    for (std::size_t i = quarter * 10'000; i < (quarter + 1) * 10'000; ++i) {
      predicted += pairs[i].estimate.mean;
      truth += pairs[i].truth;
    }
    CHECK(truth / predicted == Approx(1).margin(0.03));
  }
  for (const double p : {0.1, 0.25, 0.5, 0.75, 0.9}) {
    const auto below =
        std::count_if(pairs.begin(), pairs.end(), [p](const Pair& x) { return x.truth <= x.estimate.Quantile(p); });
    CHECK(static_cast<double>(below) / 40'000 == Approx(p).margin(0.015));
  }
}

TEST_CASE("calibration shrinks towards the workload as computed by hand") {
  // Log lengths 2 and 4: mean 3, variance 1. Sigma 0 leaves the truth; a huge sigma leaves the prior.
  Workload w = Chains({{static_cast<std::int32_t>(std::lround(std::exp(10)))}, {1}});
  const double mu = std::log(w.calls[0].output_tokens) / 2;
  Estimator exact(w, {EstimateKind::kCalibrated, 0}, 1);
  CHECK(Described(exact, 0, 0).output_tokens.mean == Approx(w.calls[0].output_tokens));
  Estimator vague(w, {EstimateKind::kCalibrated, 10}, 1);
  const double variance = mu * mu * 100 / (mu * mu + 100);
  const Estimate e = Described(vague, 0, 0).output_tokens;
  // median = exp(posterior mean of the log), mean = median * exp(variance / 2)
  CHECK(e.mean / e.Quantile(0.5) == Approx(std::exp(variance / 2)));
}

TEST_CASE("class means know finished calls, and rests of ended workflows") {
  const Workload w = Chains({{10, 30}, {20, 50}, {7, 7}});
  Estimator estimator(w, kClassMean, 1);
  CHECK_FALSE(Described(estimator, 0, 0).output_tokens.known());
  CHECK_FALSE(Described(estimator, 1, 2).output_tokens.known());
  estimator.Ended(0, 0);
  CHECK(Described(estimator, 1, 2).output_tokens.mean == 10);
  CHECK(Described(estimator, 0, 1).output_tokens.mean == 10);  // its class has no calls: the mean over all
  CHECK_FALSE(Described(estimator, 0, 1).workflow_tokens_left.known());
  estimator.Ended(0, 1);
  CHECK(Described(estimator, 2, 4).workflow_tokens_left.mean == 40);
  estimator.Ended(1, 2);
  CHECK(Described(estimator, 2, 4).output_tokens.mean == 15);
  CHECK(Described(estimator, 2, 4).workflow_tokens_left.mean == 40);  // the second has not ended
  CHECK(Described(estimator, 1, 3).workflow_tokens_left.mean == 30);
  estimator.Ended(1, 3);
  CHECK(Described(estimator, 2, 4).workflow_tokens_left.mean == 55);  // (40 + 70) / 2
  const WorkAfter after = Described(estimator, 2, 4).after;
  CHECK(after.calls == 1);
  CHECK(after.prompt_tokens == 100);
  CHECK(after.output_tokens == 40);  // 55 minus its own 15
  CHECK(Described(estimator, 2, 5).workflow_tokens_left.mean == 40);  // (30 + 50) / 2
}

TEST_CASE("lengths know finished calls of equal stage and prompt size") {
  const Workload w = Chains({{10, 30}, {20, 50}});
  Estimator estimator(w, {EstimateKind::kLengths, 0}, 1);
  CHECK_FALSE(Described(estimator, 0, 0).output_tokens.known());
  estimator.Ended(0, 0);
  estimator.Ended(0, 1);
  CHECK(Described(estimator, 1, 2).output_tokens.known());
  CHECK_FALSE(Described(estimator, 1, 2).workflow_tokens_left.known());
}

// Two calls each, of 10 to 1,000 tokens and half as many. Prompts are ten times as long as the first answer.
Workload FromPrompts(std::size_t workflows) {
  Random random(3);
  std::vector<std::vector<std::int32_t>> outputs;
  for (std::size_t i = 0; i < workflows; ++i) {
    const auto first = static_cast<std::int32_t>(std::exp(std::log(10) + std::log(100) * random.Uniform()));
    outputs.push_back({first, first / 2});
  }
  Workload w = Chains(outputs);
  for (std::size_t c = 0; c < w.calls.size(); ++c) w.calls[c].prompt_tokens = 10 * w.calls[c - c % 2].output_tokens;
  return w;
}

Request Described(Estimator& estimator, const Workload& w, std::uint32_t call) {
  return Described(estimator, call / 2, call, w.calls[call].prompt_tokens);
}

void EndFirst(Estimator& estimator, const Workload& w, std::uint32_t workflows) {
  for (std::uint32_t i = 0; i < workflows; ++i) {
    for (std::uint32_t c = 2 * i; c < 2 * i + 2; ++c) {
      Described(estimator, w, c);
      estimator.Ended(i, c);
    }
  }
}

TEST_CASE("forests grow as workflows end, and estimate more than class means") {
  const Workload w = FromPrompts(600);
  Estimator forest(w, kForest, 1), means(w, kClassMean, 1);
  EndFirst(forest, w, 31);
  EndFirst(means, w, 31);
  for (std::uint32_t c = 62; c < 70; ++c) {  // no forest exists so far
    CHECK(Described(forest, w, c).output_tokens == Described(means, w, c).output_tokens);
  }
  Estimator more(w, kForest, 1);
  EndFirst(more, w, 512);
  double off_output = 0, off_left = 0, off_after = 0;
  for (std::uint32_t i = 512; i < 600; ++i) {
    const Request first = Described(more, w, 2 * i);
    const double truth = w.calls[2 * i].output_tokens;
    off_output += std::abs(std::log(first.output_tokens.Quantile(0.5) / truth)) / 88;
    off_left += std::abs(std::log(first.workflow_tokens_left.Quantile(0.5) / (1.5 * truth))) / 88;
    off_after += std::abs(std::log(first.after.output_tokens / (0.5 * truth))) / 88;
    CHECK(first.after.calls == 1);
    more.Ended(i, 2 * i);
    const Request second = Described(more, w, 2 * i + 1);
    CHECK(second.workflow_tokens_left.mean == Approx(second.output_tokens.mean).epsilon(0.1));
  }
  CHECK(off_output < 0.1);
  CHECK(off_left < 0.1);
  CHECK(off_after < 0.3);
}

TEST_CASE("forests use the features of a prompt") {
  Workload w = FromPrompts(300);
  w.feature_names = {"long_words"};
  for (std::size_t c = 0; c < w.calls.size(); ++c) {
    w.features.push_back(static_cast<float>(w.calls[c - c % 2].output_tokens));
    w.calls[c].prompt_tokens = 100;
  }
  Estimator forest(w, kForest, 1);
  EndFirst(forest, w, 256);
  double off = 0;
  for (std::uint32_t i = 256; i < 300; ++i) {
    const Request first = Described(forest, w, 2 * i);
    off += std::abs(std::log(first.output_tokens.Quantile(0.5) / w.calls[2 * i].output_tokens)) / 44;
  }
  CHECK(off < 0.15);
}

// Six parallel calls of equal length, with a prompt whose number has no information about it. If a workflow's rows were
// split, the number would seem informative.
TEST_CASE("forests keep the calls of one workflow together") {
  constexpr std::uint32_t kWorkflows = 600, kLearnt = 512, kCalls = 6;
  Random random(5);
  std::vector<std::vector<std::int32_t>> outputs;
  for (std::uint32_t i = 0; i < kWorkflows; ++i) {
    outputs.emplace_back(kCalls, static_cast<std::int32_t>(std::exp(5 + random.Normal())));
  }
  Workload w = Chains(outputs);
  for (WorkloadCall& call : w.calls) call.stage = 1;
  w.feature_names = {"number"};
  for (std::uint32_t i = 0; i < kWorkflows; ++i) {
    const auto number = static_cast<float>(random.Uniform());
    w.features.insert(w.features.end(), kCalls, number);
  }
  Estimator forest(w, kForest, 1);
  for (std::uint32_t i = 0; i < kLearnt; ++i) {
    for (std::uint32_t c = i * kCalls; c < (i + 1) * kCalls; ++c) Described(forest, i, c, 100);
    for (std::uint32_t c = i * kCalls; c < (i + 1) * kCalls; ++c) forest.Ended(i, c);
  }
  std::vector<double> output, left;
  for (std::uint32_t i = kLearnt; i < kWorkflows; ++i) {
    const Request first = Described(forest, i, i * kCalls, 100);
    output.push_back(std::log(first.output_tokens.mean));
    left.push_back(std::log(first.workflow_tokens_left.mean));
  }
  const auto spread = [](std::vector<double>& of) {
    std::ranges::sort(of);
    return of[of.size() * 9 / 10] - of[of.size() / 10];
  };
  CAPTURE(output, left);
  CHECK(spread(output) < 1);  // 1.9 if rows are split one by one
  CHECK(spread(left) < 1);
}

TEST_CASE("forests do not know unseen lengths") {
  const Workload a = FromPrompts(100);
  Workload b = a;
  for (std::uint32_t c = 128; c < 200; ++c) b.calls[c].output_tokens *= 7;
  b.calls[131].output_tokens = 5;
  Estimator of_a(a, kForest, 1), of_b(b, kForest, 1);
  EndFirst(of_a, a, 64);
  EndFirst(of_b, b, 64);
  for (std::uint32_t c = 128; c < 200; ++c) {
    const Request x = Described(of_a, a, c), y = Described(of_b, b, c);
    CHECK(x.output_tokens.known());
    CHECK(x.output_tokens == y.output_tokens);
    CHECK(x.workflow_tokens_left == y.workflow_tokens_left);
    CHECK(x.after.kv_steps == y.after.kv_steps);
  }
}

TEST_CASE("calls without names are classed by prompt size") {
  Workload w = LogNormalCalls(3, 5, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    w.calls[i].prompt_tokens = i == 1 ? 1000 : 40;
    w.calls[i].output_tokens = i == 1 ? 500 : 8;
  }
  Estimator estimator(w, kClassMean, 1);
  estimator.Ended(0, 0);
  estimator.Ended(1, 1);
  CHECK(Described(estimator, 2, 2, 40).output_tokens.mean == 8);
}

TEST_CASE("unobserved lengths change no estimate without an oracle") {
  const Workload a = Chains({{10, 30}, {20, 50}});
  Workload b = a;
  for (WorkloadCall& call : b.calls) call.output_tokens *= 3;
  b.calls[0].output_tokens = a.calls[0].output_tokens;  // the only observed one
  for (const EstimateSpec spec : {EstimateSpec{}, kClassMean}) {
    Estimator of_a(a, spec, 1), of_b(b, spec, 1);
    for (Estimator* e : {&of_a, &of_b}) {
      Described(*e, 0, 0);
      e->Ended(0, 0);
    }
    for (std::uint32_t c = 1; c < 4; ++c) {
      const Request x = Described(of_a, c / 2, c), y = Described(of_b, c / 2, c);
      CHECK(x.output_tokens == y.output_tokens);
      CHECK(x.workflow_tokens_left == y.workflow_tokens_left);
    }
  }
}

TEST_CASE("a tool and the output before it use its name's means") {
  Workload w = Chains({{400}});
  w.names.push_back("search");
  w.tools = {{5, 100, FromSeconds(2), 4}, {5, 300, FromSeconds(4), 4}};
  w.tools[0].after_tokens = 30, w.tools[1].after_tokens = 50;
  Estimator means(w, kClassMean, 1);
  CHECK_FALSE(means.Tool(1, 0));
  means.ToolEnded(0, 0);
  w.tools.push_back({5, 100, FromSeconds(9), 0});
  CHECK(means.Tool(2, 0).duration == FromSeconds(2));  // another name uses the mean of all
  means.ToolEnded(1, 30);
  CHECK(means.Tool(0, 0).duration == FromSeconds(3));
  CHECK(means.Tool(0, 0).returned == Tokens{200});
  CHECK(means.Tool(0, 0).after == Tokens{25});
  const Estimator oracle(w, kOracle, 1);
  CHECK(oracle.Tool(1, 30).duration == FromSeconds(4));
  CHECK(oracle.Tool(1, 30).after == Tokens{20});
  const Estimator nothing(w, {}, 1);
  CHECK_FALSE(nothing.Tool(1, 30));
  const Estimator noisy(w, {EstimateKind::kNoise, 0.5}, 1);
  CHECK(noisy.Tool(0, 0) != oracle.Tool(0, 0));
  CHECK(noisy.Tool(0, 0) == Estimator(w, {EstimateKind::kNoise, 0.5}, 1).Tool(0, 0));
}

}  // namespace
}  // namespace takt
