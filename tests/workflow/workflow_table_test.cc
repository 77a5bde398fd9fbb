// Ready calls and their budgets, for events of any kind in any order.
#include "takt/workflow/workflow_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

using Handle = WorkflowTable::Handle;
using Handles = std::vector<Handle>;

constexpr StageId kPlan{1}, kWrite{2}, kTest{3}, kRevise{4};
constexpr WorkflowId kW{7};

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

WorkflowStage Stage(StageId site, std::vector<std::uint32_t> after = {}, double cost_s = 1, std::int32_t calls = 1) {
  return {.stage = site, .after = std::move(after), .calls = calls, .cost_s = cost_s};
}

Workflow Graph(std::vector<WorkflowStage> stages, double deadline_s = 100) {
  return {.id = kW, .arrival = At(0), .deadline = At(deadline_s), .stages = std::move(stages)};
}

Handles Taken(std::vector<Handle>& list) {
  Handles taken = list;
  list.clear();
  return taken;
}

std::vector<WorkflowEnd::How> Hows(WorkflowTable& table) {
  std::vector<WorkflowEnd::How> hows;
  for (const WorkflowEnd& end : table.ended()) hows.push_back(end.how);
  table.ended().clear();
  return hows;
}
using Ends = std::vector<WorkflowEnd::How>;

// ---- readiness --------------------------------------------------------------------------------------------------

TEST_CASE("a call is ready when all predecessors of its stage have ended") {
  // plan -> (write, write) -> test
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0}, 1, 2), Stage(kTest, {1})}), At(0)));
  CHECK(table.StageReady(kW, 0));
  CHECK_FALSE(table.StageReady(kW, 1));

  CHECK(table.Make(0, kW, kPlan, 1, At(0)).ready);
  const auto early = table.Make(1, kW, kWrite, 1, At(0));
  CHECK_FALSE(early.ready);
  CHECK(early.stage == 1);
  CHECK(table.held(1));
  CHECK_FALSE(table.Make(2, kW, kTest, 1, At(0)).ready);

  CHECK(table.Ended(0, At(1)));
  CHECK(Taken(table.released()) == Handles{1});
  CHECK_FALSE(table.held(1));
  CHECK(table.Ended(1, At(2)));
  CHECK(Taken(table.released()).empty());  // the second write was not made so far
  CHECK(table.Make(3, kW, kWrite, 1, At(2)).ready);
  CHECK(table.Ended(3, At(3)));
  CHECK(Taken(table.released()) == Handles{2});
  CHECK(table.ended().empty());
  CHECK(table.Ended(2, At(4)));
  REQUIRE(table.ended().size() == 1);
  CHECK(table.ended()[0] == WorkflowEnd{kW, WorkflowEnd::kCompleted, At(0), At(4), At(100), 0});
  CHECK(table.size() == 0);
}

TEST_CASE("a stage starts after its predecessors, in any order of reports") {
  // A diamond with a tail. Its calls are made and ended in every order.
  const std::vector<WorkflowStage> diamond = {Stage({1}), Stage({2}, {0}), Stage({3}, {0}), Stage({4}, {1, 2}),
                                              Stage({5}, {3})};
  Handles order = {0, 1, 2, 3, 4};
  do {
    WorkflowTable table;
    REQUIRE_FALSE(table.Declare(Graph(diamond), At(0)));
    std::vector<bool> ready(5), ended(5);
    for (Handle call : order) ready[call] = table.Make(call, kW, {call + 1}, 1, At(0)).ready;
    for (int left = 5; left > 0; --left) {
      // Ends the last running call in this order.
      Handle next = 99;
      for (Handle call : order) next = ready[call] && !ended[call] ? call : next;
      REQUIRE(next != 99);
      for (const WorkflowStage& stage : {diamond[next]}) {
        for (std::uint32_t before : stage.after) CHECK(ended[before]);
      }
      ended[next] = true;
      CHECK(table.Ended(next, At(1)));
      for (Handle call : Taken(table.released())) {
        CHECK_FALSE(ready[call]);
        ready[call] = true;
      }
    }
    CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
  } while (std::ranges::next_permutation(order).found);
}

TEST_CASE("a stage that ends before its predecessors counts as ended") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0}), Stage(kTest, {1})}), At(0)));
  table.Make(1, kW, kWrite, 1, At(0));
  CHECK(table.held(1));
  CHECK(table.Ended(1, At(1)));
  CHECK(table.StageReady(kW, 2));
  table.Make(0, kW, kPlan, 1, At(1));
  CHECK(table.Ended(0, At(2)));
  CHECK(table.released().empty());
  table.Make(2, kW, kTest, 1, At(2));
  CHECK(table.Ended(2, At(3)));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
}

TEST_CASE("a repeated or unknown end of a call changes nothing") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0})}), At(0)));
  table.Make(0, kW, kPlan, 1, At(0));
  CHECK(table.Ended(0, At(1)));
  CHECK_FALSE(table.Ended(0, At(1)));
  CHECK_FALSE(table.Ended(12345, At(1)));
  CHECK_FALSE(table.Lost(0, At(1)));
  CHECK(table.Find(kW).ended == 1);
  CHECK(table.EndStage(kW, 0, At(1)) == WorkflowFault{WorkflowFault::kEnded, kW, 0, kPlan});
  CHECK(table.EndStage(kW, 9, At(1)).kind == WorkflowFault::kDangling);
  CHECK(table.Find(kW).ended == 1);
}

TEST_CASE("a lost call is missing again") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kPlan, {0})}), At(0)));
  CHECK(table.Make(0, kW, kPlan, 1, At(0)).stage == 0);
  CHECK(table.Make(1, kW, kPlan, 1, At(0)).stage == 1);
  CHECK(table.Lost(0, At(1)));
  const auto again = table.Make(2, kW, kPlan, 1, At(1));
  CHECK(again.stage == 0);
  CHECK(again.ready);
  CHECK(table.Ended(2, At(2)));
  CHECK(Taken(table.released()) == Handles{1});
  CHECK(table.Ended(1, At(3)));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
}

