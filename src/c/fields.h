// Which fields of C and of C++ are the same, and what is sound in C.
// Made by scripts/mirrors of include/takt/model/; not to be edited.
#ifndef TAKT_SRC_C_FIELDS_H_
#define TAKT_SRC_C_FIELDS_H_

#include <cstdint>

#include "c/handle.h"
#include "c/same.h"
#include "takt/learning/tool_profile.h"
#include "takt/model/agent_ranks.h"
#include "takt/model/estimate.h"
#include "takt/model/event.h"
#include "takt/model/fault.h"
#include "takt/model/instance.h"
#include "takt/model/request.h"
#include "takt/model/step.h"
#include "takt/model/workflow.h"
#include "takt/queue/waiting_queue.h"
#include "takt/router/notices.h"

namespace takt::c {

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
TAKT_SAME_SIZE(ModelScore, takt_model_score);
TAKT_SAME_PLACE(ModelScore, takt_model_score, model);
TAKT_SAME_PLACE(ModelScore, takt_model_score, score);
TAKT_SAME_PLACE(ModelScore, takt_model_score, tokens);
TAKT_SAME_SIZE(AgentRank, takt_agent_rank);
TAKT_SAME_PLACE(AgentRank, takt_agent_rank, agent);
TAKT_SAME_PLACE(AgentRank, takt_agent_rank, rank);
TAKT_SAME_PLACE(AgentRank, takt_agent_rank, execution_s);
TAKT_SAME_PLACE(AgentRank, takt_agent_rank, stages_left);
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
TAKT_SAME_PLACE(KvMove, takt_move, reserved);
TAKT_SAME_PLACE(KvMove, takt_move, first);
TAKT_SAME_PLACE(KvMove, takt_move, count);
TAKT_SAME_PLACE(KvMove, takt_move, reserved_too);
TAKT_SAME_SIZE(Preemption, takt_preemption);
TAKT_SAME_PLACE(Preemption, takt_preemption, request);
TAKT_SAME_PLACE(Preemption, takt_preemption, action);
TAKT_SAME_PLACE(Preemption, takt_preemption, reserved);
TAKT_SAME_SIZE(Failure, takt_failure);
TAKT_SAME_PLACE(Failure, takt_failure, request);
TAKT_SAME_PLACE(Failure, takt_failure, reason);
TAKT_SAME_PLACE(Failure, takt_failure, reserved);
TAKT_SAME_PLACE(Failure, takt_failure, code);
TAKT_SAME_PLACE(Failure, takt_failure, reserved_too);
TAKT_SAME_SIZE(DroppedPrefix, takt_dropped_prefix);
TAKT_SAME_PLACE(DroppedPrefix, takt_dropped_prefix, hash);
TAKT_SAME_PLACE(DroppedPrefix, takt_dropped_prefix, blocks);
TAKT_SAME_PLACE(DroppedPrefix, takt_dropped_prefix, reserved);
TAKT_SAME_SIZE(CacheHint, takt_cache_hint);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, workflow);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, branch);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, action);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, priority);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, reserved);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, until);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, tokens);
TAKT_SAME_PLACE(CacheHint, takt_cache_hint, reserved_too);
TAKT_SAME_SIZE(HostChunk, takt_host_chunk);
TAKT_SAME_PLACE(HostChunk, takt_host_chunk, hash);
TAKT_SAME_PLACE(HostChunk, takt_host_chunk, blocks);
TAKT_SAME_PLACE(HostChunk, takt_host_chunk, action);
TAKT_SAME_PLACE(HostChunk, takt_host_chunk, reserved);
TAKT_SAME_SIZE(AnyWaitingQueue::Ran, takt_ran);
TAKT_SAME_PLACE(AnyWaitingQueue::Ran, takt_ran, request);
TAKT_SAME_PLACE(AnyWaitingQueue::Ran, takt_ran, prefill);
TAKT_SAME_PLACE(AnyWaitingQueue::Ran, takt_ran, output);
TAKT_SAME_SIZE(AnyWaitingQueue::Holding, takt_holding);
TAKT_SAME_PLACE(AnyWaitingQueue::Holding, takt_holding, request);
TAKT_SAME_PLACE(AnyWaitingQueue::Holding, takt_holding, blocks);
TAKT_SAME_SIZE(Placement, takt_placement);
TAKT_SAME_PLACE(Placement, takt_placement, request);
TAKT_SAME_PLACE(Placement, takt_placement, instance);
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

