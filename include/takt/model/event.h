// Facts that reach a scheduler or a router, as values: a log of them replays to the same plans.
#ifndef TAKT_MODEL_EVENT_H_
#define TAKT_MODEL_EVENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "takt/fwd.h"
#include "takt/model/agent_ranks.h"
#include "takt/model/request.h"

namespace takt {

struct Arrived {
  Request request = {};
};

// New knowledge about a living request; what is absent stays as it was.
struct Revised {
  RequestId request = {};
  std::optional<Estimate> output_tokens = {};
  std::optional<Estimate> workflow_tokens_left = {};
  std::optional<WorkAfter> after = {};
  std::optional<TimePoint> deadline = {};
  std::optional<TimePoint> expires_at = {};
  std::optional<std::int32_t> priority = {};
  std::optional<std::int32_t> sequences = {};  // may only fall: sequences that have ended
  std::optional<NextCall> next_call = {};
};

// The request cannot run until Unblocked (a grammar being compiled, KV that comes from elsewhere). It keeps what
// KV it holds and leaves the ranked set.
struct Blocked {
  RequestId request = {};
};
struct Unblocked {
  RequestId request = {};
};

// The request has called a tool: its tokens in flight are void, and the pause policy decides about its KV.
struct ToolCalled {
  RequestId request = {};
  Duration expected{0};        // predicted duration; 0: unknown
  Tokens expected_returned{0};  // predicted length of the answer
  ToolId tool = {};
};
// The tool has answered with this many tokens, which join the context.
struct ToolReturned {
  RequestId request = {};
  Tokens returned{0};
  NextCall next_call = {};  // what is expected from here on
};

struct Cancelled {
  RequestId request = {};
};

// The host has carried out a KV move of a plan: blocks moved out or dropped are free from here on, a request moved
// in can run.
struct MoveDone {
  MoveId move = {};
  bool failed = false;  // the copy was lost: the KV must be computed again
};

// Host-owned KV only: blocks released earlier are usable now.
struct KvFreed {};

struct PolicyChanged {
  std::shared_ptr<const AnyPolicy> policy = {};
};

// Tables from slow work (learning, tuning), which from here on hold; what is absent stays as it was. Read by the
// policies and placements that observe it.
struct Epoch {
  std::shared_ptr<const AgentRanks> agent_ranks = {};
  std::optional<double> alpha = {};  // of workload_balance: 0 .. 1
};

// No new work from here on; what lives is finished.
struct Drain {};

using Event = std::variant<Arrived, Revised, Blocked, Unblocked, ToolCalled, ToolReturned, Cancelled, MoveDone, KvFreed,
                           PolicyChanged, Drain, Epoch>;

}  // namespace takt

#endif  // TAKT_MODEL_EVENT_H_