// ---- growth -----------------------------------------------------------------------------------------------------

TEST_CASE("an undeclared revision is a stage, shared by parallel ones") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kWrite), Stage(kTest, {0})}), At(0)));
  table.Make(0, kW, kWrite, 1, At(0));
  const auto first = table.Make(1, kW, kRevise, 1, At(0));
  CHECK(first.ready);
  CHECK(first.stage == 2);
  CHECK(table.Make(2, kW, kRevise, 1, At(0)).stage == 2);
  table.Ended(1, At(1)), table.Ended(2, At(1));
  CHECK(table.Make(3, kW, kRevise, 1, At(1)).stage == 3);
  table.Ended(0, At(1)), table.Ended(3, At(1));
  CHECK(table.ended().empty());  // the test is still to come
  CHECK(table.Make(4, kW, kTest, 1, At(1)).ready);
  table.Ended(4, At(2));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
}

TEST_CASE("a stage may grow between others if its followers have not started") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kWrite), Stage(kTest, {0})}), At(0)));
  table.Make(0, kW, kWrite, 1, At(0));
  table.Make(1, kW, kTest, 1, At(0));  // held: not started
  const std::uint32_t before[] = {1};
  REQUIRE_FALSE(table.Grow(kW, Stage(kRevise, {0}), before, At(0)));
  table.Ended(0, At(1));
  CHECK(table.released().empty());
  CHECK(table.Make(2, kW, kRevise, 1, At(1)).ready);
  table.Ended(2, At(2));
  CHECK(Taken(table.released()) == Handles{1});
  CHECK(table.Grow(kW, Stage(kRevise), before, At(2)) == WorkflowFault{WorkflowFault::kTooLate, kW, 1, kTest});
  const std::uint32_t over[] = {0}, none[] = {17};
  CHECK(table.Grow(kW, Stage(kRevise), over, At(2)) == WorkflowFault{WorkflowFault::kEnded, kW, 0, kWrite});
  CHECK(table.Grow(kW, Stage(kRevise), none, At(2)).kind == WorkflowFault::kDangling);
  CHECK(table.Grow({99}, Stage(kRevise), {}, At(2)).kind == WorkflowFault::kUnknown);
  CHECK(table.Find(kW).stages == 3);
  table.Ended(1, At(3));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
}

TEST_CASE("growth that would close a cycle is refused without effect") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage({1}), Stage({2}, {0}), Stage({3}, {1})}), At(0)));
  const std::uint32_t before[] = {1};
  const WorkflowFault fault = table.Grow(kW, Stage({9}, {2}), before, At(0));  // 1 -> 2 -> new -> 1
  CHECK(fault.kind == WorkflowFault::kCycle);
  CHECK(table.Grow(kW, Stage({9}, {3}), {}, At(0)) == WorkflowFault{WorkflowFault::kCycle, kW, 3, {9}});
  CHECK(table.Grow(kW, Stage({9}, {0, 8}), {}, At(0)) == WorkflowFault{WorkflowFault::kDangling, kW, 3, {9}});
  CHECK(table.Find(kW).stages == 3);
  for (Handle call = 0; call < 3; ++call) {
    CHECK(table.Make(call, kW, {call + 1}, 1, At(0)).ready);
    CHECK(table.BudgetOf(call, 1, At(0)) == Approx(100.0 / (3 - call)));
    CHECK(table.Ended(call, At(0)));
  }
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
}

TEST_CASE("a workflow without stages grows with calls until the host ends it") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({}), At(0)));
  for (Handle round = 0; round < 5; ++round) {
    CHECK(table.Make(round, kW, kRevise, 1, At(0)).stage == round);
    CHECK(table.Ended(round, At(1)));
  }
  CHECK(table.ended().empty());
  CHECK(table.Find(kW).ended == 5);
  CHECK_FALSE(table.End(kW, false, At(2)));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
  CHECK(table.End(kW, false, At(2)).kind == WorkflowFault::kUnknown);
}

// ---- early ends -------------------------------------------------------------------------------------------------

TEST_CASE("a stage that ends early ends with the calls already made") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kWrite, {}, 1, 5), Stage(kRevise, {0}), Stage(kTest, {1})}), At(0)));
  table.Make(0, kW, kWrite, 1, At(0)), table.Make(1, kW, kWrite, 1, At(0));
  CHECK_FALSE(table.EndStage(kW, 0, At(0)));
  table.Ended(0, At(1));
  CHECK_FALSE(table.StageReady(kW, 1));
  CHECK(table.Make(5, kW, kWrite, 1, At(1)).stage == 3);  // the stage is closed: another round of it
  table.Ended(5, At(1));
  CHECK(table.Lost(1, At(1)));
  CHECK(table.StageReady(kW, 1));
  CHECK_FALSE(table.EndStage(kW, 1, At(1)));  // no revision is needed
  CHECK(table.Make(2, kW, kTest, 1, At(1)).ready);
  table.Ended(2, At(2));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
}

TEST_CASE("a cancelled workflow drops all its calls, and others stay") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0})}), At(0)));
  REQUIRE_FALSE(table.Declare({.id = {8}, .stages = {Stage(kPlan)}}, At(0)));
  table.Make(0, kW, kPlan, 1, At(0)), table.Make(1, kW, kWrite, 1, At(0)), table.Make(2, {8}, kPlan, 1, At(0));
  CHECK_FALSE(table.End(kW, true, At(1)));
  Handles dropped = Taken(table.dropped());
  std::ranges::sort(dropped);
  CHECK(dropped == Handles{0, 1});
  CHECK_FALSE(table.contains(0));
  CHECK_FALSE(table.Ended(0, At(1)));
  CHECK_FALSE(table.alive(kW));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCancelled});
  CHECK(table.Ended(2, At(2)));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
  CHECK(table.profile().CostOf(kWrite) == 0);  // a cancelled workflow teaches nothing
}