static_assert(int{TAKT_TURN_UNKNOWN} == static_cast<int>(TurnWhy::kUnknown));
static_assert(int{TAKT_TURN_TOOL} == static_cast<int>(TurnWhy::kTool));
static_assert(int{TAKT_TURN_USER} == static_cast<int>(TurnWhy::kUser));
static_assert(int{TAKT_TURN_CHILDREN} == static_cast<int>(TurnWhy::kChildren));
static_assert(int{TAKT_TURN_OVER} == static_cast<int>(TurnWhy::kOver));
static_assert(int{TAKT_ROLE_BOTH} == static_cast<int>(InstanceRole::kBoth));
static_assert(int{TAKT_ROLE_PREFILL} == static_cast<int>(InstanceRole::kPrefill));
static_assert(int{TAKT_ROLE_DECODE} == static_cast<int>(InstanceRole::kDecode));
static_assert(int{TAKT_FAULT_NONE} == static_cast<int>(FaultKind::kNone));
static_assert(int{TAKT_FAULT_NO_ID} == static_cast<int>(FaultKind::kNoId));
static_assert(int{TAKT_FAULT_ID_IN_USE} == static_cast<int>(FaultKind::kIdInUse));
static_assert(int{TAKT_FAULT_PROMPT_TOKENS} == static_cast<int>(FaultKind::kPromptTokens));
static_assert(int{TAKT_FAULT_MAX_OUTPUT_TOKENS} == static_cast<int>(FaultKind::kMaxOutputTokens));
static_assert(int{TAKT_FAULT_SEQUENCES} == static_cast<int>(FaultKind::kSequences));
static_assert(int{TAKT_FAULT_UNKNOWN_REQUEST} == static_cast<int>(FaultKind::kUnknownRequest));
static_assert(int{TAKT_FAULT_UNKNOWN_MOVE} == static_cast<int>(FaultKind::kUnknownMove));
static_assert(int{TAKT_FAULT_OUT_OF_PLACE} == static_cast<int>(FaultKind::kOutOfPlace));
static_assert(int{TAKT_FAULT_ABSURD_ESTIMATE} == static_cast<int>(FaultKind::kAbsurdEstimate));
static_assert(int{TAKT_FAULT_CLOCK_BACK} == static_cast<int>(FaultKind::kClockBack));
static_assert(int{TAKT_FAULT_UNKNOWN_STEP} == static_cast<int>(FaultKind::kUnknownStep));
static_assert(int{TAKT_FAULT_UNKNOWN_ROW} == static_cast<int>(FaultKind::kUnknownRow));
static_assert(int{TAKT_FAULT_INVALID_ROW} == static_cast<int>(FaultKind::kInvalidRow));
static_assert(int{TAKT_FAULT_UNKNOWN_INSTANCE} == static_cast<int>(FaultKind::kUnknownInstance));
static_assert(int{TAKT_FAULT_INVALID_EVENT} == static_cast<int>(FaultKind::kInvalidEvent));
static_assert(int{TAKT_FAULT_WORKFLOW} == static_cast<int>(FaultKind::kWorkflow));
static_assert(int{TAKT_FAULT_ENDED} == static_cast<int>(FaultKind::kEnded));
static_assert(int{TAKT_FAULT_CHUNK_ALIGN} == static_cast<int>(FaultKind::kChunkAlign));
static_assert(int{TAKT_ENTRY_PREFILL} == static_cast<int>(PlanEntry::kPrefill));
static_assert(int{TAKT_ENTRY_SAMPLES} == static_cast<int>(PlanEntry::kSamples));
static_assert(int{TAKT_ENTRY_ADMITTED} == static_cast<int>(PlanEntry::kAdmitted));
static_assert(int{TAKT_ENTRY_GATED} == static_cast<int>(PlanEntry::kGated));
static_assert(int{TAKT_ROW_FINISHED} == static_cast<int>(RowResult::kFinished));
static_assert(int{TAKT_ROW_FAILED} == static_cast<int>(RowResult::kFailed));
static_assert(int{TAKT_KV_KEEP} == static_cast<int>(KvAction::kKeep));
static_assert(int{TAKT_KV_DROP} == static_cast<int>(KvAction::kDrop));
static_assert(int{TAKT_KV_OUT} == static_cast<int>(KvAction::kOut));
static_assert(int{TAKT_KV_IN} == static_cast<int>(KvAction::kIn));
static_assert(int{TAKT_KV_FETCH} == static_cast<int>(KvAction::kFetch));
static_assert(int{TAKT_FAIL_INVALID} == static_cast<int>(FailReason::kInvalid));
static_assert(int{TAKT_FAIL_NEVER_FITS} == static_cast<int>(FailReason::kNeverFits));
static_assert(int{TAKT_FAIL_KV_EXHAUSTED} == static_cast<int>(FailReason::kKvExhausted));
static_assert(int{TAKT_FAIL_EXPIRED} == static_cast<int>(FailReason::kExpired));
static_assert(int{TAKT_FAIL_SHED} == static_cast<int>(FailReason::kShed));
static_assert(int{TAKT_FAIL_DRAINING} == static_cast<int>(FailReason::kDraining));
static_assert(int{TAKT_FAIL_HOST} == static_cast<int>(FailReason::kHost));
static_assert(int{TAKT_FAIL_ID_IN_USE} == static_cast<int>(FailReason::kIdInUse));
static_assert(int{TAKT_CACHE_HOLD} == static_cast<int>(CacheAction::kHold));
static_assert(int{TAKT_CACHE_DROP} == static_cast<int>(CacheAction::kDrop));
static_assert(int{TAKT_CACHE_FETCH} == static_cast<int>(CacheAction::kFetch));
static_assert(int{TAKT_IDLE_BUSY} == static_cast<int>(Idle::kBusy));
static_assert(int{TAKT_IDLE_NO_REQUESTS} == static_cast<int>(Idle::kNoRequests));
static_assert(int{TAKT_IDLE_DRAINED} == static_cast<int>(Idle::kDrained));
static_assert(int{TAKT_IDLE_STEPS_IN_FLIGHT} == static_cast<int>(Idle::kStepsInFlight));
static_assert(int{TAKT_IDLE_MOVES_IN_FLIGHT} == static_cast<int>(Idle::kMovesInFlight));
static_assert(int{TAKT_IDLE_KV_PENDING} == static_cast<int>(Idle::kKvPending));
static_assert(int{TAKT_IDLE_PAUSED} == static_cast<int>(Idle::kPaused));
static_assert(int{TAKT_IDLE_BLOCKED} == static_cast<int>(Idle::kBlocked));
static_assert(int{TAKT_IDLE_NO_BUDGET} == static_cast<int>(Idle::kNoBudget));
static_assert(int{TAKT_IDLE_KV_HELD} == static_cast<int>(Idle::kKvHeld));
static_assert(int{TAKT_IDLE_ENDED} == static_cast<int>(Idle::kEnded));
static_assert(int{TAKT_IDLE_DECLINED} == static_cast<int>(Idle::kDeclined));
static_assert(int{TAKT_IDLE_GATED} == static_cast<int>(Idle::kGated));
static_assert(int{TAKT_WORKFLOW_COMPLETED} == static_cast<int>(WorkflowEnd::kCompleted));
static_assert(int{TAKT_WORKFLOW_CANCELLED} == static_cast<int>(WorkflowEnd::kCancelled));
static_assert(int{TAKT_WORKFLOW_SILENT} == static_cast<int>(WorkflowEnd::kSilent));

