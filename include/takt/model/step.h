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
  // Longest prefill chunk of one request. By default there is no limit. A long prompt then fills each step except for a
  // share that waiting prompts get.
  Tokens chunk_tokens = Tokens::Max();
  std::int32_t adapters = std::numeric_limits<std::int32_t>::max();  // maximum distinct LoRA adapters that run at once
  Blocks swap_out = Blocks::Max();  // maximum KV blocks that may start to move to host memory
  Blocks swap_in = Blocks::Max();  // maximum KV blocks that may start to move back
  // Alignment of prefill chunks: each chunk ends at a multiple of chunk_align or at the end of the known tokens. If no
  // multiple fits the other limits, the request waits for a larger step. Alignments above the largest chunk are faults.
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
  kNothing,  // the request runs
  kItsTurn,  // requests of better rank are before the request
  kSequences,  // max_seqs or max_running is reached
  kKv,  // the request is first, but too little KV memory is free
  kBudget,  // the request is first, but the last step's token budget was used up
  kAdapter,  // the last step's adapter limit was reached
  kMove,  // a KV move or a step of the request is in flight
  kTool,
  kUnblock,
  kDeclined,  // the policy keeps the request out for now
  kGate,  // the gate reserves the needed KV blocks for workflows that will return
  kPrefix,  // a running request computes a prefix of the request's prompt
  kCeiling,  // the running requests of its class and of later classes use their share (ClassLimits::ceiling)
};
constexpr auto NamesOf(WaitsFor) {
  return std::to_array<std::string_view>({"nothing", "its_turn", "sequences", "kv", "budget", "adapter", "move", "tool",
                                          "unblock", "declined", "gate", "prefix", "ceiling"});
}

// The reason why a step did not run the first request of the queue, and the resources of the step.
struct QueuePressure {
  WaitsFor head = WaitsFor::kNothing;  // reason of the first waiting request; kNothing: no request was left waiting
  StepLimits limits = {};
  Tokens kv_tokens{0};  // size of the KV cache; 0: takt does not count KV
  std::int32_t engines = 1;  // number of engines that serve this queue; `limits` and `kv_tokens` are per engine
};

inline constexpr std::uint32_t kNoLane = kNoSlot;

// The part of a step that computes tokens of one request. `lane` is the request's row, so the host needs no hash lookup
// per running request.
struct PlanEntry {
  enum Flag : std::uint16_t {
    kPrefill = 1,  // the entry computes known tokens: the prompt, recomputed context, or a tool's answer
    kSamples = 2,  // the entry ends at the last known token, so it yields a new token per sequence
    kAdmitted = 4,  // first step since the request left the waiting queue
    kGated = 8,  // the request was admitted after the gate had kept it out
  };

  RequestId request = {};
  std::uint32_t lane = 0;  // row of the request in the scheduler; constant while the request runs
  std::int32_t tokens = 0;  // known tokens that this step computes, summed over all sequences
  std::int32_t position = 0;  // context tokens that earlier steps have computed or compute in flight
  std::uint16_t speculative = 0;  // number of draft tokens that this step also verifies
  std::uint16_t flags = 0;  // bits of Flag

  constexpr bool prefill() const { return (flags & kPrefill) != 0; }
  constexpr bool samples() const { return (flags & kSamples) != 0; }
  constexpr bool admitted() const { return (flags & kAdmitted) != 0; }
  constexpr bool gated() const { return (flags & kGated) != 0; }
  friend constexpr bool operator==(const PlanEntry&, const PlanEntry&) = default;
};
static_assert(sizeof(PlanEntry) == 24);

enum class KvAction : std::uint8_t {
  kKeep,  // the KV stays on the GPU while the request does not run
  kDrop,  // the KV is freed and must be recomputed
  kOut,  // the KV is copied to host memory and then freed
  kIn,  // the KV is copied back to the GPU
  kFetch,  // the start of a prompt is loaded from prefix copies in host memory
};
constexpr auto NamesOf(KvAction) { return std::to_array<std::string_view>({"keep", "drop", "out", "in", "fetch"}); }

// A KV move that the host carries out and reports by MoveDone. It concerns blocks [first, first + count) of the
// request. If blocks move out, the host frees all later blocks, whose tokens are recomputed. With kFetch, the blocks
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
// A running request that lost its row. The host must discard its tokens in flight. kDrop frees the KV at once, or when
// the request's steps in flight have finished. After kOut, a KvMove follows.
struct Preemption {
  RequestId request = {};
  KvAction action = KvAction::kDrop;
  std::array<std::uint8_t, 7> reserved = {};

  friend constexpr bool operator==(const Preemption&, const Preemption&) = default;
};

enum class FailReason : std::uint8_t {
  kInvalid,  // the request is inconsistent: nothing to compute, fewer than one sequence, or id 0
  kNeverFits,  // the request needs more KV, sequences or tokens per step than the engine has
  kKvExhausted,  // the request's context outgrew the whole KV cache
  kExpired,  // a wait exceeded expires_at or a time limit, or the request's workflow stage never began
  kShed,  // the request was rejected because the waiting queue, or the queue of its class, is full
  kDraining,  // the request arrived after Drain
  kHost,  // the host reported that the request's step failed or its workflow is over
  kIdInUse,  // the id belongs to an unreleased request, which continues
  kQuota,  // the request was rejected because its tenant has too many waiting requests or tokens
  kNoInstance,  // no instance of the router is up
};
constexpr auto NamesOf(FailReason) {
  return std::to_array<std::string_view>({"invalid", "never_fits", "kv_exhausted", "expired", "shed", "draining",
                                          "host", "id_in_use", "quota", "no_instance"});
}

