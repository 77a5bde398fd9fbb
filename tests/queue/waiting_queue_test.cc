#include "takt/queue/waiting_queue.h"

#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/sjf.h"

namespace takt {
namespace {

using Ids = std::vector<RequestId>;

Request Of(std::uint64_t id, double tokens) {
  Request r;
  r.id = {id};
  r.output_tokens = Estimate::Exact(tokens);
  return r;
}

template <class P>
Ids First(WaitingQueue<P>& queue, std::size_t k = 100) {
  Ids first;
  queue.TopK(k, {}, first);
  return first;
}

TEST_CASE("the best k, and those that were picked are gone") {
  WaitingQueue queue(Sjf{});
  CHECK(First(queue).empty());
  for (std::uint64_t id = 1; id <= 5; ++id) CHECK(queue.Push(Of(id, 100.0 - static_cast<double>(id)), {}));
  CHECK(First(queue, 2) == Ids{{5}, {4}});
  queue.EndIteration(Ids{{5}, {3}, {77}, {5}});
  CHECK(queue.size() == 3);
  CHECK(First(queue) == Ids{{4}, {2}, {1}});
  CHECK(queue.Return({3}, {}));
  CHECK(First(queue) == Ids{{4}, {3}, {2}, {1}});
  CHECK(queue.Erase({4}));
  CHECK(queue.Erase({5}));
  CHECK(queue.Update({.request = {1}, .output_tokens = Estimate::Exact(1)}, {}));
  CHECK(First(queue) == Ids{{1}, {3}, {2}});
}

TEST_CASE("calls that make no sense are refused") {
  WaitingQueue queue(Fcfs{});
  CHECK_FALSE(queue.Push(Of(0, 1), {}));
  CHECK(queue.Push(Of(1, 1), {}));
  CHECK_FALSE(queue.Push(Of(1, 1), {}));
  CHECK_FALSE(queue.Return({1}, {}));  // it waits
  CHECK_FALSE(queue.Return({2}, {}));
  CHECK_FALSE(queue.Erase({2}));
  CHECK_FALSE(queue.Update({.request = {2}}, {}));
  CHECK_FALSE(queue.Pause({2}, {}));
  CHECK_FALSE(queue.Computed({1}, {1}, {1}));
  CHECK(queue.Pause({1}, {}));
  CHECK_FALSE(queue.Pause({1}, {}));
  CHECK(queue.empty());
  CHECK(queue.Return({1}, {}));
  CHECK(First(queue) == Ids{{1}});
}

TEST_CASE("who is passed over is promoted, for as many steps as were granted") {
  WaitingQueue queue(Aged(Sjf{}, {.threshold = 3, .quantum = 2}));
  queue.Push(Of(1, 1000), {});
  queue.Push(Of(2, 1), {});
  CHECK(First(queue) == Ids{{2}, {1}});
  queue.EndIteration(Ids{{2}});
  for (int i = 0; i < 5; ++i) queue.EndIteration({});  // 2 runs on
  queue.Push(Of(3, 1), {});
  CHECK(First(queue) == Ids{{1}, {3}});  // waited for 6 >= 3
  queue.EndIteration(Ids{{1}});
  queue.Return({1}, {});  // ran once
  CHECK(First(queue) == Ids{{1}, {3}});
  queue.EndIteration(Ids{{1}});
  queue.Return({1}, {});  // twice
  CHECK(First(queue) == Ids{{3}, {1}});
}

TEST_CASE("iterations in which nothing ran do not count") {
  WaitingQueue queue(Aged(Sjf{}, {.threshold = 1, .quantum = 2}));
  queue.Push(Of(1, 1000), {});
  for (int i = 0; i < 5; ++i) queue.EndIteration({});
  queue.Push(Of(2, 1), {});
  CHECK(First(queue) == Ids{{2}, {1}});
}

TEST_CASE("victims: worst first, as few as suffice, promoted ones last") {
  using Queue = WaitingQueue<Aged<Sjf>>;
  Queue queue(Aged(Sjf{}, {.threshold = 2, .quantum = 100}));
  queue.Push(Of(9, 9000), {});
  queue.Push(Of(1, 10), {});
  queue.EndIteration(Ids{{1}});
  queue.EndIteration({});
  CHECK(First(queue) == Ids{{9}});  // promoted
  Request fixed = Of(4, 8000);
  fixed.preemptible = false;
  for (const Request& r : {Of(2, 200), Of(3, 300), fixed, Of(5, 50)}) queue.Push(r, {});
  queue.EndIteration(Ids{{9}, {2}, {3}, {4}});

  const std::vector<Queue::Running> running = {{{1}, {5}}, {{2}, {5}}, {{3}, {5}}, {{4}, {5}}, {{9}, {5}}, {{77}, {5}}};
  Ids victims;
  CHECK(queue.ChooseVictims(running, {6}, {}, victims));
  CHECK(victims == Ids{{3}, {2}});
  CHECK(queue.ChooseVictims(running, {20}, {}, victims));
  CHECK(victims == Ids{{3}, {2}, {1}, {9}});
  CHECK_FALSE(queue.ChooseVictims(running, {21}, {}, victims));
  CHECK(victims.empty());
  CHECK(queue.ChooseVictims(running, {0}, {}, victims));
  CHECK(victims.empty());
  CHECK(queue.ChooseVictims(running, {10}, {}, victims, {5}));
  CHECK(victims == Ids{{3}, {2}});
  CHECK_FALSE(queue.ChooseVictims(running, {11}, {}, victims, {5}));  // it outranks neither 1 nor the promoted 9
}

// Shortest first, but whoever came last is the first victim.
struct OwnVictims : Sjf {
  RankKey VictimKey(const RequestState& r) const { return {static_cast<double>(r.request.id.value)}; }
};

TEST_CASE("who outranks whom is told by rank, whoever would be the first victim") {
  WaitingQueue queue(OwnVictims{});
  for (const Request& r : {Of(1, 900), Of(2, 10), Of(3, 500)}) queue.Push(r, {});
  queue.EndIteration(Ids{{1}, {2}, {3}});
  queue.Push(Of(4, 100), {});
  const std::vector<WaitingQueue<OwnVictims>::Running> running = {{{1}, {5}}, {{2}, {5}}, {{3}, {5}}};
  Ids victims;
  CHECK(queue.ChooseVictims(running, {10}, {}, victims, {4}));
  CHECK(victims == Ids{{3}, {1}});
  CHECK_FALSE(queue.ChooseVictims(running, {11}, {}, victims, {4}));
}

TEST_CASE("victims come from the tenant that was served most") {
  WaitingQueue queue(FairShare{});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Request r = Of(id, 1);
    r.tenant = {id == 3 ? 2u : 1u};
    CHECK(queue.Push(r, {}));
  }
  queue.EndIteration(Ids{{1}, {2}, {3}});
  CHECK(queue.Computed({1}, {10}, {1}));
  CHECK(queue.Computed({3}, {1}, {1}));
  Ids victims;
  CHECK(queue.ChooseVictims(std::vector<WaitingQueue<FairShare>::Running>{{{1}, {4}}, {{3}, {4}}, {{2}, {4}}}, {8}, {},
                            victims));
  CHECK(victims == Ids{{2}, {1}});
}

TEST_CASE("a policy that charges for tokens is told of them") {
  WaitingQueue queue(FairShare{});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Request r = Of(id, 1);
    r.tenant = {id < 3 ? 1u : 2u};
    queue.Push(r, {});
  }
  CHECK(First(queue) == Ids{{1}, {2}, {3}});
  queue.EndIteration(Ids{{1}});
  CHECK(queue.Computed({1}, {100}, {1}));
  CHECK(First(queue) == Ids{{3}, {2}});
}

