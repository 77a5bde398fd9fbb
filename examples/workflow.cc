// A workflow with a deadline: plan, three parallel drafts, a test. The router holds calls whose dependencies have not
// ended, and divides the remaining time when it sends a call.
#include <cstdio>
#include <memory>

#include "takt/placement/least_loaded.h"
#include "takt/policy/urgency.h"
#include "takt/router.h"

namespace {

using namespace takt;

constexpr StageId kPlan{1}, kDraft{2}, kTest{3};
constexpr WorkflowId kQuery{7};

using UrgencyRouter = BasicRouter<Urgency, LeastLoaded>;

void PlaceAll(UrgencyRouter& router, TimePoint now) {
  for (const Placement& p : router.Place(now)) {  // here a host hands the request, as Find describes it, to that engine
    const Request& r = router.Find(p.request)->request;
    std::printf("%4.1f s  call %d at stage %d -> instance %d, due at %4.1f s\n", ToSeconds(now),
                static_cast<int>(r.id.value), static_cast<int>(r.stage.value), static_cast<int>(p.instance.value),
                ToSeconds(r.deadline));
  }
  for (const WorkflowEnd& end : router.ended_workflows()) {
    std::printf("%4.1f s  workflow %d is over\n", ToSeconds(end.end), static_cast<int>(end.workflow.value));
  }
}

}  // namespace

int main() {
  auto times = std::make_shared<StageTimes>();  // or Instance::cost, without a measurement
  times->Set(kPlan, "any", std::chrono::seconds(1));
  times->Set(kDraft, "any", std::chrono::seconds(4));
  times->Set(kTest, "any", std::chrono::seconds(1));

  RouterOptions options;
  options.budgets = BudgetOptions{};
  options.stage_times = times;
  auto router = UrgencyRouter::Create(options, Urgency{}, LeastLoaded{});
  if (!router.ok()) return 1;

  TimePoint now{};
  const ProfileId any = router->AddProfile({"any"});
  for (std::uint64_t id = 1; id <= 2; ++id) router->On(InstanceUp{{.id = {id}, .profile = any}}, now);
  Workflow query{.id = kQuery, .deadline = now + std::chrono::seconds(12)};
  query.stages = {{.stage = kPlan, .cost_s = 1},
                  {.stage = kDraft, .after = {0}, .calls = 3, .cost_s = 4},
                  {.stage = kTest, .after = {1}, .cost_s = 1}};
  router->On(WorkflowDeclared{query}, now);

  // All calls at once, in any order: calls with unfinished dependencies are held.
  const auto call = [&](std::uint64_t id, StageId stage) {
    router->On(Arrived{{.id = {id}, .workflow = kQuery, .stage = stage, .prompt_tokens = {100}}}, now);
  };
  call(5, kTest);
  for (std::uint64_t id = 2; id <= 4; ++id) call(id, kDraft);
  call(1, kPlan);
  PlaceAll(*router, now);

  now += std::chrono::seconds(3);  // a second late: the rest has less time
  router->On(RequestEnded{{1}, {}}, now);
  PlaceAll(*router, now);

  now += std::chrono::seconds(5);
  for (std::uint64_t id = 2; id <= 4; ++id) router->On(RequestEnded{{id}, {}}, now);
  PlaceAll(*router, now);

  now += std::chrono::seconds(1);
  router->On(RequestEnded{{5}, {}}, now);
  PlaceAll(*router, now);
}
