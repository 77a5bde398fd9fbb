// With headers alone, runs a router and a scheduler of policies known at compile time and chosen at run time.
#include <takt/policy/sjf.h>
#include <takt/router.h>
#include <takt/placement/least_loaded.h>
#include <takt/scheduler.h>

namespace {

template <class Scheduler>
bool Steps(absl::StatusOr<Scheduler> scheduler) {
  if (!scheduler.ok()) return false;
  scheduler->On(takt::Arrived{{.id = {1}, .prompt_tokens = {32}}}, takt::TimePoint{});
  const takt::StepPlan& plan = scheduler->Plan(takt::TimePoint{}, {});
  return plan.run.size() == 1 && plan.tokens == takt::Tokens{32};
}

bool Places() {
  auto router = takt::Router::Create({}, takt::Sjf{}, takt::LeastLoaded{});
  if (!router.ok()) return false;
  router->On(takt::InstanceUp{.instance = {.id = {1}}}, takt::TimePoint{});
  router->On(takt::Arrived{{.id = {1}, .prompt_tokens = {32}}}, takt::TimePoint{});
  return router->Place(takt::TimePoint{}).size() == 1;
}

}  // namespace

int main() {
  const bool steps = Steps(takt::BasicScheduler<takt::Sjf>::Create({.kv_blocks = {100}}, takt::Sjf{})) &&
                     Steps(takt::Scheduler::Create({.kv_blocks = {100}}));
  return steps && Places() && !takt::Scheduler::Create({.max_running = 0}).ok() ? 0 : 1;
}
