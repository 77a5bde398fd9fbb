// Workflows through the router: calls that wait for others, budgets at placement, and hosts that make mistakes.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/model/stage_times.h"
#include "takt/placement/round_robin.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/urgency.h"
#include "takt/router.h"

namespace takt {
namespace {

constexpr WorkflowId kW{7};

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

Arrived Call(std::uint64_t id, std::uint64_t stage, WorkflowId workflow = kW) {
  Arrived arrived;
  arrived.request.id = {id};
  arrived.request.workflow = workflow;
  arrived.request.stage = {stage};
  arrived.request.prompt_tokens = {10};
  return arrived;
}

// A chain of stages 1, 2, ..., n.
Workflow Chain(std::uint64_t n, double deadline_s) {
  Workflow w{.id = kW, .deadline = At(deadline_s)};
  for (std::uint64_t i = 0; i < n; ++i) {
    w.stages.push_back({.stage = {i + 1}, .after = {}});
    if (i > 0) w.stages.back().after = {static_cast<std::uint32_t>(i - 1)};
  }
  return w;
}

// Stages 1 to 9 take `seconds` on "fast" and three times that on "slow".
RouterOptions Budgeted(double seconds, BudgetOptions budgets = {}) {
  auto times = std::make_shared<StageTimes>();
  for (std::uint64_t stage = 1; stage <= 9; ++stage) {
    times->Set({stage}, "fast", FromSeconds(seconds));
    times->Set({stage}, "slow", FromSeconds(3 * seconds));
  }
  RouterOptions options;
  options.budgets = budgets;
  options.stage_times = times;
  return options;
}

using TestRouter = BasicRouter<Urgency, RoundRobin>;
TestRouter Make(RouterOptions options = {}) {
  auto router = *TestRouter::Create(std::move(options), {}, {});
  for (const char* name : {"fast", "slow"}) router.AddProfile({name});
  return router;
}
constexpr ProfileId kFast{1}, kSlow{2};

InstanceUp Up(std::uint64_t id, std::int64_t capacity = Instance::kUnbounded, ProfileId profile = kFast) {
  return {{.id = {id}, .profile = profile, .capacity = capacity}};
}

std::vector<std::uint64_t> Placed(TestRouter& router, double seconds) {
  std::vector<std::uint64_t> ids;
  for (const Placement& p : router.Place(At(seconds))) ids.push_back(p.request.value);
  return ids;
}
using Ids = std::vector<std::uint64_t>;

double Deadline(const TestRouter& router, std::uint64_t id) { return ToSeconds(router.Find({id})->request.deadline); }

TEST_CASE("a call is placed after the stages before its own have ended") {
  TestRouter router = Make();
  router.On(Up(1), At(0));
  router.On(WorkflowDeclared{Chain(3, 100)}, At(0));
  router.On(Call(3, 3), At(0));
  router.On(Call(2, 2), At(0));
  CHECK(Placed(router, 0).empty());
  CHECK(router.stats().held == 2);
  CHECK(router.waiting() == 2);
  router.On(Call(1, 1), At(1));
  CHECK(Placed(router, 1) == Ids{1});
  router.On(RequestEnded{{1}, {1}}, At(2));
  CHECK(Placed(router, 2) == Ids{2});
  router.On(RequestEnded{{2}, {1}, true}, At(3));  // its failure: the stage lacks it
  CHECK(Placed(router, 3).empty());
  router.On(Call(4, 2), At(3));
  CHECK(Placed(router, 3) == Ids{4});
  router.On(RequestEnded{{4}, {1}}, At(4));
  CHECK(Placed(router, 4) == Ids{3});
  CHECK(router.ended_workflows().empty());
  router.On(RequestEnded{{3}, {1}}, At(5));
  router.Place(At(5));
  REQUIRE(router.ended_workflows().size() == 1);
  CHECK(router.ended_workflows()[0] == WorkflowEnd{kW, WorkflowEnd::kCompleted, At(0), At(5), At(100), 0});
  CHECK(router.alive() == 0);
  router.Place(At(6));
  CHECK(router.ended_workflows().empty());
}

TEST_CASE("the second call of Figure 3 gets the time left over") {
  TestRouter router = Make(Budgeted(0.02));
  router.On(Up(1), At(0));
  Workflow w = Chain(3, 0.12);
  for (WorkflowStage& stage : w.stages) stage.cost_s = 0.02;
  router.On(WorkflowDeclared{w}, At(0));
  router.On(Call(1, 1), At(0));
  CHECK(Placed(router, 0) == Ids{1});
  CHECK(Deadline(router, 1) == Approx(0.040).epsilon(1e-9));
  CHECK(router.Find({1})->request.compute == FromSeconds(0.02));
  router.On(RequestEnded{{1}, {1}}, At(0.050));
  router.On(Call(2, 2), At(0.050));
  CHECK(Placed(router, 0.050) == Ids{2});
  CHECK(Deadline(router, 2) == Approx(0.085).epsilon(1e-9));
}

TEST_CASE("costs are means over instances; a call's time is its instance's") {
  TestRouter router = Make(Budgeted(1));
  router.On(Up(1, Instance::kUnbounded, kFast), At(0));
  router.On(Up(2, Instance::kUnbounded, kSlow), At(0));
  Workflow w = Chain(2, 12);
  w.stages[0].cost_s = w.stages[1].cost_s = 2;
  router.On(WorkflowDeclared{w}, At(0));
  w.id = {8};
  router.On(WorkflowDeclared{w}, At(0));
  router.On(Call(1, 1), At(0));
  router.On(Call(2, 1, {8}), At(0));
  CHECK(Placed(router, 0) == Ids{1, 2});
  CHECK(Deadline(router, 1) == Approx(6));
  CHECK(Deadline(router, 2) == Approx(6));
  CHECK(router.Find({1})->request.compute == FromSeconds(1));
  CHECK(router.Find({2})->request.compute == FromSeconds(3));
}

TEST_CASE("a budget is computed again when the call is placed") {
  TestRouter router = Make(Budgeted(1));
  router.On(Up(1, 0), At(0));
  Workflow w = Chain(2, 10);
  for (WorkflowStage& stage : w.stages) stage.cost_s = 1;
  router.On(WorkflowDeclared{w}, At(0));
  router.On(Call(1, 1), At(0));
  CHECK(Placed(router, 0).empty());
  CHECK(Deadline(router, 1) == Approx(5));
  router.On(Up(1, 1), At(4));
  CHECK(Placed(router, 4) == Ids{1});
  CHECK(Deadline(router, 1) == Approx(7));  // half of the six seconds that are left
}

TEST_CASE("without budgets or a workflow, requests keep their own deadlines") {
  TestRouter router = Make();
  router.On(Up(1), At(0));
  router.On(WorkflowDeclared{Chain(2, 10)}, At(0));
  Arrived call = Call(1, 1);
  call.request.deadline = At(55);
  router.On(call, At(0));
  CHECK(Placed(router, 0) == Ids{1});
  CHECK(Deadline(router, 1) == 55);
  CHECK(router.Find({1})->request.compute == Duration::zero());

  TestRouter budgeted = Make(Budgeted(1));
  budgeted.On(Up(1), At(0));
  call.request.workflow = {99};  // an undeclared workflow
  budgeted.On(call, At(0));
  CHECK(Placed(budgeted, 0) == Ids{1});
  CHECK(Deadline(budgeted, 1) == 55);
}

TEST_CASE("a lost instance's calls are placed again once, with the time left") {
  TestRouter router = Make(Budgeted(1));
  router.On(Up(1), At(0));
  Workflow w{.id = kW, .deadline = At(100), .stages = {{.stage = {1}, .calls = 3}, {.stage = {2}, .after = {0}}}};
  for (WorkflowStage& stage : w.stages) stage.cost_s = 1;
  router.On(WorkflowDeclared{w}, At(0));
  for (std::uint64_t id = 1; id <= 3; ++id) router.On(Call(id, 1), At(0));
  router.On(Call(4, 2), At(0));
  CHECK(Placed(router, 0) == Ids{1, 2, 3});
  CHECK(Deadline(router, 1) == Approx(50));
  router.On(RequestEnded{{1}, {1}}, At(20));
  router.On(InstanceDown{{1}}, At(20));
  router.On(InstanceDown{{1}}, At(20));
  CHECK(Placed(router, 20).empty());
  router.On(Up(2), At(40));
  CHECK(Placed(router, 40) == Ids{2, 3});
  CHECK(Placed(router, 40).empty());
  CHECK(Deadline(router, 2) == Approx(70));
  router.On(RequestEnded{{2}, {1}}, At(41));  // a late report of the lost instance
  router.On(RequestEnded{{3}, {2}}, At(41));
  CHECK(Placed(router, 41).empty());
  router.On(RequestEnded{{2}, {2}}, At(42));
  router.On(RequestEnded{{2}, {2}}, At(42));
  CHECK(Placed(router, 42) == Ids{4});
  router.On(RequestEnded{{4}, {2}}, At(43));
  router.Place(At(43));
  REQUIRE(router.ended_workflows().size() == 1);
  CHECK(router.ended_workflows()[0].how == WorkflowEnd::kCompleted);
  CHECK(router.stats().returned == 2);
  CHECK(router.stats().reported_late == 1);
}

TEST_CASE("a cancelled workflow cancels its own calls alone") {
  TestRouter router = Make();
  router.On(Up(1, 2), At(0));
  router.On(WorkflowDeclared{Chain(2, 100)}, At(0));
  router.On(Call(1, 1), At(0));
  router.On(Call(2, 2), At(0));
  router.On(Call(5, 1, {}), At(0));
  router.On(Call(3, 5), At(0));  // an unannounced stage
  router.On(Call(4, 1, {8}), At(0));
  CHECK(Placed(router, 0) == Ids{1, 3});
  router.On(WorkflowEnded{kW, true}, At(1));
  CHECK(router.alive() == 2);
  CHECK(router.instances()[0].outstanding == 0);
  CHECK(Placed(router, 1) == Ids{4, 5});
  Ids failed;
  for (const Failure& f : router.failed()) {
    failed.push_back(f.request.value);
    CHECK(f.reason == FailReason::kHost);
  }
  std::ranges::sort(failed);
  CHECK(failed == Ids{1, 2, 3});
  REQUIRE(router.ended_workflows().size() == 1);
  CHECK(router.ended_workflows()[0].how == WorkflowEnd::kCancelled);
  router.On(RequestEnded{{1}, {1}}, At(2));
  CHECK(router.stats().events_unknown == 1);
}

TEST_CASE("a stage that never comes fails its workflow and calls by name") {
  RouterOptions options;
  options.workflows.silence = std::chrono::seconds(30);
  TestRouter router = Make(options);
  router.On(Up(1), At(0));
  router.On(WorkflowDeclared{Chain(3, 100)}, At(0));
  router.On(Call(1, 1), At(0));
  router.On(Call(3, 3), At(0));
  CHECK(Placed(router, 0) == Ids{1});
  router.On(RequestEnded{{1}, {1}}, At(10));
  CHECK(router.wake_at() == At(40));
  CHECK(Placed(router, 39).empty());
  CHECK(router.failed().empty());
  CHECK(Placed(router, 40).empty());
  REQUIRE(router.failed().size() == 1);
  CHECK(router.failed()[0] == Failure{{3}, FailReason::kExpired});
  REQUIRE(router.ended_workflows().size() == 1);
  CHECK(router.ended_workflows()[0].how == WorkflowEnd::kSilent);
  CHECK(router.ended_workflows()[0].stage == 1);
  CHECK(router.wake_at() == kNever);
}

TEST_CASE("invalid workflow events are named and change nothing") {
  TestRouter router = Make();
  Workflow circle = Chain(3, 100);
  circle.stages[0].after = {2};
  router.On(WorkflowDeclared{circle}, At(0));
  Workflow dangling = Chain(2, 100);
  dangling.stages[1].after = {5};
  router.On(WorkflowDeclared{dangling}, At(0));
  router.On(WorkflowGrown{kW, {.stage = {1}}}, At(0));
  router.On(StageEnded{kW, 0}, At(0));
  router.On(WorkflowEnded{kW}, At(0));
  router.Place(At(0));
  REQUIRE(router.workflow_faults().size() == 5);
  CHECK(router.workflow_faults()[0].kind == WorkflowFault::kCycle);
  CHECK(router.workflow_faults()[1] == WorkflowFault{WorkflowFault::kDangling, kW, 1, {2}});
  CHECK(router.workflow_faults()[2].kind == WorkflowFault::kUnknown);
  CHECK(router.stats().workflow_faults == 5);
  CHECK(router.stats().workflows_declared == 0);
  router.On(WorkflowDeclared{Chain(2, 100)}, At(0));
  WorkflowGrown grown{kW, {.stage = {9}}};  // in steps: g++ 12 warns that the whole is uninitialised
  grown.stage.after = {0};
  grown.before = {1};
  router.On(grown, At(0));
  router.On(StageEnded{kW, 0}, At(0));
  router.On(StageEnded{kW, 2}, At(0));
  router.On(StageEnded{kW, 1}, At(0));
  router.Place(At(0));
  CHECK(router.workflow_faults().empty());
  CHECK(router.ended_workflows().size() == 1);
  router.Place(At(0));
  CHECK(router.workflow_faults().empty());  // each fault is named once
}

TEST_CASE("every workflow ends once under random hosts") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(60)); ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    RouterOptions options = Budgeted(0.5, {.rule = random.Chance(0.5) ? BudgetRule::kShare : BudgetRule::kWhole});
    options.workflows.silence = std::chrono::seconds(100);
    TestRouter router = Make(options);
    std::map<std::uint64_t, std::uint64_t> on;  // instance of each placed request
    std::set<std::uint64_t> alive;
    std::map<std::uint64_t, int> ended, failed;
    std::uint64_t declared = 0, last_id = 0;
    double now = 0;
    const auto place = [&] {
      for (const Placement& p : router.Place(At(now))) {
        REQUIRE(alive.contains(p.request.value));
        REQUIRE(on.emplace(p.request.value, p.instance.value).second);
      }
      for (const Failure& f : router.failed()) {
        REQUIRE(++failed[f.request.value] == 1);  // the host may have reported its end meanwhile
        alive.erase(f.request.value);
        on.erase(f.request.value);
      }
      for (const WorkflowEnd& end : router.ended_workflows()) REQUIRE(++ended[end.workflow.value] == 1);
    };
    for (int i = 0; i < 500; ++i) {
      now += random.Chance(0.1) ? -3 * random.Uniform() : random.Uniform();
      const WorkflowId w{1 + random.Below(declared + 1)};
      switch (random.Below(9)) {
        case 0: {
          Workflow workflow{.id = {declared + 1}, .deadline = At(now + 30 * random.Uniform() - 10)};
          for (std::uint64_t n = random.Below(6); n > 0; --n) {
            const auto at = static_cast<std::uint32_t>(workflow.stages.size());
            workflow.stages.push_back({.stage = {1 + random.Below(5)}, .after = {}});
            if (at > 0) workflow.stages.back().after = {static_cast<std::uint32_t>(random.Below(at + 1))};
          }
          const std::uint64_t before = router.stats().workflows_declared;
          router.On(WorkflowDeclared{workflow}, At(now));
          declared += router.stats().workflows_declared - before;
          break;
        }
        case 1:
        case 2:
        case 3: {
          Arrived call = Call(++last_id, 1 + random.Below(6), w);
          if (random.Chance(0.1)) call.request.expires_at = At(now + 5);
          alive.insert(last_id);
          router.On(call, At(now));
          break;
        }
        case 4:
        case 5: {
          if (on.empty()) break;
          auto it = on.begin();
          std::advance(it, static_cast<std::ptrdiff_t>(random.Below(on.size())));
          router.On(RequestEnded{{it->first}, {it->second}, random.Chance(0.1)}, At(now));
          alive.erase(it->first);
          on.erase(it);
          break;
        }
        case 6: {
          const std::uint64_t instance = 1 + random.Below(3);
          router.On(Up(instance, static_cast<std::int64_t>(random.Below(9))), At(now));
          break;
        }
        case 7: {
          if (!random.Chance(0.3)) break;
          const std::uint64_t instance = 1 + random.Below(3);
          router.On(InstanceDown{{instance}}, At(now));
          std::erase_if(on, [&](const auto& at) { return at.second == instance; });
          break;
        }
        default: {
          if (random.Chance(0.5)) router.On(StageEnded{w, static_cast<std::uint32_t>(random.Below(7))}, At(now));
          else if (random.Chance(0.2)) router.On(WorkflowEnded{w, random.Chance(0.5)}, At(now));
        }
      }
      if (random.Chance(0.5)) place();
    }
    for (std::uint64_t instance = 1; instance <= 3; ++instance) router.On(Up(instance), At(now));
    for (int i = 0; i < 100 && !(alive.empty() && router.workflows().size() == 0); ++i) {
      now += 60;
      place();
      const auto running = on;
      for (const auto& [id, instance] : running) {
        router.On(RequestEnded{{id}, {instance}}, At(now));
        alive.erase(id), on.erase(id);
      }
    }
    place();
    CHECK(alive.empty());
    CHECK(router.alive() == 0);
    CHECK(router.workflows().size() == 0);
    CHECK(ended.size() == declared);
    CHECK(router.stats().workflows_ended == declared);
  }
}

}  // namespace
}  // namespace takt
