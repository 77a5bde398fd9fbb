#include "lab/cascadia/cascade_rivals.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "catch.h"
#include "planning/cascade_problems.h"

namespace takt {
namespace {

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

  // The same with the optimum's thresholds, whatever quality is requested.
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

  // A router that knows the small model's score in advance.
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
