#include <takt/policy/fcfs.h>
#include <takt/scheduler.h>

int main() {
  auto scheduler = takt::Scheduler::Create({.kv_blocks = {100}}, takt::Fcfs{});
  if (!scheduler.ok()) return 1;
  scheduler->On(takt::Arrived{{.id = {1}, .prompt_tokens = {32}}}, takt::TimePoint{});
  const takt::StepPlan& plan = scheduler->Plan(takt::TimePoint{}, {});
  return plan.run.size() == 1 && plan.tokens == takt::Tokens{32} ? 0 : 1;
}