// ---- hostile input ----------------------------------------------------------------------------------------------

TEST_CASE("cycles and dangling predecessors are named by stage, and nothing remains") {
  const auto fault_of = [](std::vector<WorkflowStage> stages) {
    WorkflowTable table;
    const WorkflowFault fault = table.Declare(Graph(std::move(stages)), At(0));
    CHECK(table.size() == 0);
    CHECK(table.ended().empty());
    CHECK_FALSE(table.Declare(Graph({Stage(kPlan)}), At(0)));  // the id is free
    return fault;
  };
  CHECK(fault_of({Stage({5}, {0})}) == WorkflowFault{WorkflowFault::kCycle, kW, 0, {5}});
  const WorkflowFault cycle = fault_of({Stage({1}), Stage({2}, {0, 3}), Stage({3}, {1}), Stage({4}, {2})});
  CHECK(cycle.kind == WorkflowFault::kCycle);
  CHECK(cycle.stage >= 1);
  CHECK(ToText(cycle).find("depends on itself") != std::string::npos);
  CHECK(fault_of({Stage({1}), Stage({2}, {1})}) == WorkflowFault{WorkflowFault::kCycle, kW, 1, {2}});
  const WorkflowFault dangling = fault_of({Stage({1}), Stage({2}, {0, 2})});
  CHECK(dangling == WorkflowFault{WorkflowFault::kDangling, kW, 1, {2}});
  CHECK(ToText(dangling) ==
        "workflow 7: stage 1 (call site 2) does not exist, or refers to a stage that does not exist");
  CHECK(fault_of({Stage({1}, {UINT32_MAX})}).kind == WorkflowFault::kDangling);
  CHECK(fault_of({Stage({1}, {}, 1, 0)}).kind == WorkflowFault::kNoCalls);
  CHECK(fault_of({Stage({1}, {}, 1, -5)}).kind == WorkflowFault::kNoCalls);
  CHECK(fault_of({Stage({0})}).kind == WorkflowFault::kNoId);

  WorkflowTable small({.max_stages = 3});
  CHECK(small.Declare({.id = {0}}, At(0)).kind == WorkflowFault::kNoId);
  CHECK(small.Declare(Graph(std::vector<WorkflowStage>(4, Stage({1}))), At(0)).kind == WorkflowFault::kTooLarge);
  CHECK_FALSE(small.Declare(Graph({}), At(0)));
  CHECK(small.Declare(Graph({}), At(0)) == WorkflowFault{WorkflowFault::kAlive, kW});
  for (Handle call = 0; call < 3; ++call) CHECK_FALSE(small.Make(call, kW, {call + 1}, 1, At(0)).fault);
  CHECK(small.Make(3, kW, {4}, 1, At(0)).fault.kind == WorkflowFault::kTooLarge);
  CHECK_FALSE(small.contains(3));
  CHECK(small.Make(3, {99}, {4}, 1, At(0)).fault.kind == WorkflowFault::kUnknown);
}

TEST_CASE("ten thousand parallel calls are handled") {
  constexpr std::uint32_t kWide = 10'000;
  SECTION("in one stage") {
    WorkflowTable table;
    REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0}, 1, kWide), Stage(kTest, {1})}), At(0)));
    table.Make(0, kW, kPlan, 1, At(0));
    for (Handle call = 1; call <= kWide; ++call) table.Make(call, kW, kWrite, 1, At(0));
    CHECK(table.BudgetOf(0, 1, At(0)) == Approx(100.0 / 3));
    table.Ended(0, At(1));
    Handles released = Taken(table.released());
    REQUIRE(released.size() == kWide);
    CHECK(std::ranges::is_sorted(released));
    for (Handle call : released) table.Ended(call, At(2));
    CHECK(table.StageReady(kW, 2));
    CHECK_FALSE(table.EndStage(kW, 2, At(3)));
    CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
  }
  SECTION("in one stage per call, made in reverse order") {
    std::vector<WorkflowStage> stages = {Stage({1})};
    std::vector<std::uint32_t> all;
    for (std::uint32_t i = 1; i <= kWide; ++i) stages.push_back(Stage({i + 1}, {0})), all.push_back(i);
    stages.push_back(Stage({kWide + 2}, all));
    WorkflowTable table;
    REQUIRE_FALSE(table.Declare(Graph(stages), At(0)));
    for (Handle call = kWide + 2; call-- > 0;) CHECK(table.Make(call, kW, {call + 1}, 1, At(0)).ready == (call == 0));
    CHECK(table.BudgetOf(0, 1, At(0)) == Approx(100.0 / 3));
    table.Ended(0, At(1));
    CHECK(Taken(table.released()).size() == kWide);
    for (Handle call = 1; call <= kWide; ++call) CHECK(table.Ended(call, At(2)));
    CHECK(Taken(table.released()) == Handles{kWide + 1});
    table.Ended(kWide + 1, At(2));
    CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
  }
  SECTION("cancelled while all are held") {
    WorkflowTable table;
    REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0}, 1, kWide)}), At(0)));
    for (Handle call = 0; call < kWide; ++call) table.Make(call, kW, kWrite, 1, At(0));
    CHECK_FALSE(table.End(kW, true, At(0)));
    CHECK(Taken(table.dropped()).size() == kWide);
  }
}

TEST_CASE("a clock that steps back counts as stopped") {
  WorkflowTable table({.silence = std::chrono::seconds(10)});
  REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan)}), At(50)));
  table.Make(0, kW, kPlan, 1, At(20));
  CHECK(table.wake_at() == At(60));
  table.Ended(0, At(-1000));
  REQUIRE(table.ended().size() == 1);
  CHECK(table.ended()[0].end == At(50));
  table.Advance(kUnset);
  table.Advance(TimePoint::max());
  CHECK(table.size() == 0);
}