// Calls f with each pair of fields.
template <class F, Either<takt_request> C, Either<Request> T>
void Pair(const F& f, C& c, T& t) {
  f.Flag(c.flags, TAKT_REQUEST_UNCHUNKABLE, t.chunkable);
  f.Flag(c.flags, TAKT_REQUEST_UNPREEMPTIBLE, t.preemptible);
  f(c.id, t.id);
  f(c.workflow, t.workflow);
  f(c.stage, t.stage);
  f(c.agent, t.agent);
  f(c.tenant, t.tenant);
  f(c.adapter, t.adapter);
  f(c.arrival, t.arrival);
  f(c.workflow_arrival, t.workflow_arrival);
  f(c.deadline, t.deadline);
  f(c.expires_at, t.expires_at);
  f(c.prompt_tokens, t.prompt_tokens);
  f(c.max_output_tokens, t.max_output_tokens);
  f(c.sequences, t.sequences);
  f(c.priority, t.priority);
  f(c.output_tokens, t.output_tokens);
  f(c.workflow_tokens_left, t.workflow_tokens_left);
  f(c.after, t.after);
  f(c.next_call, t.next_call);
  f(c.compute, t.compute);
  f.Prefix(c, t.prefix);
  f.Array(c.scores, c.n_scores, t.scores);
  f(c.session, t.session);
  f(c.branch, t.branch);
  f(c.salt, t.salt);
}
template <class F, Either<takt_instance> C, Either<Instance> T>
void Pair(const F& f, C& c, T& t) {
  f(c.kv_tokens, t.kv_tokens);
  f(c.id, t.id);
  f(c.model, t.model);
  f(c.capacity, t.capacity);
  f(c.token_s, t.token_s);
  f(c.profile, t.profile);
  f(c.role, t.role);
  f(c.life, t.life);
}
template <class F, Either<takt_stage> C, Either<WorkflowStage> T>
void Pair(const F& f, C& c, T& t) {
  f(c.stage, t.stage);
  f.Array(c.after, c.n_after, t.after);
  f(c.cost_s, t.cost_s);
  f(c.calls, t.calls);
}
template <class F, Either<takt_workflow> C, Either<Workflow> T>
void Pair(const F& f, C& c, T& t) {
  f(c.open, t.open);
  f(c.id, t.id);
  f(c.tenant, t.tenant);
  f(c.arrival, t.arrival);
  f(c.deadline, t.deadline);
  f.Array(c.stages, c.n_stages, t.stages);
}
template <class F, Either<takt_limits> C, Either<StepLimits> T>
void Pair(const F& f, C& c, T& t) {
  f(c.tokens, t.tokens);
  f(c.max_seqs, t.max_seqs);
  f(c.prefill_tokens, t.prefill_tokens);
  f(c.chunk_tokens, t.chunk_tokens);
  f(c.adapters, t.adapters);
  f(c.swap_out, t.swap_out);
  f(c.swap_in, t.swap_in);
  f(c.chunk_align, t.chunk_align);
}
template <class F, Either<takt_request> C, Either<Revised> T>
void Pair(const F& f, C& c, T& t) {
  f(c.id, t.request);
  f.IfRevised(TAKT_REVISED_OUTPUT_TOKENS, c.output_tokens, t.output_tokens);
  f.IfRevised(TAKT_REVISED_WORKFLOW_TOKENS_LEFT, c.workflow_tokens_left, t.workflow_tokens_left);
  f.IfRevised(TAKT_REVISED_AFTER, c.after, t.after);
  f.IfRevised(TAKT_REVISED_DEADLINE, c.deadline, t.deadline);
  f.IfRevised(TAKT_REVISED_EXPIRES_AT, c.expires_at, t.expires_at);
  f.IfRevised(TAKT_REVISED_PRIORITY, c.priority, t.priority);
  f.IfRevised(TAKT_REVISED_SEQUENCES, c.sequences, t.sequences);
  f.IfRevised(TAKT_REVISED_NEXT_CALL, c.next_call, t.next_call);
}

