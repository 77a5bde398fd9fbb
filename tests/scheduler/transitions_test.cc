// Transitions that an observer of a scheduler sees, against its counters.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "catch.h"
#include "scheduler/host.h"
#include "takt/model/event.h"
#include "takt/policy/priority.h"
#include "takt/scheduler.h"
#include "takt/state/transition.h"

namespace takt::testing {
namespace {

const char* Short(RequestStatus status) {
  switch (status) {
    case RequestStatus::kUnknown: return "-";
    case RequestStatus::kWaiting: return "waiting";
    case RequestStatus::kRunning: return "running";
    case RequestStatus::kPaused: return "paused";
    case RequestStatus::kBlocked: return "blocked";
    case RequestStatus::kDead: return "ended";
  }
  return "?";
}

// Writes each transition as "1 arrived - waiting".
struct Diary {
  std::vector<std::string> lines;
  std::vector<Transition> all;

  Observer observer() {
    return {[](void* diary, const Transition& t) { static_cast<Diary*>(diary)->See(t); }, this};
  }
  void See(const Transition& t) {
    all.push_back(t);
    lines.push_back(std::to_string(t.request.value) + " " + std::string(Name(t.reason)) + " " + Short(t.from) + " " +
                    Short(t.to));
  }
  std::vector<std::string> Take() { return std::exchange(lines, {}); }
};

using Lines = std::vector<std::string>;

TEST_CASE("a request that runs to its end has four transitions") {
  Host<> host({.max_running = 4, .kv_blocks = {100}});
  Diary diary;
  host.scheduler.Watch(diary.observer());
  host.Arrive(1, 8);
  CHECK(diary.Take() == Lines{"1 arrived - waiting"});
  const StepPlan& plan = host.scheduler.Plan(Ms(5), {});
  CHECK(diary.Take() == Lines{"1 admitted waiting running"});
  const RowResult row{.request = {1}, .lane = plan.run[0].lane, .tokens = 1};
  host.scheduler.Commit({plan.id, {&row, 1}}, Ms(9));
  CHECK(diary.Take() == Lines{"1 first_token running running"});
  CHECK(diary.all.back().at == Ms(9));
  CHECK(diary.all.back().generated == Tokens{1});
  CHECK(diary.all.back().about->prompt_tokens == Tokens{8});
  const StepPlan& next = host.scheduler.Plan(Ms(10), {});
  const RowResult last{.request = {1}, .lane = next.run[0].lane, .tokens = 1, .flags = RowResult::kFinished};
  host.scheduler.Commit({next.id, {&last, 1}}, Ms(12));
  CHECK(diary.Take() == Lines{"1 finished running ended"});
  CHECK(diary.all.back().generated == Tokens{2});
  host.scheduler.Watch({});
  host.Arrive(2, 8);
  CHECK(diary.Take().empty());
}

TEST_CASE("blocks, tools, ends and refusals have their reasons") {
  Host<> host({.max_running = 4, .kv_blocks = {100}});
  Diary diary;
  host.scheduler.Watch(diary.observer());
  host.Arrive(1, 8);
  host.On(Blocked{{1}});
  host.On(Unblocked{{1}});
  host.scheduler.Plan(Ms(1), {});
  host.On(ToolCalled{{1}});
  host.On(ToolReturned{{1}, {4}});
  host.On(Cancelled{{1}});
  CHECK(diary.Take() == Lines{"1 arrived - waiting", "1 blocked waiting blocked", "1 unblocked blocked waiting",
                              "1 admitted waiting running", "1 tool_called running paused",
                              "1 tool_returned paused waiting", "1 cancelled waiting ended"});
  Request late = Prompt(2, 8);
  late.expires_at = Ms(3);
  host.Arrive(late);
  host.scheduler.On(Arrived{Prompt(2, 8)}, Ms(2));  // the id is in use
  host.scheduler.On(Arrived{Prompt(3, 0)}, Ms(2));
  host.scheduler.Plan(Ms(2), {.tokens = {1}, .max_seqs = 0});
  host.scheduler.Plan(Ms(4), {.tokens = {1}, .max_seqs = 0});
  host.scheduler.On(Drain{}, Ms(5));
  host.scheduler.On(Arrived{Prompt(4, 8)}, Ms(5));
  CHECK(diary.Take() == Lines{"2 arrived - waiting", "2 id_in_use - ended", "3 invalid - ended",
                              "2 expired waiting ended", "4 draining - ended"});
  CHECK(diary.all.back().about != nullptr);
  CHECK(diary.all.back().slot == kNoSlot);
}

TEST_CASE("an answer of a tool beyond the longest context ends the paused request") {
  Host<> host({.max_running = 4, .kv_blocks = {100}});
  Diary diary;
  host.scheduler.Watch(diary.observer());
  host.Arrive(1, 8);
  host.scheduler.Plan(Ms(1), {});
  host.On(ToolCalled{{1}});
  host.scheduler.On(ToolReturned{{1}, Tokens::Max()}, Ms(2));
  CHECK(diary.Take().back() == "1 kv_exhausted paused ended");
  CHECK(host.scheduler.paused() == 0);
}

TEST_CASE("preemptions name memory or rank, and a later row is a resumption") {
  Diary diary;
  Host<Priority> host({.max_running = 1, .preempt = PreemptMode::kByRank, .kv_blocks = {100}});
  host.scheduler.Watch(diary.observer());
  Request low = Prompt(1, 8);
  low.priority = 5;
  host.Arrive(low);
  const StepPlan& first = host.scheduler.Plan(Ms(1), {});
  const RowResult row{.request = {1}, .lane = first.run[0].lane, .tokens = 1};
  host.scheduler.Commit({first.id, {&row, 1}}, Ms(2));
  host.Arrive(Prompt(2, 8));
  const StepPlan& second = host.scheduler.Plan(Ms(3), {});
  const RowResult done{.request = {2}, .lane = second.run[0].lane, .tokens = 1, .flags = RowResult::kFinished};
  host.scheduler.Commit({second.id, {&done, 1}}, Ms(4));
  const StepPlan& third = host.scheduler.Plan(Ms(5), {});
  const RowResult again{.request = {1}, .lane = third.run[0].lane, .tokens = 1};
  host.scheduler.Commit({third.id, {&again, 1}}, Ms(6));
  CHECK(diary.Take() == Lines{"1 arrived - waiting", "1 admitted waiting running", "1 first_token running running",
                              "2 arrived - waiting", "1 preempted_rank running waiting", "2 admitted waiting running",
                              "2 first_token running running", "2 finished running ended",
                              "1 resumed waiting running"});
  host.On(Cancelled{{1}});
  CHECK(diary.all.back().recomputed == Tokens{8});
}

TEST_CASE("waiting requests are counted by the reason that Explain gives") {
  Host<> host({.max_running = 1, .kv_blocks = {100}});
  for (std::uint64_t id = 1; id <= 5; ++id) host.Arrive(id, 8);
  host.On(Blocked{{5}});
  host.scheduler.Plan(Ms(1), {});
  WaitingCounts expected;
  for (std::uint64_t id = 1; id <= 5; ++id) {
    const WaitsFor reason = host.scheduler.Explain({id}).waits_for;
    if (reason != WaitsFor::kNothing) ++expected.of[static_cast<std::size_t>(reason)];
  }
  CHECK(host.scheduler.WaitingByReason() == expected);
  CHECK(expected[WaitsFor::kSequences] == 1);
  CHECK(host.scheduler.HeadWaitsFor() == WaitsFor::kSequences);
  CHECK(expected[WaitsFor::kItsTurn] == 2);
  CHECK(expected[WaitsFor::kUnblock] == 1);
}

}  // namespace
}  // namespace takt::testing