TEST_CASE("a silent workflow fails, named with its missing stage") {
  WorkflowTable table({.silence = std::chrono::seconds(10)});
  REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0}), Stage(kTest, {1})}), At(0)));
  table.Make(0, kW, kPlan, 1, At(0));
  table.Make(1, kW, kTest, 1, At(1));  // held for a write that never comes
  table.Advance(At(1000));             // the plan still runs
  CHECK(table.alive(kW));
  CHECK(table.wake_at() == At(1010));
  table.Ended(0, At(1001));
  table.Advance(At(1010.5));
  CHECK(table.alive(kW));
  CHECK(table.wake_at() == At(1011));
  table.Advance(At(1011));
  REQUIRE(table.ended().size() == 1);
  CHECK(table.ended()[0] == WorkflowEnd{kW, WorkflowEnd::kSilent, At(0), At(1011), At(100), 1});
  CHECK(Taken(table.dropped()) == Handles{1});
  CHECK(table.wake_at() == kNever);

  WorkflowTable patient({.silence = Duration::max()});
  REQUIRE_FALSE(patient.Declare(Graph({Stage(kPlan)}), At(0)));
  patient.Advance(TimePoint::max());
  CHECK(patient.alive(kW));
  WorkflowTable hasty({.silence = Duration(-5)});
  REQUIRE_FALSE(hasty.Declare(Graph({Stage(kPlan)}), At(0)));
  hasty.Make(0, kW, kPlan, 1, At(0));
  hasty.Advance(At(1));
  CHECK(hasty.alive(kW));
}

// ---- budgets ----------------------------------------------------------------------------------------------------

TEST_CASE("in Figure 3 the next call lacks the time that one overran") {
  // Three equal calls, SLO 120 ms.
  WorkflowTable table;
  Workflow w = Graph({Stage({1}, {}, 0.02), Stage({2}, {0}, 0.02), Stage({3}, {1}, 0.02)}, 0.12);
  REQUIRE_FALSE(table.Declare(w, At(0)));
  table.Make(0, kW, {1}, 0, At(0));
  CHECK(table.BudgetOf(0, 0, At(0)) == Approx(0.040).epsilon(1e-12));
  CHECK(table.DeadlineOf(0, 0, At(0)) == At(0.040));
  table.Ended(0, At(0.050));
  table.Make(1, kW, {2}, 0, At(0.050));
  CHECK(table.BudgetOf(1, 0, At(0.050)) == Approx(0.035).epsilon(1e-12));
  CHECK(table.DeadlineOf(1, 0, At(0.050)) == At(0.085));
}

TEST_CASE("a parallel stage counts once, by its most expensive call and path") {
  // 0 -> {1: 3 calls of 4 s, 2: 1 s} -> 3
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(
      Graph({Stage({1}, {}, 2), Stage({2}, {0}, 4, 3), Stage({3}, {0}, 1), Stage({4}, {1, 2}, 2)}, 80), At(0)));
  table.Make(0, kW, {1}, 2, At(0));
  CHECK(table.After(0) == Outlook{6, 2});
  CHECK(table.BudgetOf(0, 2, At(0)) == Approx(20));
  table.Ended(0, At(8));
  for (Handle call = 1; call <= 3; ++call) table.Make(call, kW, {2}, call == 2 ? 10 : 4, At(8));
  for (Handle call = 1; call <= 3; ++call) CHECK(table.BudgetOf(call, 4, At(8)) == Approx(72 * 10.0 / 12));
  table.Make(4, kW, {3}, 1, At(8));
  CHECK(table.BudgetOf(4, 1, At(8)) == Approx(72 / 3.0));
  CHECK(table.BudgetOf(4, 1, At(8), {.rule = BudgetRule::kWhole}) == Approx(72));
}

TEST_CASE("stages no longer needed leave their time to the rest") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage({1}), Stage({2}, {0}), Stage({3}, {1}), Stage({4}, {2})}), At(0)));
  table.Make(0, kW, {1}, 1, At(0));
  CHECK(table.After(0) == Outlook{3, 3});
  CHECK_FALSE(table.EndStage(kW, 2, At(0)));
  CHECK(table.After(0) == Outlook{2, 2});
  const std::uint32_t before[] = {3};
  REQUIRE_FALSE(table.Grow(kW, Stage({5}, {1}, 7), before, At(0)));
  CHECK(table.After(0) == Outlook{9, 3});
}

TEST_CASE("growth after an early end counts for all stages before it") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage({1}), Stage({2}, {0}), Stage({3}, {1})}), At(0)));
  table.Make(0, kW, {1}, 1, At(0));
  CHECK_FALSE(table.EndStage(kW, 1, At(0)));
  CHECK_FALSE(table.EndStage(kW, 2, At(0)));
  CHECK(table.After(0) == Outlook{0, 0});
  REQUIRE_FALSE(table.Grow(kW, Stage({4}, {2}, 7), {}, At(0)));
  CHECK(table.After(0) == Outlook{7, 1});
}

TEST_CASE("an expected stage is crossed out once, and some end others") {
  const auto expected = std::make_shared<const ExpectedStages>(ExpectedStages{
      {{kPlan, {}, 1}, {kWrite, {}, 10}, {kRevise, kTest, 3}, {kRevise, kTest, 3}, {kTest, {}, 2}, {kTest, {}, 2}}});
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare({.id = kW, .deadline = At(210), .expected = expected}, At(0)));
  auto after = [&, call = Handle{0}](StageId site) mutable {
    const auto made = table.Make(call, kW, site, 1, At(0));
    CHECK(made.ready);
    const Outlook outlook = table.After(call);
    table.Ended(call++, At(0));
    return outlook;
  };
  CHECK(after(kPlan) == Outlook{20, 5});
  CHECK(after(kPlan) == Outlook{20, 5});  // visited already
  CHECK(after(kWrite) == Outlook{10, 4});
  CHECK(after(kRevise) == Outlook{7, 3});
  CHECK(after(kTest) == Outlook{2, 1});  // no more revisions
  CHECK(after(kRevise) == Outlook{2, 1});
  CHECK(after(kTest) == Outlook{0, 0});
  CHECK(after({99}) == Outlook{0, 0});
}