// The fields that takt_queue_revise accepts.
inline constexpr std::uint32_t kRevised = TAKT_REVISED_OUTPUT_TOKENS | TAKT_REVISED_WORKFLOW_TOKENS_LEFT | TAKT_REVISED_AFTER | TAKT_REVISED_DEADLINE | TAKT_REVISED_EXPIRES_AT | TAKT_REVISED_PRIORITY | TAKT_REVISED_SEQUENCES | TAKT_REVISED_NEXT_CALL | TAKT_REVISED_PROMPT_TOKENS | TAKT_REVISED_ARRIVAL;

template <class F, Either<takt_event> C, Either<Arrived> T>
void Pair(const F& f, C& c, T& t) {
  f.Struct(c.u.arrived.request, t.request);
}
template <class F, Either<takt_event> C, Either<Revised> T>
void Pair(const F& f, C& c, T& t) {
  f.Revision(c.u.revised.request, c.u.revised.fields, t);
}
template <class F, Either<takt_event> C, Either<Blocked> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.request, t.request);
}
template <class F, Either<takt_event> C, Either<Unblocked> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.kv.request, t.request);
  f(c.u.kv.tokens, t.computed);
}
template <class F, Either<takt_event> C, Either<ToolCalled> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.tool_called.request, t.request);
  f(c.u.tool_called.expected, t.expected);
  f(c.u.tool_called.expected_returned, t.expected_returned);
  f(c.u.tool_called.tool, t.tool);
}
template <class F, Either<takt_event> C, Either<ToolReturned> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.tool_returned.request, t.request);
  f(c.u.tool_returned.returned, t.returned);
  f(c.u.tool_returned.next_call, t.next_call);
}
template <class F, Either<takt_event> C, Either<Cancelled> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.request, t.request);
}
template <class F, Either<takt_event> C, Either<MoveDone> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.move_done.move, t.move);
  f(c.u.move_done.failed, t.failed);
}
template <class F, Either<takt_event> C, Either<KvFreed> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.request, t.request);
}
template <class F, Either<takt_event> C>
void Pair(const F&, C&, const Drain&) {}
template <class F, Either<takt_event> C, Either<NotReady> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.request, t.request);
}
template <class F, Either<takt_event> C, Either<KvArrived> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.kv.request, t.request);
  f(c.u.kv.tokens, t.computed);
}
template <class F, Either<takt_event> C, Either<KvLost> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.kv.request, t.request);
  f(c.u.kv.tokens, t.from);
}
template <class F, Either<takt_event> C, Either<KvPinned> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.request, t.request);
}
template <class F, Either<takt_event> C, Either<TurnEnded> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.turn_ended.workflow, t.workflow);
  f(c.u.turn_ended.branch, t.branch);
  f(c.u.turn_ended.why, t.why);
  f(c.u.turn_ended.tool, t.tool);
  f(c.u.turn_ended.expected, t.expected);
  f(c.u.turn_ended.pin, t.pin);
}
template <class F, Either<takt_event> C, Either<WorkflowEnded> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.workflow_ended.workflow, t.workflow);
  f(c.u.workflow_ended.cancelled, t.cancelled);
}
template <class F, Either<takt_event> C, Either<TurnExpected> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.turn_expected.workflow, t.workflow);
  f(c.u.turn_expected.branch, t.branch);
  f(c.u.turn_expected.when, t.when);
}
template <class F, Either<takt_event> C, Either<RequestStarted> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.request_started.request, t.request);
  f(c.u.request_started.instance, t.instance);
  f(c.u.request_started.life, t.life);
}
template <class F, Either<takt_event> C, Either<RequestServed> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.request_served.request, t.request);
  f(c.u.request_served.instance, t.instance);
  f(c.u.request_served.prefill, t.served.prefill);
  f(c.u.request_served.output, t.served.output);
  f(c.u.request_served.life, t.life);
}
template <class F, Either<takt_event> C, Either<RequestEnded> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.request_ended.request, t.request);
  f(c.u.request_ended.instance, t.instance);
  f.Optional(c.u.request_ended.served, t.served, [&](auto& given) { f(c.u.request_ended.prefill, given.prefill); f(c.u.request_ended.output, given.output); });
  f(c.u.request_ended.failed, t.failed);
  f(c.u.request_ended.life, t.life);
}
template <class F, Either<takt_event> C, Either<InstanceUp> T>
void Pair(const F& f, C& c, T& t) {
  f.Struct(c.u.instance_up.instance, t.instance);
}
template <class F, Either<takt_event> C, Either<InstanceDown> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.instance_down.instance, t.instance);
  f(c.u.instance_down.life, t.life);
}
template <class F, Either<takt_event> C, Either<InstanceReported> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.instance_reported.instance, t.instance);
  f(c.u.instance_reported.waiting, t.report.waiting);
  f(c.u.instance_reported.running, t.report.running);
  f(c.u.instance_reported.preempted, t.report.preempted);
  f(c.u.instance_reported.kv_used, t.report.kv_used);
  f.Dated(c.u.instance_reported.dated, c.u.instance_reported.as_of, t.report.as_of);
  f(c.u.instance_reported.life, t.life);
}
template <class F, Either<takt_event> C, Either<WorkflowDeclared> T>
void Pair(const F& f, C& c, T& t) {
  f.Struct(c.u.workflow_declared.workflow, t.workflow);
}
template <class F, Either<takt_event> C, Either<WorkflowGrown> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.workflow_grown.workflow, t.workflow);
  f.Struct(c.u.workflow_grown.stage, t.stage);
  f.Array(c.u.workflow_grown.before, c.u.workflow_grown.n_before, t.before);
}
template <class F, Either<takt_event> C, Either<StageEnded> T>
void Pair(const F& f, C& c, T& t) {
  f(c.u.stage_ended.workflow, t.workflow);
  f(c.u.stage_ended.stage, t.stage);
}

