// The fields of what a log holds of the model.
// Made by scripts/mirrors of include/takt/model/; not to be edited.
#ifndef TAKT_SRC_RECORD_MODEL_FIELDS_H_
#define TAKT_SRC_RECORD_MODEL_FIELDS_H_

#include <string_view>

#include "record/fields_of.h"
#include "takt/model/agent_ranks.h"
#include "takt/model/event.h"
#include "takt/model/request.h"
#include "takt/model/step.h"

namespace takt::internal {

TAKT_FIELDS(PrefixBlocks, block_tokens, hashes)
TAKT_FIELDS(AgentRank, agent, rank, execution_s, stages_left)
TAKT_FIELDS(AgentRanks, ranks, otherwise)
TAKT_FIELDS(WorkAfter, calls, prompt_tokens, output_tokens, kv_steps, path_tokens)
TAKT_FIELDS(NextCall, tool, after, returned, duration)
TAKT_FIELDS(Request, id, workflow, stage, agent, tenant, adapter, arrival, workflow_arrival, deadline, expires_at,
            prompt_tokens, max_output_tokens, sequences, priority, chunkable, preemptible, output_tokens,
            workflow_tokens_left, after, prefix, next_call, compute, scores, session, branch, salt)
TAKT_FIELDS(PlanEntry, request, lane, tokens, position, speculative, flags)
TAKT_FIELDS_BUT_RESERVED(KvMove, "id, request, action, first, count", object.id, object.request, object.action,
                         object.first, object.count)
TAKT_FIELDS_BUT_RESERVED(Preemption, "request, action", object.request, object.action)
TAKT_FIELDS_BUT_RESERVED(Failure, "request, reason, code", object.request, object.reason, object.code)
TAKT_FIELDS(RowResult, request, lane, tokens, drafts, flags)
TAKT_FIELDS(Arrived, request)
TAKT_FIELDS(Revised, request, output_tokens, workflow_tokens_left, after, deadline, expires_at, priority, sequences,
            next_call)
TAKT_FIELDS(Blocked, request)
TAKT_FIELDS(Unblocked, request, computed)
TAKT_FIELDS(ToolCalled, request, expected, expected_returned, tool)
TAKT_FIELDS(ToolReturned, request, returned, next_call)
TAKT_FIELDS(Cancelled, request)
TAKT_FIELDS(MoveDone, move, failed)
TAKT_FIELDS(KvFreed, request)
TAKT_NO_FIELDS(Drain)
TAKT_FIELDS(NotReady, request)
TAKT_FIELDS(KvArrived, request, computed)
TAKT_FIELDS(KvLost, request, from)
TAKT_FIELDS(KvPinned, request)
TAKT_FIELDS(TurnEnded, workflow, branch, why, tool, expected, pin)
TAKT_FIELDS(WorkflowEnded, workflow, cancelled)
TAKT_FIELDS(TurnExpected, workflow, branch, when)

constexpr std::string_view kEventNames[] = {  // by the place in LoggedEvent
    "arrived", "revised", "blocked", "unblocked", "tool_called", "tool_returned", "cancelled", "move_done", "kv_freed",
    "policy_changed", "drain", "epoch", "not_ready", "kv_arrived", "kv_lost", "kv_pinned", "turn_ended",
    "workflow_ended", "retention_set", "turn_expected"};

}  // namespace takt::internal

#endif  // TAKT_SRC_RECORD_MODEL_FIELDS_H_