TEST_CASE("an expected stage with an invalid cost counts as unknown") {
  const auto expected = std::make_shared<const ExpectedStages>(ExpectedStages{
      {{kPlan, {}, 1}, {kWrite, {}, -10}, {kRevise, {}, std::nan("")}, {kTest, {}, 1e300}, {{99}, {}, 3}}});
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare({.id = kW, .deadline = At(210), .expected = expected}, At(0)));
  table.Make(0, kW, kPlan, 1, At(0));
  CHECK(table.After(0) == Outlook{3, 4});
}

TEST_CASE("undeclared work is learned per call site and visit") {
  WorkflowTable table;
  const auto play = [&](std::uint64_t id, int revisions, bool check) {
    REQUIRE_FALSE(table.Declare({.id = {id}, .deadline = At(100)}, At(0)));
    // write (two in parallel, 4 s and 6 s), `revisions` of 2 s, test 1 s
    table.Make(0, {id}, kWrite, 4, At(0)), table.Make(1, {id}, kWrite, 6, At(0));
    if (check) CHECK(table.After(0).cost_s == Approx(2 * revisions + 1));
    if (check) CHECK(table.After(0).stages == Approx(revisions + 1));
    if (check) CHECK(table.BudgetOf(0, 4, At(0)) == Approx(100.0 * 6 / (6 + 2 * revisions + 1)));
    table.Ended(0, At(0)), table.Ended(1, At(0));
    for (int i = 0; i < revisions; ++i) {
      table.Make(2, {id}, kRevise, 2, At(0));
      if (check) CHECK(table.After(2).cost_s == Approx(2 * (revisions - 1 - i) + 1));
      table.Ended(2, At(0));
    }
    table.Make(3, {id}, kTest, 1, At(0));
    CHECK(table.After(3) == Outlook{0, 0});
    table.Ended(3, At(0));
    REQUIRE_FALSE(table.End({id}, false, At(0)));
    table.ended().clear();
  };
  play(1, 3, false);
  play(2, 3, true);
  CHECK(table.profile().CostOf(kWrite) == Approx(6));  // the most expensive of the parallel calls
  play(3, 1, false);
  REQUIRE_FALSE(table.Declare({.id = {4}}, At(0)));
  table.Make(0, {4}, kWrite, 6, At(0));
  CHECK(table.After(0).cost_s == Approx((7 + 7 + 3) / 3.0));
}

TEST_CASE("invalid costs are unknown, and a call then gets all the time") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage({1}, {}, kNan), Stage({2}, {0}, -3), Stage({3}, {1}, kInf)}), At(0)));
  table.Make(0, kW, {1}, kNan, At(0));
  CHECK(table.BudgetOf(0, kNan, At(0)) == Approx(100));
  CHECK(table.DeadlineOf(0, -kInf, At(0)) == At(100));
  CHECK(SloBudget(10, 1, kNan) == 10);
  CHECK(SloBudget(10, kInf, 1) == 10);
}

TEST_CASE("budgets handle no time left, none from the start, and none set") {
  const auto budget = [](double deadline_s, double now_s, BudgetOptions options) {
    WorkflowTable table;
    REQUIRE_FALSE(table.Declare(Graph({Stage({1}, {}, 1), Stage({2}, {0}, 3)}, deadline_s), At(0)));
    table.Make(0, kW, {1}, 1, At(now_s));
    const double b = table.BudgetOf(0, 1, At(now_s), options);
    CHECK(ToSeconds(table.DeadlineOf(0, 1, At(now_s), options)) == Approx(now_s + b).margin(1e-9));
    return b;
  };
  CHECK(budget(100, 20, {}) == Approx(20));
  CHECK(budget(100, 100, {}) == Approx(0));
  CHECK(budget(100, 99.5, {}) == Approx(0.125));
  CHECK(budget(100, 99.5, {.blown = BlownRule::kZero}) == Approx(0.125));
  CHECK(budget(0, 0, {}) == Approx(0));
  CHECK(budget(-40, 0, {}) == Approx(-40));
  CHECK(budget(100, 140, {}) == Approx(-40));
  CHECK(budget(100, 140, {.blown = BlownRule::kPublished}) == Approx(-10));
  CHECK(budget(100, 140, {.blown = BlownRule::kZero}) == 0);
  CHECK(budget(100, 140, {.rule = BudgetRule::kWhole, .blown = BlownRule::kZero}) == 0);
  CHECK(budget(100, 140, {.rule = BudgetRule::kWhole}) == Approx(-40));
  CHECK(std::isfinite(budget(9e9, -9e9, {})));

  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage({1})}), At(0)));
  REQUIRE_FALSE(table.Declare({.id = {8}, .deadline = kNever, .stages = {Stage({1})}}, At(0)));
  table.Make(0, {8}, {1}, 1, At(0));
  CHECK(table.DeadlineOf(0, 1, At(0)) == kNever);
}

// Two workflows are equally late. The workflow with the cheap call must not rank last, as it would by equation 5.
TEST_CASE("of equally late workflows none gains by its call's cost") {
  CHECK(SloBudget(-40, 1, 9, {.blown = BlownRule::kPublished}) >
        SloBudget(-40, 9, 1, {.blown = BlownRule::kPublished}));
  CHECK(SloBudget(-40, 1, 9) == SloBudget(-40, 9, 1));
  CHECK(SloBudget(-41, 1, 9) < SloBudget(-40, 9, 1));
  CHECK(SloBudget(0, 1, 9) == 0);
}

