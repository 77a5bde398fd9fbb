// The fields of all that a log holds, each type listed once: written, read, hashed and printed from here.
#ifndef TAKT_SRC_RECORD_FIELDS_H_
#define TAKT_SRC_RECORD_FIELDS_H_

#include <concepts>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/record.h"
#include "takt/scheduler_options.h"

namespace takt::internal {

// Fields(object) is a tuple of references to all fields of an aggregate; a field that is missing in the list does
// not compile. FieldNames is the list as written. Order and defaults belong to the log's format: a change of either
// is a new version of it, except for a field added at the end.
#define TAKT_FIELDS(Type, ...)                          \
  template <class T>                                    \
    requires std::same_as<std::remove_const_t<T>, Type> \
  auto Fields(T& object) {                              \
    auto& [__VA_ARGS__] = object;                       \
    return std::tie(__VA_ARGS__);                       \
  }                                                     \
  constexpr std::string_view FieldNames(const Type*) { return #__VA_ARGS__; }

#define TAKT_NO_FIELDS(Type)                             \
  inline std::tuple<> Fields(const Type&) { return {}; } \
  constexpr std::string_view FieldNames(const Type*) { return ""; }

TAKT_FIELDS(PrefixBlocks, block_tokens, hashes)
TAKT_FIELDS(AgentRank, agent, rank, execution_s, stages_left)
TAKT_FIELDS(AgentRanks, ranks, otherwise)
TAKT_FIELDS(WorkAfter, calls, prompt_tokens, output_tokens, kv_steps, path_tokens)
TAKT_FIELDS(NextCall, tool, after, returned, duration)
TAKT_FIELDS(Request, id, workflow, stage, agent, tenant, adapter, arrival, workflow_arrival, deadline, expires_at,
            prompt_tokens, max_output_tokens, sequences, priority, chunkable, preemptible, output_tokens,
            workflow_tokens_left, after, prefix, next_call, compute, scores)

TAKT_FIELDS(Arrived, request)
TAKT_FIELDS(Revised, request, output_tokens, workflow_tokens_left, after, deadline, expires_at, priority, sequences,
            next_call)
TAKT_FIELDS(Blocked, request)
TAKT_FIELDS(Unblocked, request)
TAKT_FIELDS(ToolCalled, request, expected, expected_returned, tool)
TAKT_FIELDS(ToolReturned, request, returned, next_call)
TAKT_FIELDS(Cancelled, request)
TAKT_FIELDS(MoveDone, move, failed)
TAKT_NO_FIELDS(KvFreed)
TAKT_FIELDS(PolicyChanged, policy)
TAKT_NO_FIELDS(Drain)
TAKT_FIELDS(Epoch, agent_ranks, alpha)

TAKT_FIELDS(SchedulerOptions, max_running, max_waiting, reserve_requests, shed, order, preempt, preempt_action,
            preempt_margin, kv, kv_block_tokens, kv_blocks, cpu_blocks, kv_watermark, prefix_cache, admission_window,
            first_step, hash_seed, max_step_tokens, max_step_seqs)
TAKT_FIELDS(StepLimits, tokens, max_seqs, prefill_tokens, chunk_tokens, adapters, swap_out, swap_in)
TAKT_FIELDS(PlanEntry, request, lane, tokens, position, speculative, flags)
TAKT_FIELDS(KvMove, id, request, action, first, count)
TAKT_FIELDS(Preemption, request, action)
TAKT_FIELDS(Failure, request, reason)
TAKT_FIELDS(KeptPlan, id, run, moves, preempted, failed, released, tokens, idle, wake_at)
TAKT_FIELDS(RowResult, request, lane, tokens, drafts, flags)
TAKT_FIELDS(PlanDigest, id, tokens, idle, wake_at, entries, run, moves, preempted, failed, released)

TAKT_FIELDS(LogStart, options, policy, pause)
TAKT_FIELDS(LogPlan, now, limits)
TAKT_FIELDS(LogStep, digest, plan)
TAKT_FIELDS(LogCommit, now, step, rows)
TAKT_FIELDS(LogAnswer, question, value, granted)

#undef TAKT_FIELDS
#undef TAKT_NO_FIELDS

template <class T>
concept HasFields = requires(T& object) { Fields(object); };

// The largest value of each enum: what lies beyond is no value of it.
constexpr KvMode Last(KvMode) { return KvMode::kOracle; }
constexpr StepOrder Last(StepOrder) { return StepOrder::kPrefillFirst; }
constexpr PreemptMode Last(PreemptMode) { return PreemptMode::kByRank; }
constexpr Shed Last(Shed) { return Shed::kWorst; }
constexpr KvAction Last(KvAction) { return KvAction::kIn; }
constexpr FailReason Last(FailReason) { return FailReason::kIdInUse; }
constexpr Idle Last(Idle) { return Idle::kEnded; }
constexpr OracleQuestion Last(OracleQuestion) { return OracleQuestion::kRelease; }

}  // namespace takt::internal

#endif  // TAKT_SRC_RECORD_FIELDS_H_