// Returns the HTTP status for a failed request. With 429 the client should come back after Failure::retry_after_ms.
// With 503 no instance serves. With 504 a time limit ended the request.
constexpr int HttpStatus(FailReason reason) {
  switch (reason) {
    case FailReason::kInvalid:
    case FailReason::kNeverFits:
    case FailReason::kKvExhausted: return 400;
    case FailReason::kIdInUse: return 409;
    case FailReason::kShed:
    case FailReason::kQuota: return 429;
    case FailReason::kHost: break;
    case FailReason::kDraining:
    case FailReason::kNoInstance: return 503;
    case FailReason::kExpired: return 504;
  }
  return 500;
}

// A request that the host must report to its client as failed. This plan or a later plan also lists the request in
// `released`. Only a request with kIdInUse or id 0 is never in `released`, because takt never accepted it.
struct Failure {
  RequestId request = {};
  FailReason reason = FailReason::kInvalid;
  std::uint8_t reserved = 0;
  std::uint16_t code = 0;  // for reason kHost: the error code of the failed row
  // For reasons kShed and kQuota: time after which the client should try again [ms], at most 60,000; 0: unknown. The
  // time follows from the rate at which requests leave that queue.
  std::uint32_t retry_after_ms = 0;

  friend constexpr bool operator==(const Failure&, const Failure&) = default;
};

// A prefix chunk that left the prefix cache. The host must no longer look up its hash.
struct DroppedPrefix {
  std::uint64_t hash = 0;  // hash of the chunk, as in Request::prefix
  Blocks blocks{0};  // KV blocks of the chunk
  std::uint32_t reserved = 0;

  friend constexpr bool operator==(const DroppedPrefix&, const DroppedPrefix&) = default;
};

enum class CacheAction : std::uint8_t {
  kHold,  // the host should keep the KV with this priority until `until`
  kDrop,  // the branch has no further turn, so the host may evict its KV
  kFetch,  // the branch's next turn is expected at `until`
};
constexpr auto NamesOf(CacheAction) { return std::to_array<std::string_view>({"hold", "drop", "fetch"}); }

// A hint for a host that manages its own prefix cache (kOracle), about the KV of one branch of a workflow. The newest
// hint of a branch replaces earlier ones.
struct CacheHint {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  CacheAction action = CacheAction::kHold;
  std::uint8_t priority = 0;  // priority of the KV, 15 to 55; below 35, the host should evict this KV before other KV
  std::array<std::uint8_t, 6> reserved = {};
  TimePoint until = kNever;  // kHold: time when other KV becomes worth more; kFetch: expected time of the next turn
  Tokens tokens{0};  // known length of the branch's context
  std::uint32_t reserved_too = 0;

  friend bool operator==(const CacheHint&, const CacheHint&) = default;
};

// A prefix chunk to copy to host memory (kOut) or to drop there (kDrop). This plan or a later one may reuse the chunk's
// GPU blocks. The host must finish the copy before it overwrites these blocks.
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
  kStepsInFlight,  // all runnable requests are in flight, or the maximum number of steps; call Commit first
  kMovesInFlight,  // the plan waits for KV moves to finish
  kKvPending,  // the plan waits for KV that the host frees later
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

// The scheduler's decisions for one step. Spans refer to memory of the scheduler and are valid until this plan's
// Commit. If `run` is empty, spans are valid until the next plan.
struct StepPlan {
  StepId id = {};  // number of the plan, for Commit
  std::span<const PlanEntry> run = {};  // requests that run in this step
  std::span<const KvMove> moves = {};  // KV moves to carry out, in this order
  std::span<const Preemption> preempted = {};  // preempted requests, which have lost their row
  std::span<const Failure> failed = {};  // failed requests; `released` also lists them, except reason kIdInUse and id 0
  std::span<const RequestId> released = {};  // ended requests without a step or move in flight; the host forgets them
  Tokens tokens{0};  // tokens of all entries, including draft tokens
  Idle idle = Idle::kNoRequests;
  TimePoint wake_at = kNever;  // time of the next Plan if no event comes earlier
  std::span<const DroppedPrefix> dropped = {};  // only with kLedger: prefix chunks evicted since the last plan
  std::span<const CacheHint> hints = {};  // only with kOracle: hints for the host's cache, after the first TurnEnded
  // Prefix chunks that the host must copy to host memory or drop there, in this order and before `moves`.
  std::span<const HostChunk> host_chunks = {};
};

// The result of a step for one request.
struct RowResult {
  enum Flag : std::uint8_t { kFinished = 1, kFailed = 2 };

  RequestId request = {};
  std::uint32_t lane = 0;  // as in PlanEntry
  // New tokens per sequence: 0 if the entry does not sample, else 1 plus the accepted draft tokens. For a failed row:
  // error code of the host, which Failure::code repeats.
  std::uint16_t tokens = 0;
  std::uint8_t drafts = 0;  // number of draft tokens that the next step must verify
  std::uint8_t flags = 0;  // bits of Flag

  constexpr bool finished() const { return (flags & kFinished) != 0; }
  constexpr bool failed() const { return (flags & kFailed) != 0; }
};
static_assert(sizeof(RowResult) == 16);

// The results of a step. Rows may come in any order; plan order is fastest. An entry without a row made no progress.
// With `rest_as_planned`, an entry without a row ran as planned and has no new draft tokens. If it samples, it yielded
// one token per sequence. Only exceptions then need a row.
struct StepResult {
  StepId step = {};
  std::span<const RowResult> rows = {};
  bool rest_as_planned = false;
};

}  // namespace takt

#endif  // TAKT_MODEL_STEP_H_
