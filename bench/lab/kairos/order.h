// How well orders of agents tell which request has less work before it.
#ifndef TAKT_BENCH_LAB_KAIROS_ORDER_H_
#define TAKT_BENCH_LAB_KAIROS_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/kairos/study.h"

namespace takt::tool {

// Kairos, section 7.4: per request, the share of all requests of other agents that an order ranks rightly against it by
// what remains of their workflows (queues left out); the mean over requests. Equal ranks are right in half of the
// cases. In %.
struct KairosAccuracy {
  std::size_t scenario = 0;
  double classical = 0, smacof = 0, mean = 0,
         median = 0;  // ranks learnt from the first half of the workflows, on the second
  double depth = 0;  // Ayo's
  double fcfs = 0;  // by arrival, which tells nothing
  double best = 0;  // the best fixed order of agents there is, by trying all of them
  std::int64_t requests = 0;
  std::vector<std::string> order = {};  // of agents, classical
  std::vector<std::string> best_order = {};  // of agents
};

// Executions are those under Parrot at `load`, seed 1. `learner` is left as taught by all of them.
absl::StatusOr<KairosAccuracy> MeasureAccuracy(const KairosStudy& study, std::size_t scenario, double load,
                                               const KairosSystem& parrot, AgentLearner& learner);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_KAIROS_ORDER_H_
