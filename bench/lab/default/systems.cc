#include "lab/default/systems.h"

#include <utility>
#include <vector>

namespace takt::tool {

namespace defaults {

DefaultSystem Ours() { return {"default", "room_to_pass"}; }
DefaultSystem BlindToDeadlines() { return {"default, no deadlines", "room_to_pass(deadline_weight=0)"}; }
DefaultSystem Mean() { return {"footprint", "footprint"}; }
DefaultSystem HopelessLast() {
  return {.label = "footprint, hopeless last", .policy = "footprint(hopeless_last=true)", .by_deadline = true};
}
DefaultSystem Fcfs() { return {.label = "fcfs", .policy = "fcfs", .asks = false}; }
DefaultSystem WorkflowFcfs() { return {.label = "workflow_fcfs", .policy = "workflow_fcfs", .asks = false}; }
DefaultSystem Stjf() { return {"stjf", "stjf"}; }
DefaultSystem Urgency() {
  return {.label = "urgency",
          .policy = "urgency",
          .budget = BudgetOptions{.rule = BudgetRule::kShare, .blown = BlownRule::kPublished},
          .by_deadline = true};
}
DefaultSystem UrgencyByLateness() {
  return {.label = "urgency, latest first",
          .policy = "urgency",
          .budget = BudgetOptions{.rule = BudgetRule::kShare, .blown = BlownRule::kLateness},
          .by_deadline = true};
}
DefaultSystem Slack() {
  return {
      .label = "slack", .policy = "urgency", .budget = BudgetOptions{.rule = BudgetRule::kWhole}, .by_deadline = true};
}
DefaultSystem MemoryIntegral() { return {"memory_integral", "memory_integral"}; }
DefaultSystem AgentPriority() {
  return {.label = "agent_priority", .policy = "agent_priority", .learns = true, .asks = false};
}
DefaultSystem UniBoost() { return {"uniboost", "uniboost"}; }
DefaultSystem SageSched() { return {"sagesched", "sagesched"}; }
DefaultSystem Justitia() { return {"justitia", "justitia"}; }

std::vector<DefaultSystem> Rivals() {
  return {Fcfs(),
          WorkflowFcfs(),
          {"sjf", "sjf"},
          Stjf(),
          Urgency(),
          UrgencyByLateness(),
          Slack(),
          MemoryIntegral(),
          AgentPriority(),
          {.label = "stage_depth", .policy = "stage_depth", .learns = true, .asks = false},
          {"ltr", "ltr"},
          {.label = "mlfq", .policy = "mlfq", .asks = false},
          {.label = "autellix", .policy = "autellix", .asks = false},
          UniBoost(),
          SageSched(),
          Justitia()};
}

}  // namespace defaults

std::vector<DefaultSystem> RivalsAt(Served served) {
  switch (served) {
    case Served::kApps:
    case Served::kMath:
    case Served::kApps7: return {defaults::Stjf()};
    case Served::kText1:
    case Served::kText2: return {defaults::Urgency(), defaults::UrgencyByLateness(), defaults::Slack()};
    case Served::kTools: return {defaults::MemoryIntegral()};
    case Served::kAgents: return {defaults::AgentPriority()};
    case Served::kMix: return {defaults::WorkflowFcfs()};
    default: return {defaults::Fcfs()};
  }
}

std::vector<DefaultSystem> AllSystems() {
  std::vector<DefaultSystem> all = {defaults::Ours(), defaults::BlindToDeadlines(), defaults::Mean(),
                                    defaults::HopelessLast()};
  for (DefaultSystem& rival : defaults::Rivals()) all.push_back(std::move(rival));
  return all;
}

}  // namespace takt::tool