takt_status Sound(const takt_request* given);
takt_status Sound(const takt_instance* given);
takt_status Sound(const takt_stage* given);
takt_status Sound(const takt_workflow* given);

// What is reserved, flags, arrays.
inline takt_status SoundFields(const takt_request& c) {
  return FirstOf(Meant(c.reserved == 0), Meant((c.flags & ~std::uint32_t{TAKT_REQUEST_UNCHUNKABLE |
                 TAKT_REQUEST_UNPREEMPTIBLE}) == 0), Meant(c.output_tokens.reserved == 0),
                 Meant(c.workflow_tokens_left.reserved == 0), Given(c.prefix_hashes, c.n_prefix_hashes), Given(c.scores,
                 c.n_scores));
}
inline takt_status SoundFields(const takt_instance& c) {
  return Meant(c.reserved == 0);
}
inline takt_status SoundFields(const takt_stage& c) {
  return FirstOf(Meant(c.reserved == 0), Given(c.after, c.n_after));
}
inline takt_status SoundFields(const takt_workflow& c) {
  return Given(c.stages, c.n_stages);
}
inline takt_status SoundAs(const Arrived*, const takt_event& c) {
  return Sound(c.u.arrived.request);
}
inline takt_status SoundAs(const Revised*, const takt_event& c) {
  return FirstOf(Meant((c.u.revised.fields & ~std::uint32_t{TAKT_REVISED_OUTPUT_TOKENS |
                 TAKT_REVISED_WORKFLOW_TOKENS_LEFT | TAKT_REVISED_AFTER | TAKT_REVISED_DEADLINE |
                 TAKT_REVISED_EXPIRES_AT | TAKT_REVISED_PRIORITY | TAKT_REVISED_SEQUENCES | TAKT_REVISED_NEXT_CALL}) ==
                 0), Meant(c.u.revised.reserved == 0), Sound(c.u.revised.request));
}
inline takt_status SoundAs(const Blocked*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const Unblocked*, const takt_event& c) {
  return Meant(c.u.kv.reserved == 0);
}
inline takt_status SoundAs(const ToolCalled*, const takt_event& c) {
  return Meant(c.u.tool_called.reserved == 0);
}
inline takt_status SoundAs(const ToolReturned*, const takt_event& c) {
  return Meant(c.u.tool_returned.reserved == 0);
}
inline takt_status SoundAs(const Cancelled*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const MoveDone*, const takt_event& c) {
  return Meant(c.u.move_done.reserved == 0);
}
inline takt_status SoundAs(const KvFreed*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const Drain*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const NotReady*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const KvArrived*, const takt_event& c) {
  return Meant(c.u.kv.reserved == 0);
}
inline takt_status SoundAs(const KvLost*, const takt_event& c) {
  return Meant(c.u.kv.reserved == 0);
}
inline takt_status SoundAs(const KvPinned*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const TurnEnded*, const takt_event& c) {
  return FirstOf(Meant(c.u.turn_ended.reserved == 0), Meant(c.u.turn_ended.why <= TAKT_TURN_OVER),
                 Meant(c.u.turn_ended.expected >= 0), Meant(c.u.turn_ended.pin >= 0));
}
inline takt_status SoundAs(const WorkflowEnded*, const takt_event& c) {
  return Meant(c.u.workflow_ended.reserved == 0);
}
inline takt_status SoundAs(const TurnExpected*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const RequestStarted*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const RequestServed*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const RequestEnded*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const InstanceUp*, const takt_event& c) {
  return Sound(c.u.instance_up.instance);
}
inline takt_status SoundAs(const InstanceDown*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const InstanceReported*, const takt_event&) { return TAKT_OK; }
inline takt_status SoundAs(const WorkflowDeclared*, const takt_event& c) {
  return Sound(c.u.workflow_declared.workflow);
}
inline takt_status SoundAs(const WorkflowGrown*, const takt_event& c) {
  return FirstOf(Sound(c.u.workflow_grown.stage), Given(c.u.workflow_grown.before, c.u.workflow_grown.n_before));
}
inline takt_status SoundAs(const StageEnded*, const takt_event& c) {
  return Meant(c.u.stage_ended.reserved == 0);
}

