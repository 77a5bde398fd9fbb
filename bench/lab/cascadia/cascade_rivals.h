// Baselines for a cascade's plan: published systems and simpler methods, planned from the same tables (Cascadia,
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
  absl::StatusOr<CascadePlan> plan;  // FailedPrecondition with the reason if no plan exists
  double sustains = 0;  // the largest rate [1/s] at the quality
};

// The same number of GPUs for each model, with the best thresholds and replicas for this split. `routing`: if set, a
// routing of the planner whose thresholds are kept, whatever their quality.
RivalPlan PlanEvenSplit(const CascadePlanner& planner, double quality, double rate,
                        std::optional<std::size_t> routing = {});

// The thresholds of one of the planner's routings, with the best GPUs and replicas for them.
RivalPlan PlanRouting(const CascadePlanner& planner, std::size_t routing, double rate);

// CascadeServe: ten ranges of load, each with the best plan for requests of average length and one shape per model. The
// measured load alone selects the range. `means` plans these requests and shapes. `truth` has the same models with the
// actual requests, which may differ from the planned ones.
RivalPlan PlanCascadeServe(const CascadePlanner& means, const CascadePlanner& truth, double quality, double rate);

// RouteLLM, with two models: a learned score of each sampled request (`router`) chooses the model at once. Requests
// below the threshold go to the large model only, others to the small one only.
struct RoutedPlan : RivalPlan {
  double threshold = 0;
};
RoutedPlan PlanRouteLlm(const CascadePlanner& planner, std::span<const double> router, double quality, double rate);

// As SimulateCascade, for a routed plan: no request meets a judge or a second model. A plan must exist.
CascadeRun SimulateRouted(const CascadeProblem& problem, const RoutedPlan& routed, std::span<const double> router,
                          std::span<const CascadeArrival> arrivals);

}  // namespace takt

#endif  // TAKT_BENCH_LAB_CASCADIA_CASCADE_RIVALS_H_
