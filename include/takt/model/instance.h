// An instance (an engine replica with its own KV cache), and what a router is told of instances.
#ifndef TAKT_MODEL_INSTANCE_H_
#define TAKT_MODEL_INSTANCE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/model/cost_model.h"
#include "takt/model/event.h"
#include "takt/model/workflow.h"

namespace takt {

// Which part of a request's life an instance serves. Requests that are computed by two instances, one after the other,
// are not placed yet: an instance of one role is refused, and counted as an invalid event.
enum class InstanceRole : std::uint8_t { kBoth, kPrefill, kDecode };

// What instances of one model, GPU and parallelism have in common.
struct InstanceProfile {
  std::string name{};  // as the host calls it; may be empty
  std::shared_ptr<const PreparedCostModel> cost = {};  // of its iterations; null: not told

  friend bool operator==(const InstanceProfile&, const InstanceProfile&) = default;
};

// An engine with a KV cache of its own.
struct Instance {
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

  InstanceId id;                        // unique among those that are up; zero is refused
  ProfileId profile = {};               // of Router::AddProfile; none: nothing is known of how fast it is
  Tokens kv_tokens{0};                  // size of its KV cache; 0: not told, everything fits
  std::int64_t capacity = kUnbounded;  // requests at once, its own queue included; kUnbounded: no limit; 0: no new ones
  ModelId model = {};  // what it serves, where models differ
  double token_s = 0;  // time of an output token at full batch over that batch [s]; 0: not told
  InstanceRole role = InstanceRole::kBoth;  // kBoth; the others are refused
  std::uint64_t life = 0;  // grows each time the instance starts anew, such as a start time; 0: the router numbers it
};

// Counts that an instance reports of itself.
struct InstanceReport {
  std::int64_t waiting = 0;  // requests in its own queue
  std::int64_t running = 0;  // requests that run
  std::int64_t preempted = 0;  // preemptions since it came up
  Tokens kv_used{0};  // tokens whose KV it holds
  // Time up to which the counts are complete, on the router's clock. The report then includes all requests that were
  // placed by that time, and none that were placed later. kUnset: unknown; the report then includes as many requests as
  // it counts, the oldest first.
  TimePoint as_of = kUnset;

  friend constexpr bool operator==(const InstanceReport&, const InstanceReport&) = default;
};

// The instance takes requests from here on. A repeated event replaces its description and changes nothing else. A
// greater `life` means that the instance has restarted, as InstanceDown before it would. A smaller one is late. `life`
// in other events comes from Placement or Instance: the router ignores and counts a message of an earlier life.
struct InstanceUp {
  Instance instance;
};

// The instance is gone, with all that it held: its requests go back to the queue and are placed again.
struct InstanceDown {
  InstanceId instance;
  std::uint64_t life = 0;  // of the instance; 0: the present one
};

// A report whose `as_of` lies before that of an earlier report, or before the instance came up, is late.
struct InstanceReported {
  InstanceId instance;
  InstanceReport report;
  std::uint64_t life = 0;  // of the instance; 0: the present one
};

// The first step of a request on its instance begins. For placements that count what waits there apart from what runs;
// others need not be told.
struct RequestStarted {
  RequestId request;
  InstanceId instance;
  std::uint64_t life = 0;  // of the instance; 0: the present one
};

// What has been computed for a request since it was placed on its instance.
struct TokensServed {
  Tokens prefill{0};  // tokens of its context; one that is computed again counts again, one found in a cache does not
  Tokens output{0};  // new tokens of all its sequences

  constexpr bool absurd() const { return prefill < Tokens{0} || output < Tokens{0}; }
  friend constexpr bool operator==(const TokensServed&, const TokensServed&) = default;
};

// What a request has come to that has not ended, for policies that go by service: say with each report, of all that
// runs. Told twice, or late, the same changes nothing. `instance` as in RequestEnded.
struct RequestServed {
  RequestId request;
  InstanceId instance;
  TokensServed served;
  std::uint64_t life = 0;  // of the instance; 0: the present one
};

// A request has left its instance: finished, or `failed`. `instance`: the one that says so, so that the late word of
// an instance that the request had to leave is not taken for its end; none: wherever it is.
struct RequestEnded {
  RequestId request;
  InstanceId instance;
  bool failed = false;  // its stage of a workflow lacks a call again
  std::optional<TokensServed> served = {};  // in all; none: not told
  std::uint64_t life = 0;  // of the instance; 0: the present one
};

// A workflow begins (workflow/workflow_table.h). Requests that bear its id are calls of it, by their stage.
struct WorkflowDeclared {
  Workflow workflow;
};
// A workflow has one more stage.
struct WorkflowGrown {
  WorkflowId workflow;
  WorkflowStage stage;  // the new one
  std::vector<std::uint32_t> before = {};  // stages that come after it
};
// No further calls are made at the stage.
struct StageEnded {
  WorkflowId workflow;
  std::uint32_t stage = 0;
};
// Those that a scheduler takes, too, have their number in `Event`.
using RouterEvent = std::variant<Arrived, Revised, Cancelled,
                                 RequestStarted,  // 64
                                 RequestServed,  // 65
                                 RequestEnded,  // 66
                                 InstanceUp,  // 67
                                 InstanceDown,  // 68
                                 InstanceReported,  // 69
                                 WorkflowDeclared,  // 70
                                 WorkflowGrown,  // 71
                                 StageEnded,  // 72
                                 WorkflowEnded>;

}  // namespace takt

#endif  // TAKT_MODEL_INSTANCE_H_