// Ranks by id, and keeps what it was told: the newest state of each request, and events by name.
struct Witness {
  struct Notes {
    std::map<std::uint64_t, RequestState> states;
    std::map<std::uint64_t, TimePoint> times;
    std::string events;
    std::vector<RequestId> ended;
  };
  std::shared_ptr<Notes> notes = std::make_shared<Notes>();

  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.id.value)}; }
  void Enters(const RequestState& r, TimePoint now) {
    notes->states[r.request.id.value] = r;
    notes->times[r.request.id.value] = now;
  }
  void Ends(const RequestState& r, TimePoint) { notes->ended.push_back(r.request.id); }
  void Observe(const Event& event, TimePoint) {
    notes->events += std::holds_alternative<Arrived>(event)      ? "a"
                     : std::holds_alternative<Revised>(event)    ? "r"
                     : std::holds_alternative<ToolCalled>(event) ? "t"
                                                                 : "?";
  }
};

TimePoint At(std::int64_t seconds) { return TimePoint(std::chrono::seconds(seconds)); }

TEST_CASE("a policy sees requests as they were told, with times that were not told taken as the present") {
  Witness witness;
  WaitingQueue queue(witness);
  const auto seen = [&]() -> const Request& { return witness.notes->states.at(1).request; };
  Request r = Of(1, 10);
  r.after = {.calls = std::numeric_limits<double>::infinity()};
  CHECK(queue.Push(r, At(5)));
  CHECK(seen().arrival == At(5));
  CHECK(seen().workflow_arrival == At(5));
  CHECK(seen().after == WorkAfter{});
  CHECK(witness.notes->states.at(1).enqueued == At(5));
  r = Of(2, 10);
  r.arrival = At(3);
  CHECK(queue.Push(r, At(5)));
  CHECK(witness.notes->states.at(2).request.arrival == At(3));
  CHECK(witness.notes->states.at(2).request.workflow_arrival == At(3));
  r = Of(3, 10);
  r.workflow_arrival = At(1);
  r.after = {.calls = 2};
  CHECK(queue.Push(r, At(5)));
  CHECK(witness.notes->states.at(3).request.arrival == At(5));
  CHECK(witness.notes->states.at(3).request.workflow_arrival == At(1));
  CHECK(witness.notes->states.at(3).request.after == WorkAfter{.calls = 2});
  CHECK(witness.notes->events == "aaa");
}

