// One iteration of an engine: its limits, its plan and its results.
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

// The host's limits of one iteration. They may change at each step.
struct StepLimits {
  Tokens tokens{2048};  // token budget: prefill and decode together
  std::int32_t max_seqs = 256;  // maximum running sequences
  Tokens prefill_tokens = Tokens::Max();  // maximum prefill tokens
  // Longest prefill chunk of one request. Default: no limit, so a long prompt fills each step except a share for
  // waiting prompts.
  Tokens chunk_tokens = Tokens::Max();
  std::int32_t adapters = std::numeric_limits<std::int32_t>::max();  // maximum distinct LoRA adapters that run at once
  Blocks swap_out = Blocks::Max();  // maximum KV blocks that may start to move to host memory
  Blocks swap_in = Blocks::Max();  // maximum KV blocks that may start to move back
  // Alignment of prefill chunks: each chunk ends at a multiple of this, or at the end of the request's known tokens. A
  // request waits for a larger step if no multiple fits the other limits. An alignment above the largest chunk is a
  // fault.
  Tokens chunk_align{1};

  // All fields, in the order of the log. The bounds apply to limits that are constant over all steps.
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

// The reason why a request waits.
enum class WaitsFor : std::uint8_t {
  kNothing,  // it runs
  kItsTurn,  // requests of better rank come first
  kSequences,  // max_seqs or max_running is reached
  kKv,  // it is first, but too little KV memory is free
  kBudget,  // it is first, but the last step's token budget was used up
  kAdapter,  // the last step's adapter limit was reached
  kMove,  // its KV is moving, or it is in a step in flight
  kTool,
  kUnblock,
  kDeclined,  // the policy keeps it out for now
  kGate,  // the gate keeps the KV blocks that it needs, for workflows that will return
  kPrefix,  // a running request computes a prefix of its prompt
};

// The reason why the first request of the queue was not in a step, and the resources of that step.
struct QueuePressure {
  WaitsFor head = WaitsFor::kNothing;  // kNothing: no request was left waiting
  StepLimits limits = {};
  Tokens kv_tokens{0};  // size of the KV cache; 0: takt does not count it
  std::int32_t engines = 1;  // engines that serve this queue; `limits` and `kv_tokens` are per engine
};

inline constexpr std::uint32_t kNoLane = kNoSlot;

// One request's part of a step, in tokens. `lane` is the request's row, so the host needs no hash lookup per running
// request.
struct PlanEntry {
  enum Flag : std::uint16_t {
    kPrefill = 1,  // computes known tokens: the prompt, recomputed context, or a tool's answer
    kSamples = 2,  // ends at the last known token, so it yields a new token per sequence
    kAdmitted = 4,  // first step since the request left the waiting queue
    kGated = 8,  // admitted after the gate had kept it out
  };

  RequestId request = {};
  std::uint32_t lane = 0;  // the scheduler's row; constant while the request runs
  std::int32_t tokens = 0;  // known tokens to compute in this step, all sequences together
  std::int32_t position = 0;  // context tokens that are computed or in flight before this step
  std::uint16_t speculative = 0;  // draft tokens to verify in addition
  std::uint16_t flags = 0;  // bits of Flag

  constexpr bool prefill() const { return (flags & kPrefill) != 0; }
  constexpr bool samples() const { return (flags & kSamples) != 0; }
  constexpr bool admitted() const { return (flags & kAdmitted) != 0; }
  constexpr bool gated() const { return (flags & kGated) != 0; }
  friend constexpr bool operator==(const PlanEntry&, const PlanEntry&) = default;
};
static_assert(sizeof(PlanEntry) == 24);

enum class KvAction : std::uint8_t {
  kKeep,  // stays on the GPU while the request does not run
  kDrop,  // freed; must be recomputed
  kOut,  // copied to host memory, then freed
  kIn,  // copied back to the GPU
  kFetch,  // start of a prompt, loaded from prefix copies in host memory
};
constexpr auto NamesOf(KvAction) { return std::to_array<std::string_view>({"keep", "drop", "out", "in", "fetch"}); }

// A KV move that the host carries out and reports by MoveDone. It concerns blocks [first, first + count) of the
// request. The host frees the blocks after those that move out. Their tokens are recomputed. With kFetch, the blocks
// come from prefix chunks in host memory (StepPlan::host_chunks), which stay there.
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
// A running request that lost its row. The host must discard its tokens in flight. kDrop frees its KV at once, or when
// its steps in flight have finished. After kOut, a KvMove follows.
struct Preemption {
  RequestId request = {};
  KvAction action = KvAction::kDrop;
  std::array<std::uint8_t, 7> reserved = {};

  friend constexpr bool operator==(const Preemption&, const Preemption&) = default;
};

enum class FailReason : std::uint8_t {
  kInvalid,  // inconsistent: no prompt and nothing to compute, sequences < 1, or id 0
  kNeverFits,  // needs more KV, sequences or tokens per step than the engine has
  kKvExhausted,  // its context outgrew the whole KV cache
  kExpired,  // waited past expires_at, or for a workflow stage that never came
  kShed,  // rejected because the waiting queue is full
  kDraining,  // arrived after Drain
  kHost,  // the host reported that its step failed or its workflow is over
  kIdInUse,  // its id belongs to an unreleased request, which continues
};
constexpr auto NamesOf(FailReason) {
  return std::to_array<std::string_view>(
      {"invalid", "never_fits", "kv_exhausted", "expired", "shed", "draining", "host", "id_in_use"});
}

// A request that the host must report to its client as failed. `released` also contains it, in this plan or a later
// one. A request that failed with kIdInUse or id 0 is not in `released`, because it was never accepted.
struct Failure {
  RequestId request = {};
  FailReason reason = FailReason::kInvalid;
  std::uint8_t reserved = 0;
  std::uint16_t code = 0;  // for reason kHost: the error code of the failed row
  std::uint32_t reserved_too = 0;

