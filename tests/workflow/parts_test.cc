// The parts of a workflow table, one by one.
#include <cstdint>
#include <memory>
#include <vector>

#include "catch.h"
#include "takt/base/array_pool.h"
#include "takt/workflow/call_table.h"
#include "takt/workflow/expected_rest.h"
#include "takt/workflow/stage_graph.h"
#include "takt/workflow/stage_lessons.h"
#include "takt/workflow/stage_progress.h"
#include "takt/workflow/workflow_records.h"

namespace takt::internal {
namespace {

constexpr StageId kPlan{1}, kWrite{2}, kTest{3};

TimePoint At(std::int64_t s) { return TimePoint(std::chrono::seconds(s)); }

TEST_CASE("a pool returns a free array of the same size") {
  ArrayPool<int> pool;
  const std::uint32_t a = pool.Take(2), b = pool.Take(2), c = pool.Take(3);
  CHECK((a == 0 && b == 4 && c == 8));
  pool[b] = 7;
  pool.Give(a, 2);
  CHECK(pool.Take(3) == 16);
  CHECK(pool.Take(2) == a);
  CHECK(pool[b] == 7);
}

TEST_CASE("held calls run in creation order unless they leave before") {
  CallTable calls;
  CallList list;
  std::uint32_t held = kNoSlot, none = kNoSlot;
  calls.Join(5, {0, 1}, list, none, false);
  for (const std::uint32_t call : {7u, 2u, 9u}) calls.Join(call, {0, 2}, list, held, true);
  CHECK(calls.held(2));
  CHECK_FALSE(calls.held(5));
  CHECK(calls.PlaceOf(9).stage == 2);
  calls.Leave(2, list, held);
  CHECK_FALSE(calls.contains(2));
  CHECK((list.size == 3 && list.running == 1));

  std::vector<std::uint32_t> released;
  calls.Release(list, held, released);
  CHECK(released == std::vector<std::uint32_t>{7, 9});
  CHECK((held == kNoSlot && list.running == 3));
  while (list.first != kNoSlot) calls.Leave(list.first, list, none);
  CHECK((list.size == 0 && list.running == 0));
}

TEST_CASE("a stage crosses out its entry and all that it ends, once") {
  StageProfile profile;
  profile.Learn(kTest, 5);
  const ExpectedStages declared{{{kWrite, kTest, 1}, {kWrite, kTest, 2}, {kTest, {}, 0}, {kPlan, {}, 8}}};
  ExpectedRest rest(std::make_shared<const ExpectedStages>(declared));
  CHECK(rest.Sum(profile) == Outlook{16, 4});
  rest.Begin(kWrite);
  CHECK(rest.Sum(profile) == Outlook{15, 3});
  rest.Begin(kTest);
  CHECK(rest.Sum(profile) == Outlook{8, 1});
  CHECK(rest);
  CHECK_FALSE(ExpectedRest());
}

TEST_CASE("a stage lacks calls until all are made, again after a loss") {
  std::vector<Stage> stages(2);
  stages[0] = {.site = kWrite, .calls = 2};
  stages[1] = {.site = kWrite, .calls = 1};
  StageProgress progress;
  CHECK(progress.Lacking(stages, kTest) == 2);
  progress.Make(stages[0], 3), progress.Make(stages[0], 1);
  CHECK(stages[0].cost_s == 3);
  CHECK(progress.Lacking(stages, kWrite) == 1);
  progress.Lose(stages[0], 0);
  CHECK(progress.Lacking(stages, kWrite) == 0);

  CHECK(progress.Begin(stages[0]));
  CHECK_FALSE(progress.Begin(stages[0]));
  progress.End(stages[0]);
  CHECK((stages[0].began_at == 0 && stages[0].ended_at == 1 && progress.ended() == 1));
  CHECK_FALSE(progress.ended_early());
  stages[1].missing = 1;
  progress.End(stages[1]);
  CHECK(progress.ended_early());
}

TEST_CASE("a graph knows the most expensive later path and refuses cycles") {
  StageProfile profile;
  StageGraph graph;
  StageList w;
  const std::vector<WorkflowStage> declared = {
      {.stage = kPlan, .cost_s = 1}, {kWrite, {0}, 1, 2}, {kTest, {0}, 1, 4}, {kTest, {1, 2}, 1, 8}};
  REQUIRE_FALSE(graph.Open(w, declared, profile));
  CHECK(graph.After(w, graph.At(w, 0)) == Outlook{12, 2});
  CHECK(graph.At(w, 3).missing == 2);
  CHECK(graph.At(w, 3).visit == 1);

  const std::vector<std::uint32_t> before = {1};
  CHECK(graph.Grow(w, {kPlan, {3}, 1, 1}, before, profile).kind == WorkflowFault::kCycle);
  CHECK((w.size == 4 && graph.At(w, 1).missing == 1));
  CHECK_FALSE(graph.Grow(w, {kPlan, {0}, 1, 16}, before, profile));
  CHECK(graph.After(w, graph.At(w, 0)) == Outlook{26, 3});

  std::vector<StageId> ready;
  const auto note = [&](const Stage& stage) { ready.push_back(stage.site); };
  graph.Finish(w, 0, note);
  CHECK(ready == std::vector{kPlan, kTest});
  graph.Shut(w, 4);
  graph.Finish(w, 4, note);
  CHECK(ready.back() == kWrite);
  graph.Append(w, kWrite, profile);
  CHECK(graph.After(w, graph.At(w, 5)) == Outlook{12, 2});
  graph.Close(w);
}

TEST_CASE("the work after a stage is its most expensive later chain") {
  std::vector<Stage> stages(3);
  stages[0] = {.site = kPlan, .cost_s = 1, .began_at = 0, .ended_at = 1, .ended = true};
  stages[1] = {.site = kWrite, .cost_s = 2, .began_at = 2, .ended_at = 5, .ended = true};
  stages[2] = {.site = kTest, .cost_s = 4, .began_at = 3, .ended_at = 4, .ended = true};
  StageLessons lessons(10);
  lessons.Learn(stages);
  CHECK(lessons.profile().CostOf(kWrite) == 2);
  CHECK(lessons.profile().After(kPlan, 0) == Outlook{4, 1});
  CHECK(lessons.profile().After(kWrite, 0) == Outlook{});
}

TEST_CASE("the workflow silent for longest comes first") {
  WorkflowRecords records({{.tenant = {3}, .slo = std::chrono::seconds(7)}}, std::chrono::seconds(10));
  records.Clock(At(1));
  const Slot first = records.Insert({.id = {1}, .tenant = {3}}), second = records.Insert({.id = {2}});
  CHECK(records[first].deadline == At(8));
  CHECK(records[second].deadline == kNever);
  records.Clock(At(5));
  records.Touch(first);
  records.Clock(At(2));
  CHECK(records.now() == At(5));
  CHECK((records.Silent() == kNoSlot && records.silent_at() == At(11)));
  records.Clock(At(11));
  CHECK(records.Silent() == second);
  records.Erase(second);
  CHECK((records.Silent() == kNoSlot && records.silent_at() == At(15)));
  CHECK(records.Find({2}) == kNoSlot);
}

}  // namespace
}  // namespace takt::internal
