// First come, first served by workflow.
#ifndef TAKT_POLICY_WORKFLOW_FCFS_H_
#define TAKT_POLICY_WORKFLOW_FCFS_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Key: when the whole workflow arrived [s], so that its later calls do not queue again behind newer workflows.
// Source: the order within an agent of Kairos; Parrot's application FIFO. A request of its own is a workflow of one.
struct WorkflowFcfs {
  static constexpr std::string_view kName = "workflow_fcfs";
  RankKey Key(const RequestState& r) const { return {ToSeconds(r.request.workflow_arrival)}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_WORKFLOW_FCFS_H_
