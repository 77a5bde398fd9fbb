// First come, first served by workflow.
#ifndef TAKT_POLICY_WORKFLOW_FCFS_H_
#define TAKT_POLICY_WORKFLOW_FCFS_H_

#include <string_view>

#include "takt/policy/rank_policy.h"

namespace takt {

// Key: arrival of the workflow [s], so that its later calls do not wait behind newer workflows. Sources: Kairos's order
// within an agent; Parrot's application FIFO. A request without a workflow is a workflow of one call.
struct WorkflowFcfs {
  static constexpr std::string_view kName = "workflow_fcfs";
  RankKey Key(const RequestState& r) const { return {ToSeconds(r.request.workflow_arrival)}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_WORKFLOW_FCFS_H_