  friend constexpr bool operator==(const Failure&, const Failure&) = default;
};

// A prefix chunk that left the prefix cache. The host must no longer look up its hash.
struct DroppedPrefix {
  std::uint64_t hash = 0;  // as in Request::prefix
  Blocks blocks{0};  // KV blocks of the chunk
  std::uint32_t reserved = 0;

  friend constexpr bool operator==(const DroppedPrefix&, const DroppedPrefix&) = default;
};

enum class CacheAction : std::uint8_t {
  kHold,  // keep with this priority until `until`
  kDrop,  // no further turn: may be evicted
  kFetch,  // next turn expected at `until`
};
constexpr auto NamesOf(CacheAction) { return std::to_array<std::string_view>({"hold", "drop", "fetch"}); }

// A hint for a host that manages its own prefix cache (kOracle), about the KV of one branch of a workflow. The newest
// hint of a branch replaces earlier ones.
struct CacheHint {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  CacheAction action = CacheAction::kHold;
  std::uint8_t priority = 0;  // 15 to 55; at less than 35, evict this KV before other KV
  std::array<std::uint8_t, 6> reserved = {};
  TimePoint until = kNever;  // kHold: time at which other KV becomes worth more; kFetch: expected time of the next turn
  Tokens tokens{0};  // known length of the branch's context
  std::uint32_t reserved_too = 0;

  friend bool operator==(const CacheHint&, const CacheHint&) = default;
};

// A prefix chunk to copy to host memory (kOut) or to drop there (kDrop). This plan or a later one may reuse the chunk's
// GPU blocks. The host must finish the copy before they are overwritten.
struct HostChunk {
  std::uint64_t hash = 0;  // as in Request::prefix; SaltedHash(hash, salt) if the request has a salt
  Blocks blocks{0};
  KvAction action = KvAction::kOut;
  std::array<std::uint8_t, 3> reserved = {};

  friend constexpr bool operator==(const HostChunk&, const HostChunk&) = default;
};

// Why a plan runs nothing.
enum class Idle : std::uint8_t {
  kBusy,  // the plan runs something
  kNoRequests,  // no living requests
  kDrained,  // no living requests, after Drain
  kStepsInFlight,  // all runnable requests, or the maximum number of steps, are in flight; call Commit first
  kMovesInFlight,  // waits for KV moves to finish
  kKvPending,  // waits for KV that the host frees later
  kPaused,  // all living requests wait for their tools
  kBlocked,  // all living requests are blocked, paused or not ready
  kNoBudget,  // the step limits allow nothing
  kKvHeld,  // waiting requests do not fit in the free KV, or the host's oracle refuses them
  kEnded,  // an exception interrupted an earlier call, so nothing will run again
  kDeclined,  // the policy keeps out all runnable requests
  kGated,  // the gate keeps out all runnable requests, perhaps until wake_at
};
constexpr auto NamesOf(Idle) {
  return std::to_array<std::string_view>({"busy", "no_requests", "drained", "steps_in_flight", "moves_in_flight",
                                          "kv_pending", "paused", "blocked", "no_budget", "kv_held", "ended",
                                          "declined", "gated"});
}

// Spans refer to memory of the scheduler. They are valid until the plan is committed, or until the next plan if `run`
// is empty.
struct StepPlan {
  StepId id = {};  // number of the plan, for Commit
  std::span<const PlanEntry> run = {};  // requests that run in this step
  std::span<const KvMove> moves = {};  // KV moves to carry out, in this order
  std::span<const Preemption> preempted = {};  // running requests that lost their row
  std::span<const Failure> failed = {};  // failed requests, also in `released` except for reason kIdInUse and id 0
  std::span<const RequestId> released = {};  // ended requests in no step or move in flight; the host can forget them
  Tokens tokens{0};  // tokens of all entries, including draft tokens
  Idle idle = Idle::kNoRequests;
  TimePoint wake_at = kNever;  // time of the next Plan if no event comes earlier
  std::span<const DroppedPrefix> dropped = {};  // kLedger with a prefix cache: chunks evicted since the last plan
  std::span<const CacheHint> hints = {};  // kOracle, after the first TurnEnded: hints for the host's own cache
  // Only with prefix copies in host memory: chunks to copy or drop. Do these in order, and before `moves`.
  std::span<const HostChunk> host_chunks = {};
};

// Result of a step for one request.
struct RowResult {
  enum Flag : std::uint8_t { kFinished = 1, kFailed = 2 };

  RequestId request = {};
  std::uint32_t lane = 0;  // as in PlanEntry
  // New tokens per sequence: 0 if the entry does not sample, else 1 plus accepted draft tokens. In a failed row: the
  // host's error code, which Failure::code repeats.
  std::uint16_t tokens = 0;
  std::uint8_t drafts = 0;  // draft tokens to verify in the next step
  std::uint8_t flags = 0;  // bits of Flag

  constexpr bool finished() const { return (flags & kFinished) != 0; }
  constexpr bool failed() const { return (flags & kFailed) != 0; }
};
static_assert(sizeof(RowResult) == 16);

// Rows may come in any order; plan order is fastest. An entry without a row made no progress. With `rest_as_planned`,
// it ran as planned: it yielded one token per sequence if it samples, and has no draft tokens. Then only exceptions
// need a row.
struct StepResult {
  StepId step = {};
  std::span<const RowResult> rows = {};
  bool rest_as_planned = false;
};

}  // namespace takt

#endif  // TAKT_MODEL_STEP_H_