TEST_CASE("all that a revision tells reaches the policy, whether the request waits or runs") {
  for (const bool runs : {false, true}) {
    Witness witness;
    WaitingQueue queue(witness);
    Request told = Of(1, 10);
    told.sequences = 4;
    queue.Push(told, At(0));
    if (runs) queue.EndIteration(Ids{{1}});
    const auto seen = [&]() -> const Request& { return witness.notes->states.at(1).request; };
    CHECK(queue.Update({.request = {1}, .output_tokens = Estimate::Exact(7)}, At(1)));
    CHECK(seen().output_tokens == Estimate::Exact(7));
    CHECK(witness.notes->times.at(1) == At(1));
    CHECK(queue.Update({.request = {1}, .workflow_tokens_left = Estimate::Exact(8)}, At(2)));
    CHECK(seen().workflow_tokens_left == Estimate::Exact(8));
    CHECK(queue.Update({.request = {1}, .deadline = At(9)}, At(2)));
    CHECK(seen().deadline == At(9));
    CHECK(queue.Update({.request = {1}, .expires_at = At(10)}, At(2)));
    CHECK(seen().expires_at == At(10));
    CHECK(queue.Update({.request = {1}, .priority = 11}, At(2)));
    CHECK(seen().priority == 11);
    CHECK(queue.Update({.request = {1}, .sequences = 3}, At(2)));
    CHECK(seen().sequences == 3);
    CHECK(queue.Update({.request = {1}, .sequences = 1}, At(2)));
    CHECK(seen().sequences == 1);
    CHECK(queue.Update({.request = {1}, .sequences = 0}, At(2)));
    CHECK(seen().sequences == 1);
    Revised after{.request = {1}};
    after.after = WorkAfter{.calls = 3};
    CHECK(queue.Update(after, At(2)));
    CHECK(seen().after == WorkAfter{.calls = 3});
    after.after->calls = std::numeric_limits<double>::quiet_NaN();
    CHECK(queue.Update(after, At(2)));
    CHECK(seen().after == WorkAfter{});
    Revised next{.request = {1}};
    next.next_call = NextCall{.duration = std::chrono::seconds(5)};
    CHECK(queue.Update(next, At(2)));
    CHECK(seen().next_call == NextCall{.duration = std::chrono::seconds(5)});
    CHECK(seen().output_tokens == Estimate::Exact(7));  // and nothing else changes
    CHECK(witness.notes->events == "arrrrrrrrrrr");
  }
}

