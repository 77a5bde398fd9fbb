#include "lab/cascadia/cascade_rivals.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/planning/cascade.h"

namespace takt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int32_t kTp[] = {1, 2, 4, 8};
constexpr std::int32_t kPp[] = {1, 2};

ServedModel Llama(const std::string& size) {
  return {.name = size, .shapes = *FindShapes("aic/llama-3.1-" + size + "/h100/bf16", kTp, kPp)};
}

// Scores that rise from model to model and hang together; lengths of a conversation.
std::vector<CascadeSample> Sample(std::size_t models, int requests, std::uint64_t seed = 4) {
  Random random(seed);
  std::vector<CascadeSample> sample;
  for (int i = 0; i < requests; ++i) {
    CascadeSample s;
    s.prompt = 1 + static_cast<std::int32_t>(random.LogNormal(std::log(400), 0.8));
    const double z = random.Normal();
    for (std::size_t m = 0; m < models; ++m) {
      const double score = 60 + 15 * static_cast<double>(m) + 12 * (0.7 * z + 0.7 * random.Normal());
      s.scores.push_back(std::clamp(std::round(score), 0.0, 100.0));
      s.outputs.push_back(1 + static_cast<std::int32_t>(random.LogNormal(std::log(300), 0.6)));
    }
    sample.push_back(s);
  }
  return sample;
}

CascadeProblem TwoModels(std::int32_t gpus = 16, double rate = 4) {
  return {.models = {Llama("8b"), Llama("70b")}, .sample = Sample(2, 300), .rate = rate, .gpus = gpus};
}

CascadeOptions Quick() {
  CascadeOptions options;
  options.rates.most_requests = 1000;
  options.rates.runs = 12;
  options.simulated = 1500;
  return options;
}

CascadePlanner MustCreate(const CascadeProblem& problem, const CascadeOptions& options = Quick()) {
  auto planner = CascadePlanner::Create(problem, options);
  INFO(planner.status());
  REQUIRE(planner.ok());
  return *std::move(planner);
}

TEST_CASE("rivals are planned from the same tables, and none is below the joint optimum of its kind") {
  const CascadePlanner planner = MustCreate(TwoModels());
  const CascadeProblem& problem = planner.problem();
  constexpr double kQuality = 68, kRate = 2;
  const absl::StatusOr<CascadePlan> optimum = planner.Plan({.quality_floor = kQuality}, kRate);
  REQUIRE(optimum.ok());

  const RivalPlan even = PlanEvenSplit(planner, kQuality, kRate);
  REQUIRE(even.plan.ok());
  CHECK(even.plan->latency >= optimum->latency);
  CHECK(even.plan->quality >= kQuality);
  CHECK(even.sustains >= kRate);
  for (const ModelPlan& m : even.plan->models) CHECK(m.gpus <= problem.gpus / 2);
  CHECK(absl::IsFailedPrecondition(PlanEvenSplit(planner, 101, kRate).plan.status()));

  // The same with the optimum's thresholds kept, whatever quality is asked for.
  std::size_t routing = 0;
  while (planner.thresholds(routing) != optimum->thresholds) ++routing;
  const RivalPlan kept = PlanRouting(planner, routing, kRate);
  REQUIRE(kept.plan.ok());
  CHECK(kept.plan->thresholds == optimum->thresholds);
  CHECK(kept.plan->latency >= optimum->latency);
  CHECK(kept.sustains >= kRate);
  CHECK(absl::IsFailedPrecondition(PlanRouting(planner, routing, 2 * kept.sustains).plan.status()));
  const RivalPlan fixed = PlanEvenSplit(planner, 101, kRate, routing);
  CHECK(fixed.sustains <= kept.sustains);
  CHECK(fixed.plan.ok() == (fixed.sustains >= kRate));
  if (fixed.plan.ok()) CHECK(fixed.plan->thresholds == optimum->thresholds);

  const RivalPlan serve = PlanCascadeServe(planner, planner, kQuality, kRate);
  REQUIRE(serve.plan.ok());
  CHECK(serve.plan->quality >= kQuality);
  CHECK(serve.sustains > kRate);

  // A router that knows what the small model will score.
  std::vector<double> router;
  for (const CascadeSample& s : problem.sample) router.push_back(s.scores[0]);
  const RoutedPlan routed = PlanRouteLlm(planner, router, kQuality, kRate);
  REQUIRE(routed.plan.ok());
  CHECK(routed.plan->quality >= kQuality);
  CHECK(routed.plan->models[0].share + routed.plan->models[1].share == Approx(1));
  const std::vector<CascadeArrival> arrivals = DrawCascadeArrivals(problem.sample.size(), kRate, 600, 3);
  const CascadeRun run = SimulateRouted(problem, routed, router, arrivals);
  CHECK(run.shares[1] == Approx(routed.plan->models[1].share).margin(0.1));
  CHECK(run.p95 > 0);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const CascadeSample& s = problem.sample[arrivals[i].sample];
    CHECK(run.quality[i] == s.scores[s.scores[0] < routed.threshold ? 1 : 0]);
    CHECK(run.latency[i] > 0);
  }
}

}  // namespace
}  // namespace takt