// The number of an event.
template <class E>
inline constexpr std::uint32_t kNumber = 0;
template <>
inline constexpr std::uint32_t kNumber<Arrived> = TAKT_EVENT_ARRIVED;
template <>
inline constexpr std::uint32_t kNumber<Revised> = TAKT_EVENT_REVISED;
template <>
inline constexpr std::uint32_t kNumber<Blocked> = TAKT_EVENT_BLOCKED;
template <>
inline constexpr std::uint32_t kNumber<Unblocked> = TAKT_EVENT_UNBLOCKED;
template <>
inline constexpr std::uint32_t kNumber<ToolCalled> = TAKT_EVENT_TOOL_CALLED;
template <>
inline constexpr std::uint32_t kNumber<ToolReturned> = TAKT_EVENT_TOOL_RETURNED;
template <>
inline constexpr std::uint32_t kNumber<Cancelled> = TAKT_EVENT_CANCELLED;
template <>
inline constexpr std::uint32_t kNumber<MoveDone> = TAKT_EVENT_MOVE_DONE;
template <>
inline constexpr std::uint32_t kNumber<KvFreed> = TAKT_EVENT_KV_FREED;
template <>
inline constexpr std::uint32_t kNumber<Drain> = TAKT_EVENT_DRAIN;
template <>
inline constexpr std::uint32_t kNumber<NotReady> = TAKT_EVENT_NOT_READY;
template <>
inline constexpr std::uint32_t kNumber<KvArrived> = TAKT_EVENT_KV_ARRIVED;
template <>
inline constexpr std::uint32_t kNumber<KvLost> = TAKT_EVENT_KV_LOST;
template <>
inline constexpr std::uint32_t kNumber<KvPinned> = TAKT_EVENT_KV_PINNED;
template <>
inline constexpr std::uint32_t kNumber<TurnEnded> = TAKT_EVENT_TURN_ENDED;
template <>
inline constexpr std::uint32_t kNumber<WorkflowEnded> = TAKT_EVENT_WORKFLOW_ENDED;
template <>
inline constexpr std::uint32_t kNumber<TurnExpected> = TAKT_EVENT_TURN_EXPECTED;
template <>
inline constexpr std::uint32_t kNumber<RequestStarted> = TAKT_EVENT_REQUEST_STARTED;
template <>
inline constexpr std::uint32_t kNumber<RequestServed> = TAKT_EVENT_REQUEST_SERVED;
template <>
inline constexpr std::uint32_t kNumber<RequestEnded> = TAKT_EVENT_REQUEST_ENDED;
template <>
inline constexpr std::uint32_t kNumber<InstanceUp> = TAKT_EVENT_INSTANCE_UP;
template <>
inline constexpr std::uint32_t kNumber<InstanceDown> = TAKT_EVENT_INSTANCE_DOWN;
template <>
inline constexpr std::uint32_t kNumber<InstanceReported> = TAKT_EVENT_INSTANCE_REPORTED;
template <>
inline constexpr std::uint32_t kNumber<WorkflowDeclared> = TAKT_EVENT_WORKFLOW_DECLARED;
template <>
inline constexpr std::uint32_t kNumber<WorkflowGrown> = TAKT_EVENT_WORKFLOW_GROWN;
template <>
inline constexpr std::uint32_t kNumber<StageEnded> = TAKT_EVENT_STAGE_ENDED;

