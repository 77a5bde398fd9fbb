// The share of its workflow's time that each call of a simulated run may take: a workflow table beside the router.
#ifndef TAKT_SIM_WORKFLOW_BUDGETS_H_
#define TAKT_SIM_WORKFLOW_BUDGETS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/time.h"
#include "takt/model/call_time.h"
#include "takt/model/request.h"
#include "takt/placement/call_costs.h"
#include "takt/state/slo_budget.h"
#include "takt/state/workflow_table.h"
#include "takt/workload/workload.h"

namespace takt {

// HexGen-Flow's equations 5 and 6 for calls as they are made: a request's deadline becomes the end of its budget, by
// its expected cost, mean over the instances, and what is learnt of the stages that follow. The graphs are not told:
// what comes next is what workflows that have ended have taught.
class WorkflowBudgets {
 public:
  using Costs = std::vector<std::shared_ptr<const PreparedCostModel>>;  // by instance

  WorkflowBudgets(const BudgetOptions& options, Costs costs)
      : options_(options), costs_(std::move(costs)), table_({.silence = Duration::max()}) {}

  // `request` as its host describes it, with the deadline of its workflow.
  void Made(std::uint32_t call, Request& request, TimePoint now) {
    if (!table_.alive(request.workflow)) {
      table_.Declare({.id = request.workflow,
                      .tenant = request.tenant,
                      .arrival = request.workflow_arrival,
                      .deadline = request.deadline,
                      .open = true},
                     now);
    }
    double mean = 0;
    for (const auto& cost : costs_) mean += ToSeconds(TimeOn(*cost, request)) / static_cast<double>(costs_.size());
    // A call that cannot be entered keeps the deadline of its workflow.
    if (table_.Make(call, request.workflow, request.stage, mean, now).fault) return;
    request.deadline = table_.DeadlineOf(call, mean, now, options_);
  }

  // The call goes to this instance.
  void Sent(std::size_t instance, Request& request) const { request.compute = TimeOn(*costs_[instance], request); }

  void Ended(std::uint32_t call, TimePoint now) { table_.Ended(call, now), table_.released().clear(); }
  void WorkflowEnded(WorkflowId workflow, TimePoint now) {
    table_.End(workflow, false, now);
    table_.ended().clear();
    table_.dropped().clear();
  }

 private:
  static Duration TimeOn(const PreparedCostModel& cost, const Request& r) {
    return CallTime(cost, r.prompt_tokens.value, CallCosts::OutputTokens(r));
  }

  BudgetOptions options_;
  Costs costs_;
  WorkflowTable table_;
};

}  // namespace takt

#endif  // TAKT_SIM_WORKFLOW_BUDGETS_H_
