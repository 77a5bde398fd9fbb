// Structs of the C interface that are those of C++ bit by bit, so that arrays of them cross without a copy.
#ifndef TAKT_SRC_C_LAYOUT_H_
#define TAKT_SRC_C_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "takt/c/takt.h"
#include "takt/learning/tool_profile.h"
#include "takt/model/agent_ranks.h"
#include "takt/model/instance.h"
#include "takt/model/request.h"
#include "takt/model/step.h"
#include "takt/model/workflow.h"
#include "takt/queue/waiting_queue.h"
#include "takt/router.h"

namespace takt::c {

#define TAKT_SAME_PLACE(Cxx, C, field) \
  static_assert(offsetof(Cxx, field) == offsetof(C, field) && sizeof(Cxx::field) == sizeof(C::field))
#define TAKT_SAME_SIZE(Cxx, C)                                                                                 \
  static_assert(sizeof(Cxx) == sizeof(C) && alignof(Cxx) == alignof(C) && std::is_trivially_copyable_v<Cxx> && \
                std::is_standard_layout_v<Cxx>)

TAKT_SAME_SIZE(PlanEntry, takt_plan_entry);
TAKT_SAME_PLACE(PlanEntry, takt_plan_entry, request);
TAKT_SAME_PLACE(PlanEntry, takt_plan_entry, lane);
TAKT_SAME_PLACE(PlanEntry, takt_plan_entry, tokens);
TAKT_SAME_PLACE(PlanEntry, takt_plan_entry, position);
TAKT_SAME_PLACE(PlanEntry, takt_plan_entry, speculative);
TAKT_SAME_PLACE(PlanEntry, takt_plan_entry, flags);

TAKT_SAME_SIZE(RowResult, takt_row_result);
TAKT_SAME_PLACE(RowResult, takt_row_result, request);
TAKT_SAME_PLACE(RowResult, takt_row_result, lane);
TAKT_SAME_PLACE(RowResult, takt_row_result, tokens);
TAKT_SAME_PLACE(RowResult, takt_row_result, drafts);
TAKT_SAME_PLACE(RowResult, takt_row_result, flags);

TAKT_SAME_SIZE(KvMove, takt_move);
TAKT_SAME_PLACE(KvMove, takt_move, id);
TAKT_SAME_PLACE(KvMove, takt_move, request);
TAKT_SAME_PLACE(KvMove, takt_move, action);
TAKT_SAME_PLACE(KvMove, takt_move, first);
TAKT_SAME_PLACE(KvMove, takt_move, count);
TAKT_SAME_PLACE(KvMove, takt_move, reserved);

TAKT_SAME_SIZE(AnyWaitingQueue::Ran, takt_ran);
TAKT_SAME_PLACE(AnyWaitingQueue::Ran, takt_ran, request);
TAKT_SAME_PLACE(AnyWaitingQueue::Ran, takt_ran, prefill);
TAKT_SAME_PLACE(AnyWaitingQueue::Ran, takt_ran, output);
TAKT_SAME_SIZE(AnyWaitingQueue::Holding, takt_holding);
TAKT_SAME_PLACE(AnyWaitingQueue::Holding, takt_holding, request);
TAKT_SAME_PLACE(AnyWaitingQueue::Holding, takt_holding, blocks);

TAKT_SAME_SIZE(Preemption, takt_preemption);
TAKT_SAME_PLACE(Preemption, takt_preemption, request);
TAKT_SAME_PLACE(Preemption, takt_preemption, action);
TAKT_SAME_PLACE(Preemption, takt_preemption, reserved);

TAKT_SAME_SIZE(Failure, takt_failure);
TAKT_SAME_PLACE(Failure, takt_failure, request);
TAKT_SAME_PLACE(Failure, takt_failure, reason);
TAKT_SAME_PLACE(Failure, takt_failure, reserved);
TAKT_SAME_PLACE(Failure, takt_failure, code);
TAKT_SAME_SIZE(DroppedPrefix, takt_dropped_prefix);
TAKT_SAME_PLACE(DroppedPrefix, takt_dropped_prefix, hash);
TAKT_SAME_PLACE(DroppedPrefix, takt_dropped_prefix, blocks);
TAKT_SAME_PLACE(DroppedPrefix, takt_dropped_prefix, reserved);
TAKT_SAME_SIZE(HostChunk, takt_host_chunk);
TAKT_SAME_PLACE(HostChunk, takt_host_chunk, hash);
TAKT_SAME_PLACE(HostChunk, takt_host_chunk, blocks);
TAKT_SAME_PLACE(HostChunk, takt_host_chunk, action);
TAKT_SAME_PLACE(HostChunk, takt_host_chunk, reserved);

TAKT_SAME_SIZE(CacheHint, takt_cache_hint);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, workflow);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, branch);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, action);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, priority);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, reserved);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, until);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, tokens);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, reserved_too);

