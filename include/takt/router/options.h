// The options of a router.
#ifndef TAKT_ROUTER_OPTIONS_H_
#define TAKT_ROUTER_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "takt/base/faults.h"
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

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("max_outstanding", self.max_outstanding, {.least = 1}), Option("window", self.window),
                Option("fail_unfit", self.fail_unfit), Option("reserve_requests", self.reserve_requests),
                Option("model_tokens", self.model_tokens), Option("hash_seed", self.hash_seed));
  }

  // Returns InvalidArgument with every invalid field and its value.
  absl::Status Validate() const {
    Faults faults;
    faults.ExpectOptions(*this);
    return faults.ToStatus();
  }
};

}  // namespace takt

#endif  // TAKT_ROUTER_OPTIONS_H_