TEST_CASE("a policy is told of calls, and of each end once") {
  Witness witness;
  WaitingQueue queue(witness);
  for (std::uint64_t id : {1u, 2u, 3u}) queue.Push(Of(id, 1), At(0));
  CHECK_FALSE(queue.empty());
  queue.EndIteration(Ids{{1}});
  CHECK(queue.Pause({1}, At(1)));
  CHECK(queue.Pause({2}, At(1)));
  CHECK(witness.notes->events == "aaatt");
  CHECK(queue.Return({1}, At(2)));
  CHECK(witness.notes->states.at(1).enqueued == At(2));
  CHECK(witness.notes->states.at(1).has_run);
  for (std::uint64_t id : {1u, 2u, 3u}) CHECK(queue.Erase({id}));
  CHECK(witness.notes->ended == Ids{{1}, {2}, {3}});
  CHECK(queue.empty());
}

TEST_CASE("tokens that were computed count for the request that ran, and none other") {
  WaitingQueue queue{Witness{}};
  queue.Push(Of(1, 1), At(0));
  CHECK_FALSE(queue.Computed({1}, {5}, {5}));  // it waits
  queue.EndIteration(Ids{{1}});
  CHECK(queue.Computed({1}, {5}, {3}));
  CHECK(queue.Computed({1}, {5}, {4}));
  const auto notes = queue.policy().notes;
  CHECK(queue.Return({1}, At(1)));
  CHECK(notes->states.at(1).generated == Tokens{7});
}

TEST_CASE("steps are counted from when it was picked, whoever else runs") {
  // Promoted for two steps; of these it takes one, then calls a tool, and comes back.
  for (const int steps : {1, 2}) {
    WaitingQueue queue(Aged(Sjf{}, {.threshold = 2, .quantum = 2}));
    queue.Push(Of(1, 1000), {});
    queue.Push(Of(2, 1), {});
    queue.EndIteration(Ids{{2}});
    queue.EndIteration({});
    queue.Push(Of(3, 5), {});
    CHECK(First(queue) == Ids{{1}, {3}});
    queue.EndIteration(Ids{{1}});
    if (steps == 2) queue.EndIteration({});
    CHECK(queue.Pause({1}, {}));
    for (int i = 0; i < 5; ++i) queue.EndIteration({});  // a call costs no quantum
    CHECK(queue.Return({1}, {}));
    CHECK(First(queue, 1) == (steps == 1 ? Ids{{1}} : Ids{{3}}));
  }
}

TEST_CASE("whatever a host does, nobody is lost or named twice") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    WaitingQueue queue(AnyPolicy(Aged(Sjf{}, {.threshold = 4, .quantum = 3})), 10);
    enum class Where { kWaiting, kRunning, kPaused };
    std::map<std::uint64_t, Where> model;
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t id = random.Below(30);
      const auto at = model.find(id);
      switch (random.Below(5)) {
        case 0:
          REQUIRE(queue.Push(Of(id, static_cast<double>(random.Below(9))), {}) == (id != 0 && at == model.end()));
          if (id != 0) model.emplace(id, Where::kWaiting);
          break;
        case 1:
          REQUIRE(queue.Return({id}, {}) == (at != model.end() && at->second != Where::kWaiting));
          if (at != model.end()) at->second = Where::kWaiting;
          break;
        case 2:
          if (!random.Chance(0.3)) break;
          REQUIRE(queue.Erase({id}) == (at != model.end()));
          model.erase(id);
          break;
        case 3:
          REQUIRE(queue.Pause({id}, {}) == (at != model.end() && at->second != Where::kPaused));
          if (at != model.end()) at->second = Where::kPaused;
          break;
        default: {
          const Ids first = First(queue, random.Below(4));
          queue.EndIteration(first);
          for (RequestId picked : first) {
            REQUIRE(model.at(picked.value) == Where::kWaiting);
            model.at(picked.value) = Where::kRunning;
          }
        }
      }
      std::size_t waiting = 0;
      for (const auto& [key, where] : model) {
        REQUIRE(queue.contains({key}) == (where == Where::kWaiting));
        waiting += where == Where::kWaiting ? 1 : 0;
      }
      REQUIRE(queue.size() == waiting);
    }
  }
}

}  // namespace
}  // namespace takt
