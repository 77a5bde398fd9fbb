// The calls of a router's workflows. For each call: whether it may be sent, and how much time it has.
#ifndef TAKT_ROUTER_WORKFLOW_CALLS_H_
#define TAKT_ROUTER_WORKFLOW_CALLS_H_

#include <optional>
#include <span>

#include "takt/base/slot.h"
#include "takt/model/stage_times.h"
#include "takt/placement/books/call_costs.h"
#include "takt/router/options.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"
#include "takt/workflow/slo_budget.h"
#include "takt/workflow/workflow_table.h"

namespace takt::internal {

// Invariant: table() has each call, by its request's slot, until the request or its workflow ends. Without budgets,
// requests keep their deadlines.
class WorkflowCalls {
 public:
  explicit WorkflowCalls(const RouterOptions& options)
      : table_(options.workflows), costs_(options.stage_times), budgets_(options.budgets) {}

  WorkflowTable& table() { return table_; }
  const WorkflowTable& table() const { return table_; }

  void Up(const InstanceState& instance) { costs_.Up(instance); }

  // Adds the call of an arriving request. If the call is not ready, the request must be held. A request without a
  // living workflow is ready.
  WorkflowTable::Made Make(const RequestState& call, std::span<const InstanceState> up, TimePoint now) {
    const Request& r = call.request;
    if (!r.workflow || !table_.alive(r.workflow)) return {.ready = true};
    return table_.Make(call.slot, r.workflow, r.stage, MeanCost(call, up), now);
  }

  // Sets the deadline of a call that may be sent now.
  void SetDeadline(RequestState& call, std::span<const InstanceState> up, TimePoint now) {
    if (!budgets_ || !table_.contains(call.slot)) return;
    const TimePoint deadline = table_.DeadlineOf(call.slot, MeanCost(call, up), now, *budgets_);
    if (deadline != kNever) call.request.deadline = deadline;
  }

  // Sets the deadline and the compute time of a request that was sent to an instance.
  void Sent(RequestState& request, const InstanceState& instance, std::span<const InstanceState> up, TimePoint now) {
    if (!budgets_) return;
    SetDeadline(request, up, now);
    costs_.Prepare(request);
    request.request.compute = costs_.On(instance);
  }

  // Removes the call of a request that has ended. `well`: true if its stage is complete.
  void Ended(Slot slot, bool well, TimePoint now) {
    if (well) {
      table_.Ended(slot, now);
    } else {
      table_.Lost(slot, now);
    }
  }

 private:
  // Returns the compute time [s] by equation 6 of HexGen-Flow; 0 without budgets.
  double MeanCost(const RequestState& call, std::span<const InstanceState> up) {
    if (!budgets_ || up.empty()) return 0;
    costs_.Prepare(call);
    double sum = 0;
    for (const InstanceState& i : up) sum += ToSeconds(costs_.On(i));
    return sum / static_cast<double>(up.size());
  }

  WorkflowTable table_;  // calls by slot
  CallCosts costs_;
  std::optional<BudgetOptions> budgets_;
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_WORKFLOW_CALLS_H_
