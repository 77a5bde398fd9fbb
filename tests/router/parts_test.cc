// The parts of a router, one by one.
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/placement/round_robin.h"
#include "takt/policy/fcfs.h"
#include "takt/router/book.h"
#include "takt/router/events.h"
#include "takt/router/instance_table.h"
#include "takt/router/notices.h"
#include "takt/router/placed_requests.h"
#include "takt/router/placement_hooks.h"
#include "takt/router/placing.h"
#include "takt/router/record.h"
#include "takt/router/requests.h"
#include "takt/router/workflow_calls.h"
#include "takt/state/call_desk.h"

namespace takt::internal {
namespace {

TimePoint At(std::int64_t ms) { return TimePoint(std::chrono::milliseconds(ms)); }

Request RequestOf(std::uint64_t id, std::int32_t prompt = 10) {
  Request r;
  r.id = {id};
  r.prompt_tokens = {prompt};
  return r;
}

using Requests = RouterRequests<Fcfs, RoundRobin>;

void Hear(Requests& requests, const RouterEvent& event, TimePoint now) {
  requests.MakeRoomFor(event);
  requests.Enter(now);
  RouterActs(requests).Act(event);
  requests.desk.Leave();
}

TEST_CASE("a desk never goes back in time, and counts interrupted calls") {
  CallDesk desk;
  std::uint64_t back = 0, after_end = 0;
  CHECK(desk.MayEnter(after_end));
  CHECK(desk.Enter(At(5), back) == At(5));
  CHECK(desk.inside());
  desk.Leave();
  desk.Begin();
  CHECK(desk.Enter(At(3), back, {7}) == At(5));
  CHECK(back == 1);
  CHECK(desk.Summary() == Ignored{1, 0, FaultKind::kClockBack});
  CHECK(desk.log().last().step == StepId{7});
  CHECK(desk.log().last().at == At(5));
  desk.Begin();
  CHECK_FALSE(desk.MayEnter(after_end));
  CHECK(after_end == 1);
  CHECK(desk.Summary(2) == Ignored{1, 2, FaultKind::kEnded});
  desk.Leave();
  CHECK(desk.MayEnter(after_end));
}

TEST_CASE("room doubles only if it is short") {
  std::vector<int> list(8);
  list.shrink_to_fit();
  MakeRoom(list, 1);
  CHECK(list.capacity() >= 16);
  const std::size_t before = list.capacity();
  MakeRoom(list, before - list.size());
  CHECK(list.capacity() == before);
}

TEST_CASE("a charge never falls") {
  Charged charged;
  const Charged::More first = charged.RaiseTo({{100}, {4}}, 2);
  CHECK(first.prefill == Tokens{100});
  CHECK(first.output == Tokens{4});
  CHECK(first.steps == 1);  // the first of two steps includes the prompt
  const Charged::More again = charged.RaiseTo({{50}, {4}}, 2);
  CHECK(again.prefill == Tokens{0});
  CHECK(again.output == Tokens{0});
  CHECK(charged.RaiseTo({{100}, {9}}, 2).steps == 3);
  CHECK(charged.served == TokensServed{{100}, {9}});
}

TEST_CASE("a slot's next request has a fresh record") {
  RouteTable table;
  const Slot slot = table.Insert(RequestOf(1));
  table[slot].charged.reported = true;
  table[slot].place = {3};
  table.Erase(slot);
  CHECK(table[slot].status == RouteStatus::kUnknown);
  CHECK(table.Insert(RequestOf(2)) == slot);
  CHECK_FALSE(table[slot].charged.reported);
  CHECK_FALSE(table[slot].place);
  CHECK(table[slot].status == RouteStatus::kHeld);
}

TEST_CASE("a list of slots returns all its members in order") {
  RouteTable table;
  for (std::uint64_t id = 1; id <= 4; ++id) table.Insert(RequestOf(id));
  SlotList list;
  for (const Slot slot : {2u, 0u, 3u, 1u}) list.Add(table, slot);
  list.Remove(table, 3);  // in the middle, then the first, then the last
  list.Remove(table, 1);
  list.Remove(table, 2);
  CHECK(list.size() == 1);
  list.Add(table, 2), list.Add(table, 1);
  std::vector<Slot> all = {9};
  list.TakeAll(table, all);
  CHECK(all == std::vector<Slot>{0, 1, 2});
  CHECK(list.size() == 0);
}

TEST_CASE("instances are ordered by id, keep lives, and reuse free slots") {
  InstanceTable table;
  const auto up = [&](std::uint64_t id) {
    table.MakeRoomForOne();
    return table.Up({.id = {id}});
  };
  CHECK(up(5).second);
  CHECK(up(2).second);
  CHECK(table.all()[0].instance.id == InstanceId{2});
  CHECK(table.all()[0].slot == 1);
  CHECK(table.all()[0].instance.life == 2);
  CHECK_FALSE(up(2).second);
  CHECK(table.Find({2})->instance.life == 2);
  CHECK(table.Candidate(0, {5}) == table.Find({5}));
  CHECK(table.Candidate(0, {5}) == table.Find({5}));
  CHECK(table.Candidate(0, {7}) == nullptr);
  CHECK(table.Remove({5}).slot == 0);
  CHECK(table.Find({5}) == nullptr);
  CHECK(up(9).first->slot == 0);
  CHECK(table.newest_life() == 3);
  CHECK(table.Has(ProfileId{}));
  CHECK_FALSE(table.Has({1}));
  CHECK(table.AddProfile({.name = "a"}) == table.AddProfile({.name = "a"}));
  CHECK(table.Has({1}));
}

TEST_CASE("a dated report includes placements up to it; an undated one counts") {
  RouteTable table;
  PlacedRequests placed;
  InstanceState instance{.instance = {.id = {1}}};
  placed.MakeRoomForOne();
  placed.Up(instance, At(0));
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const auto tokens = static_cast<std::int32_t>(id);
    placed.Add(table, table.Insert(RequestOf(id, tokens)), instance, tokens, At(static_cast<std::int64_t>(id)));
  }
  CHECK(placed.size() == 4);
  CHECK(instance.outstanding == 4);
  CHECK(instance.tokens_since_report == 10);
  placed.Report(table, instance, {.as_of = At(2)});
  CHECK(instance.since_report == 2);
  CHECK(instance.tokens_since_report == 7);
  CHECK(placed.IsLate(instance, At(1)));
  CHECK_FALSE(placed.IsLate(instance, kUnset));
  placed.Report(table, instance, {.running = 3});
  CHECK(instance.since_report == 1);
  placed.Remove(table, 3, instance);
  CHECK(instance.outstanding == 3);
  std::vector<Slot> all;
  placed.TakeAll(table, instance, all);
  CHECK(all == std::vector<Slot>{0, 1, 2});
  CHECK(placed.size() == 0);
}

TEST_CASE("a call waits for the stages before its own") {
  WorkflowCalls calls{RouterOptions{}};
  RequestState call;
  call.request = RequestOf(1);
  CHECK(calls.Make(call, {}, At(0)).ready);  // without a workflow
  REQUIRE_FALSE(calls.table().Declare({.id = {7}, .stages = {{.stage = {1}}, {.stage = {2}, .after = {0}}}}, At(0)));
  call.request.workflow = {7}, call.request.stage = {2};
  CHECK_FALSE(calls.Make(call, {}, At(0)).ready);
  CHECK(calls.table().held(0));
  calls.SetDeadline(call, {}, At(0));
  CHECK(call.request.deadline == kNever);  // without budgets
  calls.Ended(0, false, At(1));
  CHECK_FALSE(calls.table().contains(0));
}

TEST_CASE("collected notices belong to the next Place alone") {
  RouterNotices notices;
  notices.MakeRoomToGather(2, 1);
  CHECK(notices.refused.capacity() >= 3);
  notices.refused.push_back({{1}, FailReason::kHost});
  notices.Clear(), notices.TakeGathered();
  CHECK(notices.failed.size() == 1);
  CHECK(notices.refused.empty());
  notices.Clear(), notices.TakeGathered();
  CHECK(notices.failed.empty());
}

TEST_CASE("a book refuses events of earlier lives, unknown instances and absent requests") {
  RouterBook book{RouterOptions{}};
  book.MakeRoomFor(InstanceUp{{.id = {1}, .life = 5}});
  CHECK(book.Heeds(InstanceUp{{.id = {1}, .life = 5}}));
  book.placed.Up(*book.instances.Up({.id = {1}, .life = 5}).first, At(0));
  CHECK(book.Restarts({{.id = {1}, .life = 6}}));
  CHECK(book.Heeds(InstanceUp{{.id = {1}, .life = 6}}));
  CHECK_FALSE(book.Heeds(InstanceUp{{.id = {1}, .life = 4}}));
  CHECK_FALSE(book.Heeds(InstanceDown{{1}, 4}));
  CHECK(book.stats.reported_late == 2);
  CHECK_FALSE(book.Heeds(InstanceDown{{2}}));
  CHECK(book.stats.events_unknown == 1);
  CHECK_FALSE(book.Heeds(InstanceReported{{1}, {.waiting = -1}}));
  CHECK(book.stats.events_invalid == 1);
  CHECK(book.Living({3}) == kNoSlot);
  CHECK_FALSE(book.Accepts(RequestOf(0)));
  CHECK_FALSE(book.Accepts(RequestOf(1, 0)));
  CHECK(book.notices.refused.size() == 2);
  CHECK(book.Accepts(RequestOf(1)));
  CHECK(book.stats.faults() == 5);
}

struct Plain {
  double Score(const RequestState&, const InstanceState& i, TimePoint) const { return i.instance.token_s; }
};

TEST_CASE("a placement without hooks gets empty ones") {
  PlacementHooks<Plain> hooks{Plain{}};
  hooks.KeyHashes(1);
  hooks.Observe(RouterEvent(InstanceDown{{1}}), At(0));
  hooks.Observe(Epoch{}, At(0));
  const InstanceState instance{.instance = {.id = {1}, .token_s = 2}};
  hooks.Up(instance, At(0)), hooks.Prepare({}, At(0)), hooks.Placed({}, instance, At(0));
  hooks.Started({}, instance, At(0)), hooks.Released({}, instance, At(0));
  CHECK(hooks.Score({}, instance, At(0)) == 2);
}

TEST_CASE("a request's status follows its way through the router") {
  Requests requests(RouterOptions{}, Fcfs{}, RoundRobin{}, RoundRobin{});
  const auto status = [&](std::uint64_t id) {
    const Slot slot = requests.table.Find({id});
    return slot == kNoSlot ? RouteStatus::kUnknown : requests.table[slot].status;
  };
  const auto place = [&](TimePoint now) {
    requests.MakeRoomToPlace();
    requests.Enter(now);
    requests.notices.Clear();
    Placing(requests).Run();
    requests.desk.Leave();
    return requests.notices.placed.size();
  };
  Hear(requests, WorkflowDeclared{{.id = {7}, .stages = {{.stage = {1}}, {.stage = {2}, .after = {0}}}}}, At(0));
  Request held = RequestOf(3);
  held.workflow = {7}, held.stage = {2};
  Hear(requests, InstanceUp{{.id = {1}, .kv_tokens = {50}}}, At(0));
  Hear(requests, Arrived{RequestOf(1)}, At(1));
  Hear(requests, Arrived{RequestOf(2, 100)}, At(1));
  Hear(requests, Arrived{held}, At(1));
  CHECK(status(1) == RouteStatus::kWaiting);
  CHECK(status(3) == RouteStatus::kHeld);
  CHECK(place(At(2)) == 1);
  CHECK(status(1) == RouteStatus::kPlaced);
  CHECK(status(2) == RouteStatus::kSetAside);
  CHECK(requests.set_aside.size() == 1);
  Hear(requests, InstanceDown{{1}}, At(3));
  CHECK(status(1) == RouteStatus::kWaiting);
  Hear(requests, InstanceUp{{.id = {2}}}, At(4));
  CHECK(status(2) == RouteStatus::kWaiting);
  Hear(requests, StageEnded{{7}, 0}, At(5));
  CHECK(status(3) == RouteStatus::kWaiting);
  CHECK(place(At(6)) == 3);
  Hear(requests, RequestEnded{{1}, {2}}, At(7));
  CHECK(status(1) == RouteStatus::kUnknown);
  CHECK(requests.placed.size() == 2);
}

}  // namespace
}  // namespace takt::internal
