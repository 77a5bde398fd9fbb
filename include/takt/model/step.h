// One iteration of an engine: its limits, the plan, and what became of it.
#ifndef TAKT_MODEL_STEP_H_
#define TAKT_MODEL_STEP_H_

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/names.h"
#include "takt/base/slot.h"
#include "takt/base/spec.h"
#include "takt/base/time.h"

namespace takt {

// What the host allows this iteration. May change from step to step.
struct StepLimits {
  Tokens tokens{2048};                  // token budget: prefill and decode together
  std::int32_t max_seqs = 256;          // sequences that run at once
  Tokens prefill_tokens = Tokens::Max();  // share of the budget that prefill may take
  // Longest prefill chunk of one request. Maximum: not set; a long prompt takes whole steps, and leaves others room in
  // each while they wait.
  Tokens chunk_tokens = Tokens::Max();
  std::int32_t adapters = std::numeric_limits<std::int32_t>::max();  // distinct adapters that run at once
  Blocks swap_out = Blocks::Max();  // KV blocks that may start to move to the host's memory
  Blocks swap_in = Blocks::Max();  // and back
  // A prefill chunk of a chunkable request ends at a multiple of this, or with what is known. A request waits for a
  // larger step if no multiple lies within the other limits. An alignment above the largest chunk is a fault.
  Tokens chunk_align{1};

  // All fields in their order, which is that of a log. The bounds are those of limits that hold for every step.
  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("tokens", self.tokens, {.least = 1}), Option("max_seqs", self.max_seqs, {.least = 1}),
                Option("prefill_tokens", self.prefill_tokens, {.least = 1}),
                Option("chunk_tokens", self.chunk_tokens, {.least = 1}), Option("adapters", self.adapters),
                Option("swap_out", self.swap_out), Option("swap_in", self.swap_in, {.least = 1}),
                Option("chunk_align", self.chunk_align, {.least = 1}));
  }

  friend constexpr bool operator==(const StepLimits&, const StepLimits&) = default;
};

// What a request waits for.
enum class WaitsFor : std::uint8_t {
  kNothing,  // it runs
  kItsTurn,  // requests of better rank come first
  kSequences,  // max_seqs, or rows, are taken
  kKv,  // it is first, and there is no KV memory for it
  kBudget,  // it is first, and the last step's token budget was spent
  kAdapter,  // the last step's adapter limit was reached
  kMove,  // its KV is being moved, or steps that name it are in flight
  kTool,
  kUnblock,
  kDeclined,  // its policy keeps it out for now
  kGate,  // memory that it would take is worth more to workflows that will come back
  kPrefix,  // a running request computes a prefix of its prompt
};

// What kept the first of the queue out of a step, and what that step had to give.
struct QueuePressure {
  WaitsFor head = WaitsFor::kNothing;  // kNothing: no request was left waiting
  StepLimits limits = {};
  Tokens kv_tokens{0};  // size of the KV cache; 0: takt does not count it
  std::int32_t engines = 1;  // that serve this queue; limits and kv_tokens are of one of them
};

inline constexpr std::uint32_t kNoLane = kNoSlot;

// One request's part of a step: token counts, not phases. 32 bits of lane name the row, so that neither side
// hashes per running request.
struct PlanEntry {
  enum Flag : std::uint16_t {
    kPrefill = 1,  // computes known tokens (prompt, or context lost to a preemption or a tool's answer)
    kSamples = 2,  // ends at the last known token: yields a new one per sequence
    kAdmitted = 4,  // first step since it left the waiting queue
    kGated = 8,  // of those, that it was kept out by the gate before
  };

  RequestId request = {};
  std::uint32_t lane = 0;  // the scheduler's row; stable while the request runs
  std::int32_t tokens = 0;  // known tokens to compute in this step, all sequences together
  std::int32_t position = 0;  // tokens of its context that are computed, or in flight, before this step
  std::uint16_t speculative = 0;  // draft tokens to verify on top
  std::uint16_t flags = 0;

  constexpr bool prefill() const { return (flags & kPrefill) != 0; }
  constexpr bool samples() const { return (flags & kSamples) != 0; }
  constexpr bool admitted() const { return (flags & kAdmitted) != 0; }
  constexpr bool gated() const { return (flags & kGated) != 0; }
  friend constexpr bool operator==(const PlanEntry&, const PlanEntry&) = default;
};
static_assert(sizeof(PlanEntry) == 24);

