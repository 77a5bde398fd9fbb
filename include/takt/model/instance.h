// An instance (an engine replica with its own KV cache), and the router's events about instances.
#ifndef TAKT_MODEL_INSTANCE_H_
#define TAKT_MODEL_INSTANCE_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/model/cost_model.h"
#include "takt/model/event.h"
#include "takt/model/workflow.h"

namespace takt {

// Phases that an instance serves. An instance of kPrefill computes prompts up to the first token. An instance of
// kDecode continues with such requests, and can also run a whole request. The role changes only with the instance's
// life.
enum class InstanceRole : std::uint8_t { kBoth, kPrefill, kDecode };

// Properties that instances of one model, GPU and parallelism share.
struct InstanceProfile {
  std::string name{};  // name that the host chose for the profile; may be empty
  std::shared_ptr<const PreparedCostModel> cost = {};  // cost model of its iterations; null: unknown

  friend bool operator==(const InstanceProfile&, const InstanceProfile&) = default;
};

// An engine with its own KV cache.
struct Instance {
  static constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

  InstanceId id;  // unique among instances that are up; must not be 0
  ProfileId profile = {};  // result of Router::AddProfile; 0: speed unknown
  Tokens kv_tokens{0};  // size of the instance's KV cache [tokens]; 0: unknown, every request fits
  std::int64_t capacity = kUnbounded;  // maximum requests, running or waiting; kUnbounded: no limit; 0: no new requests
  ModelId model = {};  // model that the instance serves; needed if instances serve different models
  double token_s = 0;  // step time at full batch, divided by the batch's sequences [s per output token]; 0: unknown
  InstanceRole role = InstanceRole::kBoth;  // phases that it serves
  std::uint64_t life = 0;  // number that increases at each restart; 0: the router counts restarts
  std::int32_t max_adapters = 0;  // maximum LoRA adapters that it keeps loaded, of which 32 are tracked; 0: unknown, 32
};

// Load that an instance reports.
struct InstanceReport {
  std::int64_t waiting = 0;  // requests in the instance's own queue
  std::int64_t running = 0;  // running requests
  std::int64_t preempted = 0;  // preemptions since the instance came up
  Tokens kv_used{0};  // tokens in the instance's KV cache
  // Time of the counts on the router's clock: the report covers exactly the requests placed by that time. kUnset:
  // unknown. The router then assumes that the report covers the oldest requests.
  TimePoint as_of = kUnset;

  friend constexpr bool operator==(const InstanceReport&, const InstanceReport&) = default;
};

// The instance accepts requests from now on. A repeated event only replaces the instance's description. A greater
// `life` means a restart, which implies InstanceDown. An event with a smaller `life` is outdated. `life` in other
// events is copied from Placement or Instance. The router ignores and counts messages of an earlier life.
struct InstanceUp {
  Instance instance;
};

// The instance and its KV are gone. The instance's requests return to the router's queue and are placed again.
struct InstanceDown {
  InstanceId instance;
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};

// An instance reports its load. A report is outdated if its `as_of` is before that of an earlier report, or before the
// instance came up.
struct InstanceReported {
  InstanceId instance;
  InstanceReport report;
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};

// A request's first step on its instance begins. Only placements that separate waiting from running requests need this
// event.
struct RequestStarted {
  RequestId request;
  InstanceId instance;
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};

// Tokens computed for a request since its placement on its instance.
struct TokensServed {
  Tokens prefill{0};  // Context tokens, including recomputed tokens, excluding prefix cache hits.
  Tokens output{0};  // new tokens of all sequences

  constexpr bool absurd() const { return prefill < Tokens{0} || output < Tokens{0}; }
  friend constexpr bool operator==(const TokensServed&, const TokensServed&) = default;
};

// Progress of a running request, for policies that rank by the tokens that requests received. Send it for all running
// requests with each report. Repeated and outdated events have no effect. `instance` has the meaning of
// RequestEnded::instance.
struct RequestServed {
  RequestId request;
  InstanceId instance;
  TokensServed served;
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};

// A request has left its instance: it has finished or failed. `instance` is the instance that sent the event; 0: the
// request's current instance. The router ignores an instance that no longer has the request.
struct RequestEnded {
  RequestId request;
  InstanceId instance;
  bool failed = false;  // true: the call failed, so its workflow stage must make the call again
  std::optional<TokensServed> served = {};  // tokens computed since the request's placement; not set: unknown
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};

// The request's prompt is computed, and its KV can be sent. The request leaves its prefill instance for its decode
// instance (BasicRouter::decodes). On an instance that runs the whole request, it only lowers the pending prefill.
// RequestStarted, RequestServed and RequestEnded of the decode instance have the same effect.
struct PrefillEnded {
  RequestId request;
  InstanceId instance;  // instance that computed the prompt; 0: the request's current instance
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};

// The instance has stored these blocks in its prefix cache. The placement then knows the instance's cache by its
// reports, and no longer by an estimate. Without hashes, the event only begins the reports. Send the events of an
// instance in their order.
struct KvStored {
  InstanceId instance;
  // hashes of blocks, in the order of the prompt, as a request names them; with a salt, SaltedHash(hash, salt)
  std::span<const std::uint64_t> hashes = {};
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};
// The instance has removed these blocks from its prefix cache. Unknown hashes have no effect.
struct KvRemoved {
  InstanceId instance;
  std::span<const std::uint64_t> hashes = {};  // hashes as in KvStored
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};
// The instance has removed all blocks from its prefix cache. Send the event also if earlier events were lost.
struct KvCleared {
  InstanceId instance;
  std::uint64_t life = 0;  // life of the instance; 0: the current one
};

// Declares a workflow (workflow/workflow_table.h). Requests with the workflow's id are its calls. Request::stage
// assigns each call to a stage.
struct WorkflowDeclared {
  Workflow workflow;
};
// Adds a stage to a workflow.
struct WorkflowGrown {
  WorkflowId workflow;
  WorkflowStage stage;  // the new stage
  std::vector<std::uint32_t> before = {};  // stages that follow the new one
};
// The stage makes no further calls.
struct StageEnded {
  WorkflowId workflow;
  std::uint32_t stage = 0;
};
// `Event` has the numbers of the alternatives that are also events of a scheduler.
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
                                 WorkflowEnded,
                                 PrefillEnded,  // 74
                                 KvStored,  // 75
                                 KvRemoved,  // 76
                                 KvCleared  // 77
                                 >;

}  // namespace takt

#endif  // TAKT_MODEL_INSTANCE_H_
