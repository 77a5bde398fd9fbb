// The options of a router.
#ifndef TAKT_ROUTER_OPTIONS_H_
#define TAKT_ROUTER_OPTIONS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "takt/base/faults.h"
#include "takt/model/class_limits.h"
#include "takt/model/instance.h"
#include "takt/model/stage_times.h"
#include "takt/workflow/slo_budget.h"
#include "takt/workflow/workflow_table.h"

namespace takt {

struct RouterOptions {
  std::int64_t max_outstanding = Instance::kUnbounded;  // Maximum requests per instance at once, in addition to the
                                                        // instance's own capacity.
  std::int32_t window = 16;  // Maximum waiting requests considered after the first one that must wait.
  // true: requests too large for every instance that is up fail; false: such requests wait for a larger instance
  bool fail_unfit = false;
  // number of requests for which memory is reserved; up to this number, On and Place allocate nothing
  std::int64_t reserve_requests = 1024;
  // Budgets divide the remaining time of declared workflows among their calls. Budgets set Request::compute. They set
  // Request::deadline when a call may be sent and when it is sent. None: requests stay unchanged.
  std::optional<BudgetOptions> budgets = {};
  std::shared_ptr<const StageTimes> stage_times = {};  // measured times for budgets; null: the instances' cost models
  WorkflowTableOptions workflows = {};
  // true: a placement sets Request::workflow_tokens_left to ModelScore::tokens of the instance's model, if known. The
  // engine then ranks by the prediction for the chosen model. The prediction becomes unknown if the instance goes down.
  bool model_tokens = true;
  std::uint64_t hash_seed = 0;  // seed of the hashes of ids and workflows, like SchedulerOptions::hash_seed

  // Bounds on requests that wait here and were never placed; further requests fail after each Place, the last to join
  // first. Held calls of workflows do not count. One request may wait alone, however long its prompt is.
  std::int64_t max_waiting = INT64_MAX;  // maximum requests
  std::int64_t max_waiting_tokens = INT64_MAX;  // maximum prompt tokens
  std::int64_t tenant_max_waiting = INT64_MAX;  // maximum requests of each tenant
  std::int64_t tenant_max_waiting_tokens = INT64_MAX;  // maximum prompt tokens of each tenant's requests
  // Bounds and time limits of classes, which are ranges of priorities. The time limit counts from the time at which the
  // request joins the queue, and ends with its placement. Request::expires_at can only shorten it.
  ClassLimitsList class_limits = {};
  double max_held = 0;  // maximum time for which a call waits for earlier stages of its workflow [s]; 0: unlimited
  // Maximum time without any instance that is up [s]; after it, waiting requests fail with kNoInstance. 0: unlimited.
  double max_down = 0;

  // An instance of InstanceRole::kDecode runs a request as a whole if at most this many tokens of the prompt are not in
  // its cache.
  std::int32_t local_tokens = 0;
  // true: also if its prefill would end no later than a prefill instance's, including the transfer of the KV.
  // Without the cost models of both instances, this option has no effect.
  bool local_if_sooner = true;
  double kv_link_gb_s = 25;  // KV bandwidth between two instances [1e9 bytes/s]; default: 200 Gb/s; 0: unlimited

  // Options that SetOptions may change.
  static constexpr auto kMayChange =
      std::to_array<std::string_view>({"max_outstanding", "window", "fail_unfit", "max_waiting", "max_waiting_tokens",
                                       "tenant_max_waiting", "tenant_max_waiting_tokens", "class_limits", "max_held",
                                       "max_down", "local_tokens", "local_if_sooner", "kv_link_gb_s"});

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("max_outstanding", self.max_outstanding, {.least = 1}), Option("window", self.window),
                Option("fail_unfit", self.fail_unfit), Option("reserve_requests", self.reserve_requests),
                Option("model_tokens", self.model_tokens), Option("hash_seed", self.hash_seed),
                Option("max_waiting", self.max_waiting), Option("max_waiting_tokens", self.max_waiting_tokens),
                Option("tenant_max_waiting", self.tenant_max_waiting),
                Option("tenant_max_waiting_tokens", self.tenant_max_waiting_tokens),
                Option("class_limits", self.class_limits), Option("max_held", self.max_held),
                Option("max_down", self.max_down), Option("local_tokens", self.local_tokens),
                Option("local_if_sooner", self.local_if_sooner), Option("kv_link_gb_s", self.kv_link_gb_s));
  }

  // Returns InvalidArgument with every invalid field and its value.
  absl::Status Validate() const {
    Faults faults;
    faults.ExpectOptions(*this);
    return faults.ToStatus();
  }
  // Validates the options of SetOptions. They may differ from these options in the fields of kMayChange only.
  absl::Status ValidateChange(const RouterOptions& to) const {
    if (absl::Status status = to.Validate(); !status.ok()) return status;
    Faults faults;
    faults.ExpectChange(*this, to);
    return faults.ToStatus();
  }
};

}  // namespace takt

#endif  // TAKT_ROUTER_OPTIONS_H_
