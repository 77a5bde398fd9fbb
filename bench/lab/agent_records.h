// Trains an AgentLearner from a run, with the data that a host has: identifiers and times of calls that have ended.
#ifndef TAKT_BENCH_LAB_AGENT_RECORDS_H_
#define TAKT_BENCH_LAB_AGENT_RECORDS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "takt/base/time.h"
#include "takt/learning/agent_learner.h"
#include "takt/sim/metrics.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt {

// Trains the learner on identifiers alone, as calls end. A call's upstream is the dependency whose answer arrived last.
class AgentRecords {
 public:
  // `workload` must outlive this object.
  explicit AgentRecords(const Workload& workload)
      : workload_(&workload), told_(workload.calls.size()), closed_(workload.workflows.size()) {}

  // Reports calls that have ended since the last call.
  void Tell(std::span<const RequestRecord> records, std::span<const WorkflowRecord> workflows, TimePoint now,
            AgentLearner& learner);

 private:
  const Workload* workload_;
  std::vector<bool> told_, closed_;
  std::size_t first_ = 0;  // all workflows before this index are closed
};

// Trains the learner once a simulated second and gives the schedulers its table after each change. `workload` and
// `learner` must outlive the run.
void TeachAgents(const Workload& workload, AgentLearner& learner, ReplayOptions& options);

}  // namespace takt

#endif  // TAKT_BENCH_LAB_AGENT_RECORDS_H_
