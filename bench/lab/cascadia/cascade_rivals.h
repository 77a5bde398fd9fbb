// What a cascade's plan is compared with: published systems and simpler ways, planned from the same tables (Cascadia,
// section 4).
#ifndef TAKT_BENCH_LAB_CASCADIA_CASCADE_RIVALS_H_
#define TAKT_BENCH_LAB_CASCADIA_CASCADE_RIVALS_H_

#include <cstddef>
#include <optional>
#include <span>

#include "absl/status/statusor.h"
#include "takt/planning/cascade.h"

namespace takt {

struct RivalPlan {
  absl::StatusOr<CascadePlan> plan;  // FailedPrecondition says why there is none
  double sustains = 0;  // the largest rate [1/s] at the quality
};

// As many GPUs for each model; thresholds and replicas are the best for these. `routing`: of the planner's, whose
// thresholds are to be kept instead, whatever their quality.
RivalPlan PlanEvenSplit(const CascadePlanner& planner, double quality, double rate,
                        std::optional<std::size_t> routing = {});

// The thresholds of a routing of the planner's, with the best GPUs and replicas for them.
RivalPlan PlanRouting(const CascadePlanner& planner, std::size_t routing, double rate);

// CascadeServe: ten ranges of load, each with the plan that is best for requests of average length and one shape per
// model; the measured load alone picks. `means` plans such requests with such shapes, `truth` is of the same models
// with requests as they are, which may be others than those that it plans for.
RivalPlan PlanCascadeServe(const CascadePlanner& means, const CascadePlanner& truth, double quality, double rate);

// RouteLLM, of two models: it decides at once, by a learned score of each sampled request (`router`). A request below
// the threshold goes to the large model alone, any other to the small one.
struct RoutedPlan : RivalPlan {
  double threshold = 0;
};
RoutedPlan PlanRouteLlm(const CascadePlanner& planner, std::span<const double> router, double quality, double rate);

// As SimulateCascade, of a routed plan: no request meets a judge, or a second model. There must be a plan.
CascadeRun SimulateRouted(const CascadeProblem& problem, const RoutedPlan& routed, std::span<const double> router,
                          std::span<const CascadeArrival> arrivals);

}  // namespace takt

#endif  // TAKT_BENCH_LAB_CASCADIA_CASCADE_RIVALS_H_
