// Teaching an AgentLearner from a run, by what its host would know: identifiers and times of calls that have ended.
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

// Teaches by identifiers alone, as calls end: the upstream of a call is the one whose answer came last of those that
// the call waited for.
class AgentRecords {
 public:
  // `workload` must outlive this.
  explicit AgentRecords(const Workload& workload)
      : workload_(&workload), told_(workload.calls.size()), closed_(workload.workflows.size()) {}

  // Tells what has ended by now and was not told before.
  void Tell(std::span<const RequestRecord> records, std::span<const WorkflowRecord> workflows, TimePoint now,
            AgentLearner& learner);

 private:
  const Workload* workload_;
  std::vector<bool> told_, closed_;
  std::size_t first_ = 0;  // workflows before it are closed
};

// Has a run of the workload teach the learner each second, and give the schedulers its table whenever that has changed.
// `workload` and `learner` must outlive the run.
void TeachAgents(const Workload& workload, AgentLearner& learner, ReplayOptions& options);

}  // namespace takt

#endif  // TAKT_BENCH_LAB_AGENT_RECORDS_H_