enum class KvAction : std::uint8_t {
  kKeep,  // stays on the GPU while the request does not run
  kDrop,  // freed; to be computed again
  kOut,  // copied to the host's memory, then freed
  kIn,  // copied back
  kFetch,  // the beginning of a prompt, copied from what the host's memory keeps of prompts
};
constexpr auto NamesOf(KvAction) { return std::to_array<std::string_view>({"keep", "drop", "out", "in", "fetch"}); }

// A KV move that the host carries out and reports by MoveDone. Blocks [first, first + count) of the request. What lies
// behind blocks that move out is dropped: the host frees it with them, and its tokens are computed again. kFetch: these
// blocks of its prompt come from chunks that the host's memory keeps (StepPlan::host_chunks), which stay there.
struct KvMove {
  MoveId id = {};
  RequestId request = {};
  KvAction action = KvAction::kKeep;
  std::array<std::uint8_t, 3> reserved = {};
  Blocks first{0};
  Blocks count{0};
  std::uint32_t reserved_too = 0;

  constexpr KvMove() = default;
  constexpr KvMove(MoveId move, RequestId of, KvAction what, Blocks from, Blocks blocks)
      : id(move), request(of), action(what), first(from), count(blocks) {}

  friend constexpr bool operator==(const KvMove&, const KvMove&) = default;
};

// A running request that lost its place. Its tokens in flight are void: the host discards what those steps yield
// for it. kDrop frees at once (or when its steps in flight have resolved); kOut is followed by a KvMove.
struct Preemption {
  RequestId request = {};
  KvAction action = KvAction::kDrop;
  std::array<std::uint8_t, 7> reserved = {};

  friend constexpr bool operator==(const Preemption&, const Preemption&) = default;
};

enum class FailReason : std::uint8_t {
  kInvalid,  // contradicts itself: no prompt and nothing to compute, sequences < 1, id zero
  kNeverFits,  // more KV, tokens per step or sequences than the engine has
  kKvExhausted,  // its context outgrew the whole KV cache
  kExpired,  // waited past expires_at, or for a stage of its workflow that never came
  kShed,  // bounded waiting: no place
  kDraining,  // arrived after Drain
  kHost,  // the host said that the step failed for it, or that its workflow is over
  kIdInUse,  // its id is another's that has not been released: this one was never let in, and that one goes on
};
constexpr auto NamesOf(FailReason) {
  return std::to_array<std::string_view>(
      {"invalid", "never_fits", "kv_exhausted", "expired", "shed", "draining", "host", "id_in_use"});
}

// A request that the host must fail towards its client. It is named in `released` too, in this plan or a later one.
// With kIdInUse, or an id of zero, the newcomer is meant: it is in no `released`, and a request that has the id goes
// on.
struct Failure {
  RequestId request = {};
  FailReason reason = FailReason::kInvalid;
  std::uint8_t reserved = 0;
  std::uint16_t code = 0;  // kHost, by a row's result: the code that stood there
  std::uint32_t reserved_too = 0;

  friend constexpr bool operator==(const Failure&, const Failure&) = default;
};

// A chunk of a prefix that left the prefix cache: whoever finds blocks by its hash must forget it.
struct DroppedPrefix {
  std::uint64_t hash = 0;  // as in Request::prefix
  Blocks blocks{0};  // of which it consisted
  std::uint32_t reserved = 0;

  friend constexpr bool operator==(const DroppedPrefix&, const DroppedPrefix&) = default;
};

enum class CacheAction : std::uint8_t {
  kHold,  // worth so much, and until then
  kDrop,  // nothing comes after it
  kFetch,  // its next turn is expected by then
};
constexpr auto NamesOf(CacheAction) { return std::to_array<std::string_view>({"hold", "drop", "fetch"}); }

