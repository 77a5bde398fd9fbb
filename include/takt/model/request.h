// A request: one LLM call, as its host describes it. Nothing in here is a true output length.
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

// The prompt's leading tokens, cut into blocks; hash i names block i *and all before it*, so equal hashes mean
// equal prefixes. None: nothing is shared.
struct PrefixBlocks {
  Tokens block_tokens{512};
  std::span<const std::uint64_t> hashes = {};
};

// What a model would make of a request.
struct ModelScore {
  ModelId model = {};
  float score = 0;    // how probably it solves what is asked: 0 .. 1
  float tokens = -1;  // output of this call and all that follow in its workflow, on this model; below 0: not told
};

// Expected work of the calls of its workflow that have not ended, but for the request itself: those that follow, and
// those that run or wait beside it. Below 0: not known.
struct WorkAfter {
  double calls = -1;          // how many
  double prompt_tokens = -1;  // of all of them
  double output_tokens = -1;  // of all of them
  double kv_steps = -1;  // the context of each, summed over its decode steps [tokens x steps]
  double path_tokens = -1;  // output of the longest chain of calls, each of which waits for the one before

  constexpr bool known() const { return output_tokens >= 0 && output_tokens <= 1e15; }
  // Nothing of it can be meant: a NaN or an infinity somewhere.
  constexpr bool absurd() const {
    const auto sane = [](double x) { return x >= -1e18 && x <= 1e18; };
    return !(sane(calls) && sane(prompt_tokens) && sane(output_tokens) && sane(kv_steps) && sane(path_tokens));
  }
  friend constexpr bool operator==(const WorkAfter&, const WorkAfter&) = default;
};

// The tool call that a request is expected to make next. Without a time and an output before it: none is expected.
struct NextCall {
  ToolId tool = {};     // which, where the host knows it
  Tokens after{0};      // output tokens before it, from when this was told
  Tokens returned{0};   // that the answer will add to the context
  Duration duration{0};  // of the tool call; 0: not known

  constexpr explicit operator bool() const { return after.value > 0 || duration > Duration::zero(); }
  friend constexpr bool operator==(const NextCall&, const NextCall&) = default;
};

// Plain data. What its spans see is the caller's, and is read within the call that the request is given to: a
// scheduler, a queue and a router see to copies of their own, which live as long as the request does.
//
// One call of a model: counts and estimates. Text and sampling parameters stay with the host.
struct Request {
  RequestId id = {};           // unique among the living; zero is refused
  WorkflowId workflow = {};    // none: a workflow of its own
  StageId stage = {};          // call site, where the host knows it
  AgentId agent = {};          // role, where the host knows it
  TenantId tenant = {};        // for fair sharing
  AdapterId adapter = {};      // LoRA adapter it needs while it runs
  TimePoint arrival = kUnset;           // of this call; kUnset: the time of the event
  TimePoint workflow_arrival = kUnset;  // of the whole workflow; kUnset: `arrival`
  TimePoint deadline = kNever;          // of this call's end; of its workflow's, if `compute` is 0; kNever: none
  TimePoint expires_at = kNever;  // it waits no longer than this before its first step, then fails; kNever: no bound
  Tokens prompt_tokens{0};      // of this call
  Tokens max_output_tokens{0};  // the host's cap on output, which it enforces itself; 0: none told
  std::int32_t sequences = 1;  // parallel samples of one prompt; they share its KV blocks
  std::int32_t priority = 0;  // lower is sooner
  bool chunkable = true;  // false: the whole prompt in one step
  bool preemptible = true;  // false: keeps its place until it ends or calls a tool
  Estimate output_tokens = {};  // of this call, per sequence [tokens]
  Estimate workflow_tokens_left = {};  // output of this call and all that follow in its workflow [tokens]
  WorkAfter after = {};  // what else its workflow will have the engine do
  PrefixBlocks prefix = {};  // for the prefix cache
  NextCall next_call = {};  // what is known of its next tool call
  Duration compute{0};      // expected time of this call alone, where it runs; 0: not known
  std::span<const ModelScore> scores = {};  // for placements among models; of those that are not there: not known
  SessionId session = {};  // whose turn it is, where the host knows it
  // Of its workflow: 0 is the main line, others are sub-agents'. What is held is held by branch.
  std::uint64_t branch = 0;
  // Prefixes of requests with different salts never meet, whatever their hashes: one a tenant, say, so that none can
  // tell by the time that it takes what others have asked. kLedger alone; StepPlan::dropped and
  // host_chunks have SaltedHash of both.
  std::uint64_t salt = 0;  // 0: none
};

constexpr std::uint64_t SaltedHash(std::uint64_t hash, std::uint64_t salt) {
  return salt == 0 ? hash : Mix64(hash ^ Mix64(salt));
}

}  // namespace takt

#endif  // TAKT_MODEL_REQUEST_H_
