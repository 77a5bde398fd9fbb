#include "lab/hexgen/systems.h"

#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace takt::tool {

double HexgenPlan::AlphaOf(HexgenCluster cluster, HexgenLoad load, double at) const {
  for (const HexgenStudy::Tuned& t : tuned) {
    if (t.cluster == cluster && t.load == load && t.rate == at) return t.choice.alpha;
  }
  return 0;
}

namespace hexgen {
namespace {

std::string Balance(double alpha) {
  return alpha > 0 ? fmt::format("workload_balance(alpha={:g})", alpha) : "workload_balance";
}

}  // namespace

HexgenSystem Vllm() { return {"vLLM", "round_robin", "fcfs"}; }
HexgenSystem WorkflowOrder() { return {"RR, by workflow", "round_robin", "workflow_fcfs"}; }
HexgenSystem Vtc() { return {"VTC", "round_robin", "fair_share", {}, true}; }
HexgenSystem Qlm() { return {"QLM", "round_robin", "slo_groups", BudgetRule::kShare}; }
HexgenSystem RrPq() { return {"RR+PQ", "round_robin", "urgency", BudgetRule::kShare}; }
HexgenSystem WbFcfs(double alpha) { return {"WB+FCFS", Balance(alpha), "fcfs"}; }
HexgenSystem WbPq(double alpha, BudgetRule budget) {
  return {std::string(kHexgenFlow), Balance(alpha), "urgency", budget};
}
HexgenSystem WbOrder(const std::string& label, const std::string& policy) { return {label, Balance(0), policy}; }
HexgenSystem Tuner() { return {"tuner", "workload_balance", "urgency", BudgetRule::kShare, false, true}; }

std::vector<HexgenSystem> Main(const HexgenPlan& plan, HexgenCluster cluster, HexgenLoad load, double rate) {
  const double alpha = plan.AlphaOf(cluster, load, rate);
  return {Vllm(), WorkflowOrder(), Vtc(), Qlm(), RrPq(), WbFcfs(alpha), WbPq(alpha)};
}

HexgenSystem Labelled(HexgenSystem system, std::string label) {
  system.label = std::move(label);
  return system;
}

std::vector<HexgenSystem> Orders() {
  return {Labelled(WbPq(0), "urgency"),
          Labelled(WbPq(0, BudgetRule::kWhole), "least slack"),
          WbOrder("FCFS", "fcfs"),
          WbOrder("by workflow", "workflow_fcfs"),
          WbOrder("query's deadline", "edf"),
          WbOrder("shortest call", "sjf")};
}

std::vector<HexgenSystem> Placements() {
  std::vector<HexgenSystem> all;
  for (const char* placement : {"round_robin", "random", "least_loaded", "least_outstanding_tokens", "code_ratio",
                                "code_ratio(alpha=0)", "workload_balance(queue=outstanding)", "workload_balance"}) {
    all.push_back({placement, placement, "urgency", BudgetRule::kShare});
  }
  return all;
}

std::vector<HexgenSystem> Knowledge() {
  std::vector<HexgenSystem> all;
  for (const char* known : {"oracle", "lengths", "class-mean", "none"}) {
    HexgenSystem system = Labelled(WbPq(0), known);
    system.estimates = *EstimateSpec::Parse(known);
    all.push_back(system);
  }
  return all;
}

}  // namespace hexgen

}  // namespace takt::tool
