// The fields of all that a log holds, each type listed once: written, read, hashed and printed from here.
#ifndef TAKT_SRC_RECORD_FIELDS_H_
#define TAKT_SRC_RECORD_FIELDS_H_

#include <concepts>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "takt/turns/return_times.h"
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
            workflow_tokens_left, after, prefix, next_call, compute, scores, session, branch, salt)

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
TAKT_FIELDS(NotReady, request)
TAKT_FIELDS(KvArrived, request, computed)
TAKT_FIELDS(KvLost, request, from)
TAKT_FIELDS(KvPinned, request)
TAKT_FIELDS(TurnEnded, workflow, branch, why, tool, expected, pin)
TAKT_FIELDS(TurnExpected, workflow, branch, when)
TAKT_FIELDS(WorkflowEnded, workflow, cancelled)
TAKT_FIELDS(LogPolicy, policy)
TAKT_FIELDS(ReturnTimesOptions, classes, window, prior_weight, max_open, refresh, hash_seed)
TAKT_FIELDS(LogRetention, retention, gate, times)
TAKT_NO_FIELDS(Drain)
TAKT_FIELDS(Epoch, agent_ranks, alpha)

TAKT_FIELDS(PlanEntry, request, lane, tokens, position, speculative, flags)
// Of these, but for what is reserved.
template <class T>
  requires std::same_as<std::remove_const_t<T>, KvMove>
auto Fields(T& move) {
  return std::tie(move.id, move.request, move.action, move.first, move.count);
}
constexpr std::string_view FieldNames(const KvMove*) { return "id, request, action, first, count"; }
template <class T>
  requires std::same_as<std::remove_const_t<T>, Preemption>
auto Fields(T& preemption) {
  return std::tie(preemption.request, preemption.action);
}
constexpr std::string_view FieldNames(const Preemption*) { return "request, action"; }
template <class T>
  requires std::same_as<std::remove_const_t<T>, Failure>
auto Fields(T& failure) {
  return std::tie(failure.request, failure.reason, failure.code);
}
constexpr std::string_view FieldNames(const Failure*) { return "request, reason, code"; }
TAKT_FIELDS(KeptPlan, id, run, moves, preempted, failed, released, tokens, idle, wake_at)
TAKT_FIELDS(RowResult, request, lane, tokens, drafts, flags)
TAKT_FIELDS(PlanDigest, id, tokens, idle, wake_at, entries, run, moves, preempted, failed, released)

TAKT_FIELDS(LogStart, options, policy, pause)
TAKT_FIELDS(LogPlan, now, limits)
TAKT_FIELDS(LogStep, digest, plan)
TAKT_FIELDS(LogCommit, now, step, rows)
TAKT_FIELDS(LogAnswer, question, value, granted, for_ever)

#undef TAKT_FIELDS
#undef TAKT_NO_FIELDS

// Options list their fields themselves. A list of fewer than all does not compile here; that each stands there once is
// not looked at.
struct AnyField {
  template <class T>
  operator T() const;
};
template <class T, class... F>
constexpr bool HasMoreFields(const std::tuple<F&...>*) {
  return requires { T{AnyField(), (static_cast<F*>(nullptr), AnyField())...}; };
}
template <class T>
  requires ListsOptions<std::remove_const_t<T>>
auto Fields(T& options) {
  auto fields = T::ListOptions(options, [](const auto&... option) { return std::tie(option.field...); });
  static_assert(!HasMoreFields<std::remove_const_t<T>>(static_cast<decltype(fields)*>(nullptr)));
  return fields;
}
template <ListsOptions T>
std::string FieldNames(const T*) {
  std::string names;
  const T options;
  VisitOptions(options, [&](std::string_view name, auto&, auto&) { names.append(name).append(", "); });
  return names;
}

template <class T>
concept HasFields = requires(T& object) { Fields(object); };

}  // namespace takt::internal

#endif  // TAKT_SRC_RECORD_FIELDS_H_