TEST_CASE("classes of service give deadlines to workflows declared without one") {
  using std::chrono::seconds;
  WorkflowTable table({.classes = {{{1}, seconds(30)}, {{2}, seconds(-5)}, {{3}, Duration::max()}}});
  const auto deadline = [&](std::uint64_t tenant, TimePoint reported) {
    const WorkflowId id{100 + tenant};
    REQUIRE_FALSE(table.Declare({.id = id, .tenant = {tenant}, .arrival = At(10), .deadline = reported}, At(12)));
    const TimePoint d = table.Find(id).deadline;
    REQUIRE_FALSE(table.End(id, true, At(12)));
    return d;
  };
  CHECK(deadline(1, kUnset) == At(40));
  CHECK(deadline(2, kUnset) == At(5));
  CHECK(deadline(3, kUnset) == kNever);
  CHECK(deadline(4, kUnset) == kNever);
  CHECK(deadline(1, At(99)) == At(99));
  CHECK(deadline(1, kNever) == kNever);
}

// ---- against plain models ---------------------------------------------------------------------------------------

// The most expensive path after a stage, then the longest of those, by a scan of all paths.
Outlook Behind(const std::vector<WorkflowStage>& stages, const std::vector<bool>& ended, std::uint32_t stage) {
  Outlook most;
  for (std::uint32_t s = 0; s < stages.size(); ++s) {
    if (std::ranges::find(stages[s].after, stage) == stages[s].after.end()) continue;
    Outlook through = Behind(stages, ended, s);
    if (!ended[s]) through = {through.cost_s + stages[s].cost_s, through.stages + 1};
    if (std::pair(through.cost_s, through.stages) > std::pair(most.cost_s, most.stages)) most = through;
  }
  return most;
}

TEST_CASE("expected work is the most expensive unfinished path in any graph") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(300)); ++seed) {
    Random random(seed);
    WorkflowTable table;
    std::vector<WorkflowStage> stages;
    const auto any_stage = [&](std::uint32_t site) {
      WorkflowStage stage = Stage({site + 1}, {}, 0.5 * static_cast<double>(1 + random.Below(4)));
      for (std::uint32_t before = 0; before < stages.size(); ++before) {
        if (random.Chance(0.4)) stage.after.push_back(before);
      }
      return stage;
    };
    const auto declared = static_cast<std::uint32_t>(1 + random.Below(6));
    for (std::uint32_t s = 0; s < declared; ++s) stages.push_back(any_stage(s));
    REQUIRE_FALSE(table.Declare(Graph(stages), At(0)));
    std::vector<bool> ended(stages.size());
    const auto compare = [&] {
      for (std::uint32_t s = 0; s < stages.size(); ++s) {
        if (ended[s]) continue;
        const auto made = table.Make(99, kW, {s + 1}, 0, At(0));
        REQUIRE(made.stage == s);
        bool ready = true;
        for (const std::uint32_t before : stages[s].after) ready = ready && ended[before];
        REQUIRE(made.ready == ready);
        REQUIRE(table.StageReady(kW, s) == ready);
        REQUIRE(table.After(99) == Behind(stages, ended, s));
        table.Lost(99, At(0));
      }
    };
    compare();
    while (random.Chance(0.8)) {
      if (random.Chance(0.5)) {
        const auto s = static_cast<std::uint32_t>(random.Below(stages.size()));
        if (std::ranges::count(ended, false) == 1 || ended[s]) continue;
        REQUIRE_FALSE(table.EndStage(kW, s, At(0)));
        ended[s] = true;
      } else if (stages.size() < 9) {
        const auto index = static_cast<std::uint32_t>(stages.size());
        WorkflowStage grown = any_stage(index);
        std::vector<std::uint32_t> before;
        std::vector<WorkflowStage> with = stages;
        for (std::uint32_t s = 0; s < stages.size(); ++s) {
          if (ended[s] || random.Chance(0.7)) continue;
          before.push_back(s);
          with[s].after.push_back(index);
        }
        with.push_back(grown);
        // A stage placed before one of its own predecessors closes a cycle.
        std::function<bool(std::uint32_t)> comes_after = [&](std::uint32_t s) {
          if (std::ranges::find(before, s) != before.end()) return true;
          return std::ranges::any_of(stages[s].after, comes_after);
        };
        const bool circle = std::ranges::any_of(grown.after, comes_after);
        const WorkflowFault fault = table.Grow(kW, grown, before, At(0));
        REQUIRE((fault.kind == WorkflowFault::kCycle) == circle);
        REQUIRE(static_cast<bool>(fault) == circle);
        if (!circle) stages = with, ended.push_back(false);
        REQUIRE(table.Find(kW).stages == stages.size());
      }
      compare();
    }
  }
}

TEST_CASE("learned work is the most expensive chain of successive stages") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(300)); ++seed) {
    Random random(seed);
    struct Played {
      double cost = 0;
      int began = -1, ended = -1;
    };
    const auto n = static_cast<Handle>(1 + random.Below(6));
    std::vector<Played> played(n);
    WorkflowTable table;
    REQUIRE_FALSE(table.Declare({.id = kW, .deadline = At(100)}, At(0)));
    int moment = 0;
    for (Handle turns = 20; turns > 0; --turns) {
      const auto call = static_cast<Handle>(random.Below(n));
      Played& p = played[call];
      if (p.began < 0) {
        p.cost = 0.25 * static_cast<double>(1 + random.Below(5));
        p.began = moment++;
        REQUIRE(table.Make(call, kW, {call + 1}, p.cost, At(0)).ready);
      } else if (p.ended < 0) {
        p.ended = moment++;
        REQUIRE(table.Ended(call, At(0)));
      }
    }
    std::function<Outlook(const Played&)> after = [&](const Played& p) {
      Outlook most;
      for (const Played& next : played) {
        if (p.ended < 0 || next.began < p.ended) continue;
        const Outlook behind = after(next);
        const Outlook through{next.cost + behind.cost_s, 1 + behind.stages};
        if (std::pair(through.cost_s, through.stages) > std::pair(most.cost_s, most.stages)) most = through;
      }
      return most;
    };
    REQUIRE_FALSE(table.End(kW, false, At(0)));
    for (Handle call = 0; call < n; ++call) {
      const Played& p = played[call];
      REQUIRE(table.profile().CostOf({call + 1}) == (p.began < 0 ? 0 : p.cost));
      REQUIRE(table.profile().After({call + 1}, 0) == (p.began < 0 ? Outlook{} : after(p)));
    }
  }
}

