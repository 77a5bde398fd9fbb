// Facts that reach a scheduler or a router, as values: a log of them replays to the same plans.
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

// What a workflow's branch waits for between two turns.
enum class TurnWhy : std::uint8_t { kUnknown, kTool, kUser, kChildren, kOver };
constexpr auto NamesOf(TurnWhy) {
  return std::to_array<std::string_view>({"unknown", "tool", "user", "children", "over"});
}

// A request that waits from now on.
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
// It may run.
struct Unblocked {
  RequestId request = {};
  Tokens computed{0};  // as KvArrived says at the same time; 0: nothing came, or the load failed
};

// A running request is not to be in the next plan (the grammar of its next token is not there yet). It keeps its row,
// its KV and its place, and later plans have it again. A plan while as many steps are in flight as may be does not
// count.
struct NotReady {
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

// The request ends here, whatever it does.
struct Cancelled {
  RequestId request = {};
};

// The host has carried out a KV move of a plan: blocks moved out or dropped are free from here on, a request moved
// in can run.
struct MoveDone {
  MoveId move = {};
  bool failed = false;  // the copy was lost: the KV must be computed again
};

// KV of the first tokens of its context is there for a request that does not run (a transfer, a cache that was
// asked late): it starts behind them where it holds no KV of its own by then. Blocks are counted when it is let in. The
// last token, which is computed to sample from, does not count.
struct KvArrived {
  RequestId request = {};
  Tokens computed{0};  // how many
};

// KV is lost, and has to be computed again. Tokens in flight for the request are
// void where any before them is lost. It keeps its row and its blocks; one without a row gives up what it holds where
// all is lost. Prefix chunks that it shared are found no more; those who share them are lost only where they are named
// too. No request: that of all, and whatever is cached (weights were loaded, the cache was reset).
struct KvLost {
  RequestId request = {};
  Tokens from{0};  // that of the tokens from this one on
};

// Somebody reads the request's KV (a transfer to another engine): from its end on the KV stays, and the request is not
// released, until KvFreed names it. While it lives, its KV may be dropped like any other's.
struct KvPinned {
  RequestId request = {};
};
// Nobody reads it any more. No request, host-owned KV only: blocks released earlier are usable now.
struct KvFreed {
  RequestId request = {};
};

// A turn of a workflow's branch has ended with something to wait for, as far as the host knows by now; may be told
// late, and again: the newest holds, until the branch's next request arrives. What the turn has left in the prefix
// cache is held by it, and by how such waits have ended before.
struct TurnEnded {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  TurnWhy why = TurnWhy::kUnknown;
  ToolId tool = {};  // of kTool, where the host knows which; zero: not told
  Duration expected{0};  // from the turn's end to the next request; 0: not known. Need not be true: what is learnt is
                         // how long those stay away of whom about that was said
  Duration pin{0};  // so long from now on it goes after all that is not pinned, as far as pin_share allows; 0: no pin
};
// The next turn of a workflow's branch, which is away, is expected at this time: a user types, a tool is nearly done.
// What it holds counts as used just now.
struct TurnExpected {
  WorkflowId workflow = {};
  std::uint64_t branch = 0;
  TimePoint when = {};
};
// The workflow is over, early or not. To a router, requests of it that are alive have failed, wherever they are; in a
// scheduler they go on, and what the workflow alone holds in the prefix cache is dead.
struct WorkflowEnded {
  WorkflowId workflow = {};
  bool cancelled = false;  // nothing is learnt of it
};

// No new work from here on; what lives is finished.
struct Drain {};

// Behind each its number in the C interface. 11, 12 and 17 were other events'.
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
static_assert(std::is_trivially_copyable_v<Event>);  // plain data: batches of them cross threads and languages

// No event, and told by a call of its own: tables from slow work (learning, tuning), which from here on hold; what is
// absent stays as it was. Read by the policies and placements that observe it.
struct Epoch {
  std::shared_ptr<const AgentRanks> agent_ranks = {};
  std::optional<double> alpha = {};  // of workload_balance: 0 .. 1
};

}  // namespace takt

#endif  // TAKT_MODEL_EVENT_H_