TAKT_SAME_SIZE(RequestId, std::uint64_t);

TAKT_SAME_SIZE(Placement, takt_placement);
TAKT_SAME_PLACE(Placement, takt_placement, request);
TAKT_SAME_PLACE(Placement, takt_placement, instance);
TAKT_SAME_PLACE(Placement, takt_placement, decode);
TAKT_SAME_PLACE(Placement, takt_placement, life);

TAKT_SAME_SIZE(WorkflowEnd, takt_workflow_end);
TAKT_SAME_PLACE(WorkflowEnd, takt_workflow_end, workflow);
TAKT_SAME_PLACE(WorkflowEnd, takt_workflow_end, how);
TAKT_SAME_PLACE(WorkflowEnd, takt_workflow_end, arrival);
TAKT_SAME_PLACE(WorkflowEnd, takt_workflow_end, end);
TAKT_SAME_PLACE(WorkflowEnd, takt_workflow_end, deadline);
TAKT_SAME_PLACE(WorkflowEnd, takt_workflow_end, stage);

TAKT_SAME_SIZE(WorkflowFault, takt_workflow_fault);
TAKT_SAME_PLACE(WorkflowFault, takt_workflow_fault, kind);
TAKT_SAME_PLACE(WorkflowFault, takt_workflow_fault, workflow);
TAKT_SAME_PLACE(WorkflowFault, takt_workflow_fault, stage);
TAKT_SAME_PLACE(WorkflowFault, takt_workflow_fault, site);

TAKT_SAME_SIZE(ToolObservation, takt_tool_call);
TAKT_SAME_PLACE(ToolObservation, takt_tool_call, tool);
TAKT_SAME_PLACE(ToolObservation, takt_tool_call, seconds);
TAKT_SAME_PLACE(ToolObservation, takt_tool_call, returned_tokens);
TAKT_SAME_PLACE(ToolObservation, takt_tool_call, tokens_before);

TAKT_SAME_SIZE(ModelScore, takt_model_score);
TAKT_SAME_PLACE(ModelScore, takt_model_score, model);
TAKT_SAME_PLACE(ModelScore, takt_model_score, score);
TAKT_SAME_PLACE(ModelScore, takt_model_score, tokens);

TAKT_SAME_SIZE(AgentRank, takt_agent_rank);
TAKT_SAME_PLACE(AgentRank, takt_agent_rank, agent);
TAKT_SAME_PLACE(AgentRank, takt_agent_rank, rank);
TAKT_SAME_PLACE(AgentRank, takt_agent_rank, execution_s);
TAKT_SAME_PLACE(AgentRank, takt_agent_rank, stages_left);

TAKT_SAME_SIZE(Estimate, takt_estimate);
TAKT_SAME_PLACE(Estimate, takt_estimate, mean);
TAKT_SAME_PLACE(Estimate, takt_estimate, quantiles);

TAKT_SAME_SIZE(WorkAfter, takt_work_after);
TAKT_SAME_PLACE(WorkAfter, takt_work_after, calls);
TAKT_SAME_PLACE(WorkAfter, takt_work_after, prompt_tokens);
TAKT_SAME_PLACE(WorkAfter, takt_work_after, output_tokens);
TAKT_SAME_PLACE(WorkAfter, takt_work_after, kv_steps);
TAKT_SAME_PLACE(WorkAfter, takt_work_after, path_tokens);

TAKT_SAME_SIZE(NextCall, takt_next_call);
TAKT_SAME_PLACE(NextCall, takt_next_call, tool);
TAKT_SAME_PLACE(NextCall, takt_next_call, after);
TAKT_SAME_PLACE(NextCall, takt_next_call, returned);
TAKT_SAME_PLACE(NextCall, takt_next_call, duration);

#undef TAKT_SAME_PLACE
#undef TAKT_SAME_SIZE

// Of an element type of each side that is named above.
template <class C, class Cxx>
const C* AsC(const Cxx* array) {
  static_assert(sizeof(C) == sizeof(Cxx) && alignof(C) == alignof(Cxx));
  return reinterpret_cast<const C*>(array);
}
template <class Cxx, class C>
const Cxx* FromC(const C* array) {
  static_assert(sizeof(C) == sizeof(Cxx) && alignof(C) == alignof(Cxx));
  return reinterpret_cast<const Cxx*>(array);
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_LAYOUT_H_