TEST_CASE("a held call starts at its release and is learned") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0}, 3)}), At(0)));
  table.Make(0, kW, kPlan, 1, At(0));
  table.Make(1, kW, kWrite, 3, At(0));
  table.Ended(0, At(1));
  table.Ended(1, At(2));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
  CHECK(table.profile().After(kPlan, 0) == Outlook{3, 1});
  CHECK(table.profile().CostOf(kWrite) == 3);
}

TEST_CASE("cancelled and silent workflows teach nothing") {
  for (const bool cancelled : {true, false}) {
    WorkflowTable table({.silence = std::chrono::seconds(10)});
    REQUIRE_FALSE(table.Declare(Graph({Stage(kPlan), Stage(kWrite, {0})}), At(0)));
    table.Make(0, kW, kPlan, 5, At(0));
    table.Ended(0, At(1));
    if (cancelled) {
      REQUIRE_FALSE(table.End(kW, true, At(2)));
    } else {
      table.Advance(At(11));
    }
    CHECK(Hows(table) == Ends{cancelled ? WorkflowEnd::kCancelled : WorkflowEnd::kSilent});
    CHECK(table.profile().CostOf(kPlan) == 0);
    CHECK(table.profile().sites() == 0);
  }
}

TEST_CASE("all unstarted stages come after an undeclared call") {
  WorkflowTable table;
  REQUIRE_FALSE(
      table.Declare(Graph({Stage({1}, {}, 50), Stage({2}, {}, 2), Stage({3}, {1}, 3), Stage({4}, {}, 70)}), At(0)));
  table.Make(0, kW, {1}, 50, At(0));  // runs
  REQUIRE_FALSE(table.EndStage(kW, 3, At(0)));
  table.Make(1, kW, {9}, 1, At(0));
  CHECK(table.After(1) == Outlook{5, 2});
  table.Make(2, kW, {2}, 2, At(0));
  CHECK(table.After(1) == Outlook{3, 1});
}

TEST_CASE("no workflow exceeds the limit of stages; the fault names its size") {
  WorkflowTable table({.max_stages = 2});
  REQUIRE_FALSE(table.Declare(Graph({Stage({1}), Stage({2})}), At(0)));
  CHECK(table.Grow(kW, Stage({9}), {}, At(0)) == WorkflowFault{WorkflowFault::kTooLarge, kW, 2, {9}});
  const std::uint32_t none[] = {2};
  CHECK(table.Find(kW).stages == 2);
  WorkflowTable wider({.max_stages = 3});
  REQUIRE_FALSE(wider.Declare(Graph({Stage({1}), Stage({2})}), At(0)));
  CHECK(wider.Grow(kW, Stage({9}), none, At(0)) == WorkflowFault{WorkflowFault::kDangling, kW, 2, {9}});
  CHECK_FALSE(wider.Grow(kW, Stage({9}), {}, At(0)));
  CHECK(wider.Find(kW).stages == 3);
}

TEST_CASE("a stage's cost is its largest report, or else declared or learned") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage({1}), Stage({2}, {0}, 7, 3)}), At(0)));
  table.Make(0, kW, {1}, 1, At(0));
  CHECK(table.After(0) == Outlook{7, 1});
  const auto reported = [&](Handle call, double cost_s) {
    table.Make(call, kW, {2}, cost_s, At(0));
    REQUIRE_FALSE(table.Grow(kW, Stage({8}), {}, At(0)));  // the known costs are read again
    const std::uint32_t all = table.Find(kW).stages;
    REQUIRE_FALSE(table.EndStage(kW, all - 1, At(0)));
    return table.After(0);
  };
  CHECK(reported(1, 0) == Outlook{7, 1});
  CHECK(reported(2, 2) == Outlook{2, 1});
  CHECK(reported(3, 0.5) == Outlook{2, 1});
  table.Ended(0, At(0));
  for (const Handle call : {1u, 2u, 3u}) table.Ended(call, At(0));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
  REQUIRE_FALSE(table.Declare(Graph({Stage({1}), Stage({2}, {0}, 0)}), At(0)));
  table.Make(0, kW, {1}, 1, At(0));
  CHECK(table.After(0) == Outlook{2, 1});  // as learned
}

TEST_CASE("learning depends on when stages started, not on their declaration") {
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph({Stage(kWrite, {}, 3), Stage(kPlan)}), At(0)));
  table.Make(0, kW, kPlan, 0, At(0));
  table.Ended(0, At(1));
  table.Make(1, kW, kWrite, 0, At(1));
  table.Ended(1, At(2));
  CHECK(Hows(table) == Ends{WorkflowEnd::kCompleted});
  CHECK(table.profile().After(kPlan, 0) == Outlook{3, 1});
  CHECK(table.profile().After(kWrite, 0) == Outlook{0, 0});
}

TEST_CASE("a long chain is walked once, and each call knows the rest") {
  constexpr std::uint32_t kStages = 30'000;
  std::vector<WorkflowStage> chain;
  for (std::uint32_t i = 0; i < kStages; ++i) {
    chain.push_back(Stage(kPlan, i > 0 ? std::vector{i - 1} : std::vector<std::uint32_t>{}));
  }
  WorkflowTable table;
  REQUIRE_FALSE(table.Declare(Graph(std::move(chain)), At(0)));
  for (Handle call = 0; call < kStages; ++call) {
    table.Make(call, kW, kPlan, 1, At(0));
    const std::uint32_t rest = kStages - 1 - call;
    if (table.After(call).cost_s != rest) FAIL("after call " << call);
  }
}

// ---- random events ----------------------------------------------------------------------------------------------

