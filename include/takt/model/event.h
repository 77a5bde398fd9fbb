// Events of a scheduler or a router. They are plain values, so a recorded log replays to the same plans.
#ifndef TAKT_MODEL_EVENT_H_
#define TAKT_MODEL_EVENT_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>

#include "takt/fwd.h"
#include "takt/model/agent_ranks.h"
#include "takt/model/request.h"

namespace takt {

// The reason why a branch of a workflow waits between two turns.
enum class TurnWhy : std::uint8_t { kUnknown, kTool, kUser, kChildren, kOver };
constexpr auto NamesOf(TurnWhy) {
  return std::to_array<std::string_view>({"unknown", "tool", "user", "children", "over"});
}

// A new request joins the waiting queue.
struct Arrived {
  Request request = {};
};

// Updates estimates or limits of a living request. Fields that are not set keep their values.
struct Revised {
  RequestId request = {};
  std::optional<Estimate> output_tokens = {};
  std::optional<Estimate> workflow_tokens_left = {};
  std::optional<WorkAfter> after = {};
  std::optional<TimePoint> deadline = {};
  std::optional<TimePoint> expires_at = {};
  std::optional<std::int32_t> priority = {};
  std::optional<std::int32_t> sequences = {};  // new number of parallel samples; may only decrease
  std::optional<NextCall> next_call = {};
};

// The request may not run until Unblocked, for example while its grammar compiles or its KV is transferred. It keeps
// its KV and leaves the ranked queue.
struct Blocked {
  RequestId request = {};
};
// A blocked request may run again.
struct Unblocked {
  RequestId request = {};
  Tokens computed{0};  // context tokens whose KV arrived, as in KvArrived; 0: no KV arrived
};

// The next plan must not include this running request, for example because the grammar of its next token is not ready.
// It keeps its row, KV and rank, and later plans include it again. A plan that is empty because the maximum number of
// steps is in flight does not count as the next plan.
struct NotReady {
  RequestId request = {};
};

// The request has called a tool. Its tokens in flight are discarded, and the pause policy decides about its KV.
struct ToolCalled {
  RequestId request = {};
  Duration expected{0};  // predicted duration of the tool call; 0: unknown
  Tokens expected_returned{0};  // predicted length of the answer; 0: unknown
  ToolId tool = {};
};
// The tool has answered. The tokens of the answer join the context.
struct ToolReturned {
  RequestId request = {};
  Tokens returned{0};
  NextCall next_call = {};  // expected next tool call
};

// Ends the request in any state.
struct Cancelled {
  RequestId request = {};
};

// The host has finished a KV move of a plan. Blocks moved out or dropped are now free. A request moved in can run.
struct MoveDone {
  MoveId move = {};
  bool failed = false;  // true: the copy was lost, and the KV must be recomputed
};

// A request that is not running has KV of its first `computed` tokens, for example after a transfer or a late cache
// lookup. It starts after these tokens, unless it has other KV by then. Its KV blocks count as used from its admission
// on. Its last token is always computed, since sampling needs it.
struct KvArrived {
  RequestId request = {};
  Tokens computed{0};  // number of tokens at the start of the context that have KV
};

// KV is lost and must be recomputed. Tokens in flight after a lost token are discarded. A running request keeps its row
// and blocks. Any other request gives up its blocks if all its KV is lost. Lost chunks of a shared prefix leave the
// prefix cache. Each other request that shares them needs its own event. Without a request, the KV of all requests and
// the prefix cache are lost, for example after a reload of the weights.
struct KvLost {
  RequestId request = {};
  Tokens from{0};  // first lost token of the context
};

// Another reader uses the request's KV, for example a transfer to another engine. After the request ends, its KV stays
// and the request is not released until KvFreed. Before the request ends, its KV may still be dropped.
struct KvPinned {
  RequestId request = {};
};
// Ends KvPinned. If the host counts KV, the event without a request reports that released blocks are usable now.
struct KvFreed {
  RequestId request = {};
};

// A turn of a workflow's branch has ended, and its next turn is expected. The retention policy uses `why` and the
// history of similar waits to decide how long to keep the turn's KV in the prefix cache. The event may be late or
// repeated. The newest event of a branch holds until the branch's next request arrives.
struct TurnEnded {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  TurnWhy why = TurnWhy::kUnknown;
  ToolId tool = {};  // tool of a kTool wait; 0: unknown
  // Predicted time from the turn's end to the next request; 0: unknown. An inaccurate time is harmless: takt learns how
  // long workflows with a similar estimate really stay away.
  Duration expected{0};
  Duration pin{0};  // time for which the turn's KV is pinned, within pin_share; other KV is evicted first; 0: no pin
};
// The next turn of a waiting branch is expected at `when`, for example because a user types or a tool is nearly done.
// The branch's KV counts as just used.
struct TurnExpected {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  TimePoint when = {};
};
// The workflow is over, complete or not. A router fails its living requests on all instances. A scheduler lets them
// finish. Prefix cache entries that only this workflow uses can then be evicted.
struct WorkflowEnded {
  WorkflowId workflow = {};
  bool cancelled = false;  // true: takt learns nothing from this workflow
};

// Rejects new requests; living requests finish.
struct Drain {};

// The number after each alternative is its number in the C interface. Numbers 11, 12 and 17 are not reused.
using Event = std::variant<Arrived,  // 1
                           Revised,  // 2
                           Blocked,  // 3
                           Unblocked,  // 4
                           ToolCalled,  // 5
                           ToolReturned,  // 6
                           Cancelled,  // 7
                           MoveDone,  // 8
                           KvFreed,  // 9
                           Drain,  // 10
                           NotReady,  // 13
                           KvArrived,  // 14
                           KvLost,  // 15
                           KvPinned,  // 16
                           TurnEnded,  // 18
                           WorkflowEnded,  // 73
                           TurnExpected  // 19
                           >;
static_assert(std::is_trivially_copyable_v<Event>);  // batches cross threads and language bindings

// Tables that learning or tuning computes outside the step loop, for policies and placements. A call of its own sets
// these tables, not an event. Fields that are not set keep their values.
struct Epoch {
  std::shared_ptr<const AgentRanks> agent_ranks = {};
  std::optional<double> alpha = {};  // alpha of workload_balance: 0 to 1
};

}  // namespace takt

#endif  // TAKT_MODEL_EVENT_H_
