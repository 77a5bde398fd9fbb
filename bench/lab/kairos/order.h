// Measures how well orders of agents predict which request has less remaining work.
#ifndef TAKT_BENCH_LAB_KAIROS_ORDER_H_
#define TAKT_BENCH_LAB_KAIROS_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/kairos/study.h"

namespace takt::tool {

// Kairos, section 7.4: the share of other agents' requests that an order ranks correctly against a request. Correct is
// the order of the workflows' remaining work without queues. Mean over requests [%]. Equal ranks count half.
struct KairosAccuracy {
  std::size_t scenario = 0;
  double classical = 0, smacof = 0, mean = 0,
         median = 0;  // ranks learnt from the first half of the workflows, applied to the second
  double depth = 0;  // Ayo's order
  double fcfs = 0;  // order of arrival, which has no information
  double best = 0;  // best fixed order of agents, found by trying all
  std::int64_t requests = 0;
  std::vector<std::string> order = {};  // agents in classical order
  std::vector<std::string> best_order = {};  // agents in the best order
};

// Uses the executions of a setup of one seed. Afterwards `learner` has learnt from all of them.
absl::StatusOr<KairosAccuracy> MeasureAccuracy(const KairosStudy& study, const KairosSetup& setup, std::uint64_t seed,
                                               AgentLearner& learner);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_KAIROS_ORDER_H_
