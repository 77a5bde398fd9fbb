// A request: one LLM call, as described by the host. It never contains the true output length.
#ifndef TAKT_MODEL_REQUEST_H_
#define TAKT_MODEL_REQUEST_H_

#include <cstdint>
#include <span>

#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/random.h"
#include "takt/base/time.h"
#include "takt/model/estimate.h"

namespace takt {

// The first tokens of a prompt, split into blocks. Hash i covers block i and all blocks before it, so equal hashes mean
// equal prefixes. Without hashes, the request shares no prefix.
struct PrefixBlocks {
  Tokens block_tokens{512};  // number of tokens in a block
  std::span<const std::uint64_t> hashes = {};  // hashes, one per block
};

// The prediction for one model, if that model answers the request.
struct ModelScore {
  ModelId model = {};
  float score = 0;  // probability of a correct answer: 0 to 1
  float tokens = -1;  // predicted output tokens of this and all later calls of the workflow; below 0: unknown
};

// Expected work of all other unfinished calls of the same workflow, running, waiting or future. Below 0: unknown.
struct WorkAfter {
  double calls = -1;  // expected number of calls
  double prompt_tokens = -1;  // prompt tokens of these calls
  double output_tokens = -1;  // output tokens of these calls
  double kv_steps = -1;  // sum of the context over all decode steps of these calls [tokens x steps]
  double path_tokens = -1;  // output tokens on the longest chain of dependent calls

  constexpr bool known() const { return output_tokens >= 0 && output_tokens <= 1e15; }
  // Returns true if any value is NaN, infinite or beyond 1e18. All values are then invalid.
  constexpr bool absurd() const {
    const auto sane = [](double x) { return x >= -1e18 && x <= 1e18; };
    return !(sane(calls) && sane(prompt_tokens) && sane(output_tokens) && sane(kv_steps) && sane(path_tokens));
  }
  friend constexpr bool operator==(const WorkAfter&, const WorkAfter&) = default;
};

// The expected next tool call of a request. If `after` and `duration` are both 0, no call is expected.
struct NextCall {
  ToolId tool = {};  // tool that the request calls; 0: unknown
  Tokens after{0};  // output tokens from this event until the tool call
  Tokens returned{0};  // tokens that the tool's answer adds to the context
  Duration duration{0};  // duration of the tool call; 0: unknown

  constexpr explicit operator bool() const { return after.value > 0 || duration > Duration::zero(); }
  friend constexpr bool operator==(const NextCall&, const NextCall&) = default;
};

// Spans refer to the caller's memory, which takt reads only during the call that passes the request. Schedulers, queues
// and routers keep their own copies.
//
// Token counts and estimates of one call of a model. Text and sampling parameters stay with the host.
struct Request {
  RequestId id = {};  // unique among living requests; must not be 0
  WorkflowId workflow = {};  // workflow of the call; 0: the call is a workflow of its own
  StageId stage = {};  // call site within the workflow; 0: unknown
  AgentId agent = {};  // agent (role) that makes the call; 0: unknown
  TenantId tenant = {};  // tenant, for fair sharing
  AdapterId adapter = {};  // LoRA adapter that the request needs while it runs; 0: none
  TimePoint arrival = kUnset;  // arrival time of this call; kUnset: the time of the event
  TimePoint workflow_arrival = kUnset;  // arrival time of the workflow; kUnset: `arrival`
  TimePoint deadline = kNever;  // deadline of this call; if `compute` is 0, deadline of the workflow; kNever: none
  TimePoint expires_at = kNever;  // time at which the request fails if its first step has not begun; kNever: no limit
  Tokens prompt_tokens{0};  // length of the prompt
  Tokens max_output_tokens{0};  // maximum output tokens, which the host enforces; 0: unknown
  std::int32_t sequences = 1;  // parallel samples of one prompt, which share its KV blocks
  std::int32_t priority = 0;  // priority; requests with a lower number run sooner
  bool chunkable = true;  // false: the whole prompt must run in one step
  bool preemptible = true;  // false: the request runs without preemption until it ends or calls a tool
  Estimate output_tokens = {};  // output tokens of this call, per sequence
  Estimate workflow_tokens_left = {};  // output tokens of this call and all later calls of the workflow
  WorkAfter after = {};  // expected work of the workflow's other calls
  PrefixBlocks prefix = {};  // hashes of the prompt's prefix, for the prefix cache
  NextCall next_call = {};  // expected next tool call
  Duration compute{0};  // expected execution time of this call alone; 0: unknown
  std::span<const ModelScore> scores = {};  // predictions per model, for placements that choose models; empty: unknown
  SessionId session = {};  // session that the call belongs to; 0: unknown
  // Branch of the workflow: 0 is the main agent, other numbers are sub-agents. Between turns, takt keeps KV per branch.
  std::uint64_t branch = 0;
  // Salt that isolates prefixes: requests with different salts never share KV. Use one salt per tenant to prevent
  // timing attacks on the cache. Only with kLedger. StepPlan::dropped and host_chunks contain SaltedHash(hash, salt).
  std::uint64_t salt = 0;  // 0: none
  TimePoint first_token_by = kNever;  // time by which the first token should be generated; kNever: no target
  Duration token_pace{0};  // target time between two output tokens; 0: the scheduler's
};

constexpr std::uint64_t SaltedHash(std::uint64_t hash, std::uint64_t salt) {
  return salt == 0 ? hash : Mix64(hash ^ Mix64(salt));
}

}  // namespace takt

#endif  // TAKT_MODEL_REQUEST_H_