// A wish to a host that keeps its cache of prompts by itself (kOracle): what a workflow's branch has left there. The
// newest of a branch holds.
struct CacheHint {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  CacheAction action = CacheAction::kHold;
  std::uint8_t priority = 0;  // 15 to 55; below 35 it is worth less than what would go for it
  std::array<std::uint8_t, 6> reserved = {};
  TimePoint until = kNever;  // kHold: from here on it is worth less than what it keeps out; kFetch: the time
  Tokens tokens{0};  // of the branch's context, as far as is known
  std::uint32_t reserved_too = 0;

  friend bool operator==(const CacheHint&, const CacheHint&) = default;
};

// A chunk of a prefix that is to be kept in the host's memory, or no more. kOut: to be copied there before anything
// overwrites its blocks on the GPU, which this plan or a later one may do. kDrop: forgotten there.
struct HostChunk {
  std::uint64_t hash = 0;  // as in Request::prefix; of a request with a salt, SaltedHash of both
  Blocks blocks{0};
  KvAction action = KvAction::kOut;
  std::array<std::uint8_t, 3> reserved = {};

  friend constexpr bool operator==(const HostChunk&, const HostChunk&) = default;
};

// Why a plan runs nothing.
enum class Idle : std::uint8_t {
  kBusy,  // it does run something
  kNoRequests,  // nothing lives here
  kDrained,  // nothing lives here, and Drain was asked for
  kStepsInFlight,  // all that could run is in flight, or too many steps are: Commit first
  kMovesInFlight,  // waits for KV moves to be done
  kKvPending,  // waits for KV that the host frees later
  kPaused,  // all that lives waits for tools
  kBlocked,  // all that lives is blocked (or blocked and paused), or was not ready for this plan
  kNoBudget,  // the limits of this step allow nothing
  kKvHeld,  // what waits does not fit beside KV that is in use elsewhere, or the host's oracle refuses it
  kEnded,  // an exception has left a call half-way: nothing will ever run
  kDeclined,  // the policy keeps out what could run
  kGated,  // the gate does, until wake_at perhaps
};
constexpr auto NamesOf(Idle) {
  return std::to_array<std::string_view>({"busy", "no_requests", "drained", "steps_in_flight", "moves_in_flight",
                                          "kv_pending", "paused", "blocked", "no_budget", "kv_held", "ended",
                                          "declined", "gated"});
}

// Views into storage of the scheduler, valid as long as the plan.
struct StepPlan {
  StepId id = {};
  std::span<const PlanEntry> run = {};
  std::span<const KvMove> moves = {};
  std::span<const Preemption> preempted = {};
  std::span<const Failure> failed = {};  // in `released` too, but for those of kIdInUse and of id zero
  std::span<const RequestId> released = {};  // ended, and no step or move in flight names them: forget all about them
  Tokens tokens{0};  // of all entries, drafts included
  Idle idle = Idle::kNoRequests;
  TimePoint wake_at = kNever;  // without an event before, ask again then
  std::span<const DroppedPrefix> dropped = {};  // kLedger with a prefix cache: chunks that left it since the last plan
  std::span<const CacheHint> hints = {};  // kOracle, once told of turns: for the host's own cache
  // Where the host's memory keeps prefixes: what it is to keep, and to forget, in this order, and before `moves`.
  std::span<const HostChunk> host_chunks = {};
};

// What a step did for one request.
struct RowResult {
  enum Flag : std::uint8_t { kFinished = 1, kFailed = 2 };

  RequestId request = {};
  std::uint32_t lane = 0;  // as in the plan's entry
  // New tokens per sequence: 1 where the entry samples, more with accepted drafts, else 0. Of a row that has failed: a
  // code of the host's own, which its Failure repeats.
  std::uint16_t tokens = 0;
  std::uint8_t drafts = 0;  // draft tokens to verify next time
  std::uint8_t flags = 0;

  constexpr bool finished() const { return (flags & kFinished) != 0; }
  constexpr bool failed() const { return (flags & kFailed) != 0; }
};
static_assert(sizeof(RowResult) == 16);

// Rows in any order, those in plan order are fastest. An absent row made no progress; or, where the rest went as
// planned, computed what its entry says, with one token per sequence where it samples, and has no drafts: then only
// what is otherwise needs a row, and a step costs what changes.
struct StepResult {
  StepId step = {};
  std::span<const RowResult> rows = {};
  bool rest_as_planned = false;
};

}  // namespace takt

#endif  // TAKT_MODEL_STEP_H_
