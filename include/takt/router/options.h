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
  std::int64_t max_outstanding = Instance::kUnbounded;  // requests per instance at once, beside its own capacity
  std::int32_t window = 16;  // waiting requests looked at past the first one that must wait
  bool fail_unfit = false;  // fail what is too large for every instance that is up, instead of setting it
                            // aside until a larger one comes
  std::int64_t reserve_requests = 1024;  // storage made ready at creation; up to here On and Place allocate nothing
  // How calls of declared workflows share the time that is left: sets Request::deadline when a call may be made and
  // again when it is sent, and Request::compute. None: requests stay as told.
  std::optional<BudgetOptions> budgets = {};
  std::shared_ptr<const StageTimes> stage_times = {};  // for budgets: measured; null: by the instances' cost models
  WorkflowTableOptions workflows = {};
  std::uint64_t hash_seed = 0;  // keys the hashes of ids and workflows, as SchedulerOptions::hash_seed does

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("max_outstanding", self.max_outstanding, {.least = 1}), Option("window", self.window),
                Option("fail_unfit", self.fail_unfit), Option("reserve_requests", self.reserve_requests),
                Option("hash_seed", self.hash_seed));
  }

  // InvalidArgument names every field at fault, with its value.
  absl::Status Validate() const {
    Faults faults;
    faults.ExpectOptions(*this);
    return faults.ToStatus();
  }
};

}  // namespace takt

#endif  // TAKT_ROUTER_OPTIONS_H_