// A random host and a plain shadow. The shadow checks that calls wait for their predecessors and that no handle is
// named twice. Every workflow's end must be reported once.
TEST_CASE("every workflow ends, is cancelled, or fails under random events") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(100)); ++seed) {
    Random random(seed);
    WorkflowTable table({.silence = std::chrono::seconds(50), .max_stages = 60, .memory = 5});
    std::map<std::uint64_t, std::vector<std::vector<std::uint32_t>>> graphs;  // declared ones, by workflow
    std::map<std::uint64_t, std::vector<int>> calls_to_end;  // by stage of those workflows
    std::map<Handle, std::pair<std::uint64_t, std::uint32_t>> running;  // ready calls: workflow, stage
    std::map<Handle, std::pair<std::uint64_t, std::uint32_t>> held;
    std::set<std::pair<std::uint64_t, std::uint32_t>> closed;  // stages that take no more calls
    std::map<std::uint64_t, int> reported;
    std::uint64_t declared = 0;
    double now = 0;
    const auto drain = [&] {
      for (Handle h : Taken(table.released())) {
        REQUIRE(held.contains(h));
        const auto [w, s] = held[h];
        if (s < graphs[w].size()) {
          for (std::uint32_t before : graphs[w][s]) REQUIRE(calls_to_end[w][before] <= 0);
        }
        running.insert(held.extract(h));
      }
      for (Handle h : Taken(table.dropped())) REQUIRE(running.erase(h) + held.erase(h) == 1);
      for (const WorkflowEnd& end : table.ended()) REQUIRE(++reported[end.workflow.value] == 1);
      table.ended().clear();
    };
    for (int i = 0; i < 400; ++i) {
      now += random.Chance(0.1) ? -random.Uniform() * 5 : random.Uniform();
      const std::uint64_t w = 1 + random.Below(declared + 1);
      switch (random.Below(10)) {
        case 0:
        case 1: {
          Workflow workflow{.id = {declared + 1}, .deadline = At(now + 20 * random.Uniform() - 5)};
          workflow.open = random.Chance(0.2);
          std::vector<std::vector<std::uint32_t>> graph;
          for (std::uint64_t n = random.Below(8); n > 0; --n) {
            std::vector<std::uint32_t> after;
            while (!graph.empty() && random.Chance(0.6)) {
              after.push_back(static_cast<std::uint32_t>(random.Below(graph.size() + (random.Chance(0.02) ? 3 : 0))));
            }
            graph.push_back(after);
            const StageId site{1 + random.Below(4)};
            const double work = random.Uniform() * 3 - 1;
            workflow.stages.push_back(Stage(site, after, work, 1 + static_cast<std::int32_t>(random.Below(3))));
          }
          if (table.Declare(workflow, At(now))) {
            REQUIRE_FALSE(table.alive({declared + 1}));
            break;
          }
          ++declared;
          graphs[declared] = graph;
          for (const WorkflowStage& s : workflow.stages) calls_to_end[declared].push_back(s.calls);
          break;
        }
        case 2:
        case 3:
        case 4:
        case 5: {
          const auto h = static_cast<Handle>(random.Below(64));
          if (table.contains(h)) break;
          const StageId site{1 + random.Below(5)};
          const auto made = table.Make(h, {w}, site, random.Uniform(), At(now));
          if (made.fault) break;
          (made.ready ? running : held)[h] = {w, made.stage};
          if (made.ready && made.stage < graphs[w].size()) {
            for (std::uint32_t before : graphs[w][made.stage]) REQUIRE(calls_to_end[w][before] <= 0);
          }
          REQUIRE_FALSE(std::isnan(table.BudgetOf(h, random.Uniform(), At(now))));
          break;
        }
        case 6:
        case 7: {
          const auto h = static_cast<Handle>(random.Below(64));
          REQUIRE(table.contains(h) == (running.contains(h) || held.contains(h)));
          if (!table.contains(h)) break;
          const auto [of, s] = running.contains(h) ? running[h] : held[h];
          const bool lost = random.Chance(0.2);
          REQUIRE((lost ? table.Lost(h, At(now)) : table.Ended(h, At(now))));
          const bool lacks = lost && !closed.contains({of, s});
          if (!lacks && s < graphs[of].size()) --calls_to_end[of][s];
          running.erase(h), held.erase(h);
          break;
        }
        case 8: {
          if (random.Chance(0.3)) {
            table.End({w}, random.Chance(0.5), At(now));
            break;
          }
          const auto s = static_cast<std::uint32_t>(random.Below(8));
          if (table.EndStage({w}, s, At(now)) || s >= graphs[w].size()) break;
          closed.insert({w, s});
          calls_to_end[w][s] = 0;
          for (const auto& calls : {running, held}) {
            for (const auto& [h, at] : calls) calls_to_end[w][s] += at == std::pair{w, s} ? 1 : 0;
          }
          break;
        }
        default: {
          const std::uint32_t before[] = {static_cast<std::uint32_t>(random.Below(8))};
          const auto after = static_cast<std::uint32_t>(random.Below(8));
          const std::uint32_t index = table.Find({w}).stages;
          if (table.Grow({w}, Stage({1 + random.Below(4)}, {after}), before, At(now))) break;
          if (index != graphs[w].size()) {  // after undeclared stages
            graphs[w].resize(index), calls_to_end[w].resize(index);
          }
          graphs[w].push_back({after}), calls_to_end[w].push_back(1);
          graphs[w][before[0]].push_back(index);
        }
      }
      if (random.Chance(0.2)) table.Advance(At(now));
      drain();
    }
    for (const auto& [h, at] : running) static_cast<void>(table.Ended(h, At(now)));
    running.clear();
    for (int i = 0; i < 3 && table.size() > 0; ++i) {
      table.Advance(At(now + 1000 * (i + 1)));
      for (Handle h : Taken(table.released())) table.Ended(h, At(now)), held.erase(h);
      for (Handle h : Taken(table.dropped())) held.erase(h);
      for (const WorkflowEnd& end : table.ended()) REQUIRE(++reported[end.workflow.value] == 1);
      table.ended().clear();
    }
    REQUIRE(table.size() == 0);
    REQUIRE(reported.size() == declared);
  }
}

}  // namespace
}  // namespace takt