// Calls f with the type of an event, as a null pointer; `otherwise` for a number that is none.
template <class F, class T>
T OfType(std::uint32_t type, T otherwise, F&& f) {
  switch (type) {
    case TAKT_EVENT_ARRIVED: return f(static_cast<const Arrived*>(nullptr));
    case TAKT_EVENT_REVISED: return f(static_cast<const Revised*>(nullptr));
    case TAKT_EVENT_BLOCKED: return f(static_cast<const Blocked*>(nullptr));
    case TAKT_EVENT_UNBLOCKED: return f(static_cast<const Unblocked*>(nullptr));
    case TAKT_EVENT_TOOL_CALLED: return f(static_cast<const ToolCalled*>(nullptr));
    case TAKT_EVENT_TOOL_RETURNED: return f(static_cast<const ToolReturned*>(nullptr));
    case TAKT_EVENT_CANCELLED: return f(static_cast<const Cancelled*>(nullptr));
    case TAKT_EVENT_MOVE_DONE: return f(static_cast<const MoveDone*>(nullptr));
    case TAKT_EVENT_KV_FREED: return f(static_cast<const KvFreed*>(nullptr));
    case TAKT_EVENT_DRAIN: return f(static_cast<const Drain*>(nullptr));
    case TAKT_EVENT_NOT_READY: return f(static_cast<const NotReady*>(nullptr));
    case TAKT_EVENT_KV_ARRIVED: return f(static_cast<const KvArrived*>(nullptr));
    case TAKT_EVENT_KV_LOST: return f(static_cast<const KvLost*>(nullptr));
    case TAKT_EVENT_KV_PINNED: return f(static_cast<const KvPinned*>(nullptr));
    case TAKT_EVENT_TURN_ENDED: return f(static_cast<const TurnEnded*>(nullptr));
    case TAKT_EVENT_WORKFLOW_ENDED: return f(static_cast<const WorkflowEnded*>(nullptr));
    case TAKT_EVENT_TURN_EXPECTED: return f(static_cast<const TurnExpected*>(nullptr));
    case TAKT_EVENT_REQUEST_STARTED: return f(static_cast<const RequestStarted*>(nullptr));
    case TAKT_EVENT_REQUEST_SERVED: return f(static_cast<const RequestServed*>(nullptr));
    case TAKT_EVENT_REQUEST_ENDED: return f(static_cast<const RequestEnded*>(nullptr));
    case TAKT_EVENT_INSTANCE_UP: return f(static_cast<const InstanceUp*>(nullptr));
    case TAKT_EVENT_INSTANCE_DOWN: return f(static_cast<const InstanceDown*>(nullptr));
    case TAKT_EVENT_INSTANCE_REPORTED: return f(static_cast<const InstanceReported*>(nullptr));
    case TAKT_EVENT_WORKFLOW_DECLARED: return f(static_cast<const WorkflowDeclared*>(nullptr));
    case TAKT_EVENT_WORKFLOW_GROWN: return f(static_cast<const WorkflowGrown*>(nullptr));
    case TAKT_EVENT_STAGE_ENDED: return f(static_cast<const StageEnded*>(nullptr));
    default: return otherwise;
  }
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_FIELDS_H_
