#include "takt/queue/waiting_queue.h"

#include <array>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/registry.h"
#include "takt/policy/sjf.h"
#include "with_rivals.h"

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
  queue.Begin({});
  Ids first(k);
  first.resize(queue.List(first));
  return first;
}

// An iteration that also ran these requests.
template <class P>
void Run(WaitingQueue<P>& queue, const Ids& ids) {
  std::vector<typename WaitingQueue<P>::Ran> ran;
  for (RequestId id : ids) ran.push_back({id});
  queue.End(ran, {});
}

bool Done(QueueResult result) { return result == QueueResult::kDone; }

struct ByFirstHash {
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.prefix.hashes[0])}; }
  RankKey KeyAt(const RequestState& r, TimePoint) const { return Key(r); }
};

TEST_CASE("a queue keeps a copy of a request's hashes") {
  WaitingQueue queue(ByFirstHash{});
  for (const std::uint64_t id : {1u, 2u}) {
    std::vector<std::uint64_t> hashes = {10 - id};
    Request r = Of(id, 1);
    r.prefix = {{16}, hashes};
    r.prompt_tokens = {17};
    queue.Push(r, {});
    hashes[0] = id;
  }
  CHECK(First(queue) == Ids{{2}, {1}});
}

TEST_CASE("a queue returns the best k requests and removes picked ones") {
  WaitingQueue queue(Sjf{});
  CHECK(First(queue).empty());
  for (std::uint64_t id = 1; id <= 5; ++id) CHECK(Done(queue.Push(Of(id, 100.0 - static_cast<double>(id)), {})));
  CHECK(First(queue, 2) == Ids{{5}, {4}});
  Run(queue, {{5}, {3}, {77}, {5}});
  CHECK(queue.size() == 3);
  CHECK(First(queue) == Ids{{4}, {2}, {1}});
  CHECK(Done(queue.Requeue({3}, {})));
  CHECK(First(queue) == Ids{{4}, {3}, {2}, {1}});
  CHECK(Done(queue.Erase({4})));
  CHECK(Done(queue.Erase({5})));
  CHECK(Done(queue.Revise({.request = {1}, .output_tokens = Estimate::Exact(1)}, {})));
  CHECK(First(queue) == Ids{{1}, {3}, {2}});
}

TEST_CASE("invalid calls are refused") {
  WaitingQueue queue(Fcfs{});
  CHECK(queue.Push(Of(0, 1), {}) == QueueResult::kInvalid);
  CHECK(Done(queue.Push(Of(1, 1), {})));
  CHECK(queue.Push(Of(1, 1), {}) == QueueResult::kInUse);
  CHECK(queue.Requeue({1}, {}) == QueueResult::kOutOfPlace);  // it is waiting
  CHECK(queue.Requeue({2}, {}) == QueueResult::kUnknown);
  CHECK(queue.Erase({2}) == QueueResult::kUnknown);
  CHECK(queue.Revise({.request = {2}}, {}) == QueueResult::kUnknown);
  CHECK(queue.Pause({.request = {2}}, {}) == QueueResult::kUnknown);
  CHECK(queue.Computed({{1}, {1}, {1}}) == QueueResult::kOutOfPlace);
  CHECK(Done(queue.Pause({.request = {1}}, {})));
  CHECK(queue.Pause({.request = {1}}, {}) == QueueResult::kOutOfPlace);
  CHECK(queue.empty());
  CHECK(Done(queue.Requeue({1}, {})));
  CHECK(First(queue) == Ids{{1}});
}

TEST_CASE("a request that is passed over is promoted for the granted steps") {
  WaitingQueue queue(Aged(Sjf{}, {.threshold = 3, .quantum = 2}));
  queue.Push(Of(1, 1000), {});
  queue.Push(Of(2, 1), {});
  CHECK(First(queue) == Ids{{2}, {1}});
  Run(queue, {{2}});
  for (int i = 0; i < 5; ++i) Run(queue, {});  // 2 continues to run
  queue.Push(Of(3, 1), {});
  CHECK(First(queue) == Ids{{1}, {3}});  // waited for 6 >= 3
  Run(queue, {{1}});
  queue.Requeue({1}, {});  // it ran once
  CHECK(First(queue) == Ids{{1}, {3}});
  Run(queue, {{1}});
  queue.Requeue({1}, {});  // the second time
  CHECK(First(queue) == Ids{{3}, {1}});
}

TEST_CASE("iterations in which nothing ran do not count") {
  WaitingQueue queue(Aged(Sjf{}, {.threshold = 1, .quantum = 2}));
  queue.Push(Of(1, 1000), {});
  for (int i = 0; i < 5; ++i) Run(queue, {});
  queue.Push(Of(2, 1), {});
  CHECK(First(queue) == Ids{{2}, {1}});
}

TEST_CASE("victims come worst first, as few as needed, promoted ones last") {
  using Queue = WaitingQueue<Aged<Sjf>>;
  Queue queue(Aged(Sjf{}, {.threshold = 2, .quantum = 100}));
  queue.Push(Of(9, 9000), {});
  queue.Push(Of(1, 10), {});
  Run(queue, {{1}});
  Run(queue, {});
  CHECK(First(queue) == Ids{{9}});  // promoted
  Request fixed = Of(4, 8000);
  fixed.preemptible = false;
  for (const Request& r : {Of(2, 200), Of(3, 300), fixed, Of(5, 50)}) queue.Push(r, {});
  Run(queue, {{9}, {2}, {3}, {4}});

  const std::vector<Queue::Holding> running = {{{1}, {5}}, {{2}, {5}}, {{3}, {5}}, {{4}, {5}}, {{9}, {5}}, {{77}, {5}}};
  Ids victims;
  CHECK(queue.Victims(running, {6}, {}, victims));
  CHECK(victims == Ids{{3}, {2}});
  CHECK(queue.Victims(running, {20}, {}, victims));
  CHECK(victims == Ids{{3}, {2}, {1}, {9}});
  CHECK_FALSE(queue.Victims(running, {21}, {}, victims));
  CHECK(victims.empty());
  CHECK(queue.Victims(running, {0}, {}, victims));
  CHECK(victims.empty());
  CHECK(queue.Victims(running, {10}, {}, victims, {5}));
  CHECK(victims == Ids{{3}, {2}});
  CHECK_FALSE(queue.Victims(running, {11}, {}, victims, {5}));  // it outranks neither 1 nor the promoted 9
}

// Shortest first, but the last arrival is the first victim.
struct OwnVictims : Sjf {
  RankKey VictimKey(const RequestState& r) const { return {static_cast<double>(r.request.id.value)}; }
};

TEST_CASE("rank decides which request outranks another, not the victims' order") {
  WaitingQueue queue(OwnVictims{});
  for (const Request& r : {Of(1, 900), Of(2, 10), Of(3, 500)}) queue.Push(r, {});
  Run(queue, {{1}, {2}, {3}});
  queue.Push(Of(4, 100), {});
  const std::vector<WaitingQueue<OwnVictims>::Holding> running = {{{1}, {5}}, {{2}, {5}}, {{3}, {5}}};
  Ids victims;
  CHECK(queue.Victims(running, {10}, {}, victims, {4}));
  CHECK(victims == Ids{{3}, {1}});
  CHECK_FALSE(queue.Victims(running, {11}, {}, victims, {4}));
}

TEST_CASE("victims come from the most served tenant") {
  WaitingQueue queue(FairShare{});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Request r = Of(id, 1);
    r.tenant = {id == 3 ? 2u : 1u};
    CHECK(Done(queue.Push(r, {})));
  }
  Run(queue, {{1}, {2}, {3}});
  CHECK(Done(queue.Computed({{1}, {10}, {1}})));
  CHECK(Done(queue.Computed({{3}, {1}, {1}})));
  Ids victims;
  CHECK(queue.Victims(std::vector<WaitingQueue<FairShare>::Holding>{{{1}, {4}}, {{3}, {4}}, {{2}, {4}}}, {8}, {},
                      victims));
  CHECK(victims == Ids{{2}, {1}});
}

TEST_CASE("a policy that charges for tokens receives them") {
  WaitingQueue queue(FairShare{});
  for (std::uint64_t id = 1; id <= 3; ++id) {
    Request r = Of(id, 1);
    r.tenant = {id < 3 ? 1u : 2u};
    queue.Push(r, {});
  }
  CHECK(First(queue) == Ids{{1}, {2}, {3}});
  Run(queue, {{1}});
  CHECK(Done(queue.Computed({{1}, {100}, {1}})));
  CHECK(First(queue) == Ids{{3}, {2}});
}

// Ranks by id, and keeps the newest state of each request and its events.
struct Witness {
  struct Notes {
    std::map<std::uint64_t, RequestState> states;
    std::map<std::uint64_t, TimePoint> times;
    std::string events;
    std::vector<RequestId> ended;
    std::int32_t revisions = 0;
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

TEST_CASE("a policy sees requests as reported, with missing times set to now") {
  Witness witness;
  WaitingQueue queue(witness);
  const auto seen = [&]() -> const Request& { return witness.notes->states.at(1).request; };
  Request r = Of(1, 10);
  r.after = {.calls = std::numeric_limits<double>::infinity()};
  CHECK(Done(queue.Push(r, At(5))));
  CHECK(seen().arrival == At(5));
  CHECK(seen().workflow_arrival == At(5));
  CHECK(seen().after == WorkAfter{});
  CHECK(witness.notes->states.at(1).enqueued == At(5));
  r = Of(2, 10);
  r.arrival = At(3);
  CHECK(Done(queue.Push(r, At(5))));
  CHECK(witness.notes->states.at(2).request.arrival == At(3));
  CHECK(witness.notes->states.at(2).request.workflow_arrival == At(3));
  r = Of(3, 10);
  r.workflow_arrival = At(1);
  r.after = {.calls = 2};
  CHECK(Done(queue.Push(r, At(5))));
  CHECK(witness.notes->states.at(3).request.arrival == At(5));
  CHECK(witness.notes->states.at(3).request.workflow_arrival == At(1));
  CHECK(witness.notes->states.at(3).request.after == WorkAfter{.calls = 2});
  CHECK(witness.notes->events == "aaa");
}

TEST_CASE("a revision reaches the policy while the request waits or runs") {
  for (const bool runs : {false, true}) {
    Witness witness;
    WaitingQueue queue(witness);
    Request pushed = Of(1, 10);
    pushed.sequences = 4;
    queue.Push(pushed, At(0));
    if (runs) Run(queue, {{1}});
    const auto seen = [&]() -> const Request& { return witness.notes->states.at(1).request; };
    CHECK(Done(queue.Revise({.request = {1}, .output_tokens = Estimate::Exact(7)}, At(1))));
    CHECK(seen().output_tokens == Estimate::Exact(7));
    CHECK(witness.notes->times.at(1) == At(1));
    CHECK(Done(queue.Revise({.request = {1}, .workflow_tokens_left = Estimate::Exact(8)}, At(2))));
    CHECK(seen().workflow_tokens_left == Estimate::Exact(8));
    CHECK(Done(queue.Revise({.request = {1}, .deadline = At(9)}, At(2))));
    CHECK(seen().deadline == At(9));
    CHECK(Done(queue.Revise({.request = {1}, .expires_at = At(10)}, At(2))));
    CHECK(seen().expires_at == At(10));
    CHECK(Done(queue.Revise({.request = {1}, .priority = 11}, At(2))));
    CHECK(seen().priority == 11);
    CHECK(Done(queue.Revise({.request = {1}, .sequences = 3}, At(2))));
    CHECK(seen().sequences == 3);
    CHECK(Done(queue.Revise({.request = {1}, .sequences = 1}, At(2))));
    CHECK(seen().sequences == 1);
    CHECK(Done(queue.Revise({.request = {1}, .sequences = 0}, At(2))));
    CHECK(seen().sequences == 1);
    Revised after{.request = {1}};
    after.after = WorkAfter{.calls = 3};
    CHECK(Done(queue.Revise(after, At(2))));
    CHECK(seen().after == WorkAfter{.calls = 3});
    after.after->calls = std::numeric_limits<double>::quiet_NaN();
    CHECK(Done(queue.Revise(after, At(2))));
    CHECK(seen().after == WorkAfter{});
    Revised next{.request = {1}};
    next.next_call = NextCall{.duration = std::chrono::seconds(5)};
    CHECK(Done(queue.Revise(next, At(2))));
    CHECK(seen().next_call == NextCall{.duration = std::chrono::seconds(5)});
    CHECK(seen().output_tokens == Estimate::Exact(7));  // the rest does not change
    CHECK(witness.notes->events == "arrrrrrrrrrr");
  }
}

TEST_CASE("a policy sees `taken` until the request is put back before running") {
  Witness witness;
  WaitingQueue queue(witness);
  const auto taken = [&](std::uint64_t id) {
    CHECK(Done(queue.Revise({.request = {id}, .priority = ++witness.notes->revisions}, At(1))));
    return witness.notes->states.at(id).taken;
  };
  for (std::uint64_t id : {1u, 2u, 3u}) queue.Push(Of(id, 1), At(0));
  CHECK_FALSE(taken(1));
  queue.Begin({});
  for (std::uint64_t id : {1u, 2u}) CHECK(Done(queue.Take({id})));
  CHECK(taken(1));
  CHECK(taken(2));
  Run(queue, {{1}, {3}});
  CHECK(taken(1));
  CHECK_FALSE(taken(2));
  CHECK(taken(3));  // it ran without being taken
  CHECK(Done(queue.Requeue({1}, At(2))));
  queue.Begin({});
  CHECK(Done(queue.Take({1})));
  Run(queue, {});
  CHECK(taken(1));  // put back, but it has run
}

TEST_CASE("a policy receives each call, and each end once") {
  Witness witness;
  WaitingQueue queue(witness);
  for (std::uint64_t id : {1u, 2u, 3u}) queue.Push(Of(id, 1), At(0));
  CHECK_FALSE(queue.empty());
  Run(queue, {{1}});
  CHECK(Done(queue.Pause({.request = {1}}, At(1))));
  CHECK(Done(queue.Pause({.request = {2}}, At(1))));
  CHECK(witness.notes->events == "aaatt");
  CHECK(Done(queue.Requeue({1}, At(2))));
  CHECK(witness.notes->states.at(1).enqueued == At(2));
  CHECK(witness.notes->states.at(1).has_run);
  for (std::uint64_t id : {1u, 2u, 3u}) CHECK(Done(queue.Erase({id})));
  CHECK(witness.notes->ended == Ids{{1}, {2}, {3}});
  CHECK(queue.empty());
}

TEST_CASE("computed tokens count for the request that ran") {
  WaitingQueue queue{Witness{}};
  queue.Push(Of(1, 1), At(0));
  CHECK(queue.Computed({{1}, {5}, {5}}) == QueueResult::kOutOfPlace);  // it is waiting
  Run(queue, {{1}});
  CHECK(Done(queue.Computed({{1}, {5}, {3}})));
  CHECK(Done(queue.Computed({{1}, {5}, {4}})));
  const auto notes = queue.policy().notes;
  CHECK(Done(queue.Requeue({1}, At(1))));
  CHECK(notes->states.at(1).generated == Tokens{7});
}

TEST_CASE("tokens of a request that lost its place count and move it") {
  WaitingQueue queue(*MakePolicy("mlfq"));
  for (std::uint64_t id : {1u, 2u}) queue.Push(Of(id, 1), At(static_cast<std::int64_t>(id)));
  Run(queue, {{1}});
  CHECK(Done(queue.Requeue({1}, At(3))));
  CHECK(First(queue) == Ids{{1}, {2}});
  CHECK(Done(queue.Take({1})));
  CHECK(Done(queue.Computed({{1}, {100'000}, {1}})));
  CHECK(queue.Top() == RequestId{2});
  CHECK(queue.place({1}) == QueuePlace::kTaken);
  CHECK(First(queue) == Ids{{2}, {1}});

  Witness witness;
  WaitingQueue watched(witness);
  watched.Push(Of(1, 1), At(0));
  Run(watched, {{1}});
  for (const bool held : {false, true}) {
    CHECK(Done(held ? watched.Hold({1}) : watched.Pause({.request = {1}}, At(1))));
    CHECK(Done(watched.Computed({{1}, {0}, {3}})));
    CHECK(Done(watched.Requeue({1}, At(2))));
  }
  CHECK(witness.notes->states.at(1).generated == Tokens{6});
}

TEST_CASE("exceptions alone describe a whole step") {
  Witness witness;
  WaitingQueue queue(witness);
  for (std::uint64_t id = 1; id <= 5; ++id) queue.Push(Of(id, 1), At(0));
  Run(queue, {{1}, {2}, {3}, {4}});
  CHECK(Done(queue.Requeue({4}, At(1))));
  using Ran = WaitingQueue<Witness>::Ran;
  CHECK(queue.Computed(std::vector<Ran>{{{2}, {7}, {}}, {{5}, {}, {9}}, {{4}, {}, {3}}, {{77}, {}, {9}}}, {2}) == 2);
  CHECK(queue.Computed(std::vector<Ran>{{{1}, {}, {5}}}, {0}) == 1);
  for (std::uint64_t id = 1; id <= 3; ++id) CHECK(Done(queue.Requeue({id}, At(2))));
  const auto generated = [&](std::uint64_t id) { return witness.notes->states.at(id).generated; };
  CHECK(std::array{generated(1), generated(2), generated(3), generated(4), generated(5)} ==
        std::array{Tokens{7}, Tokens{0}, Tokens{2}, Tokens{3}, Tokens{0}});
}

TEST_CASE("an iteration may have run a held request") {
  WaitingQueue queue(Sjf{});
  for (std::uint64_t id = 1; id <= 3; ++id) queue.Push(Of(id, 1), {});
  CHECK(Done(queue.Hold({1})));
  CHECK(Done(queue.Pause({.request = {2}}, {})));
  CHECK(queue.End(std::vector<WaitingQueue<Sjf>::Ran>{{{1}}, {{2}}, {{3}}, {{77}}}, {}) == 2);
  CHECK(queue.place({1}) == QueuePlace::kRunning);
  CHECK(queue.place({2}) == QueuePlace::kPaused);
  CHECK(queue.place({3}) == QueuePlace::kRunning);
}

TEST_CASE("Put works for a request in any state") {
  Witness witness;
  WaitingQueue queue(witness);
  CHECK(queue.Put(Of(0, 1), At(0)) == QueueResult::kInvalid);
  CHECK(queue.Put(Of(1, 1), At(1)) == QueueResult::kDone);
  CHECK(queue.Put(Of(1, 1), At(2)) == QueueResult::kOutOfPlace);  // it is waiting
  Run(queue, {{1}});
  CHECK(queue.Put(Of(1, 5), At(3)) == QueueResult::kRequeued);
  CHECK(witness.notes->states.at(1).enqueued == At(3));
  CHECK(witness.notes->states.at(1).request.output_tokens == Estimate::Exact(1));
  CHECK(Done(queue.Erase({1})));
  CHECK(queue.Put(Of(1, 5), At(4)) == QueueResult::kDone);
}

TEST_CASE("a request is put again with a longer prompt and later arrival") {
  Witness witness;
  WaitingQueue queue(witness);
  Request r = Of(1, 10);
  r.prompt_tokens = {100};
  CHECK(Done(queue.Push(r, At(1))));
  const auto seen = [&]() -> const Request& { return witness.notes->states.at(1).request; };
  CHECK(Done(queue.Revise({.request = {1}}, At(2), {.prompt_tokens = Tokens{300}})));
  CHECK(seen().prompt_tokens == Tokens{300});
  CHECK(seen().arrival == At(1));
  CHECK(Done(queue.Revise({.request = {1}, .priority = 3}, At(4), {.arrival = At(3)})));
  CHECK(seen().arrival == At(3));
  CHECK(seen().priority == 3);
  CHECK(Done(queue.Revise({.request = {1}}, At(5), {.arrival = kUnset})));
  CHECK(seen().arrival == At(5));
  CHECK(seen().workflow_arrival == At(1));
  CHECK(seen().prompt_tokens == Tokens{300});

  WaitingQueue order(Sjf{});
  for (std::uint64_t id : {1u, 2u, 3u}) order.Push(Of(id, 1), At(static_cast<std::int64_t>(id)));
  CHECK(Done(order.Revise({.request = {1}}, At(4), {.arrival = At(4)})));
  CHECK(First(order) == Ids{{2}, {3}, {1}});
}

TEST_CASE("a queue returns its policy's traits") {
  CHECK(AnyWaitingQueue(*MakePolicy("aged(fcfs,threshold=3)")).traits() == PolicyTraits{.ages = true});
  CHECK(WaitingQueue(Sjf{}).traits() == PolicyTraits{.fixed = true});
}

TEST_CASE("steps count from the pick, whichever other requests run") {
  // Promoted for two steps. It uses one, then calls a tool and returns.
  for (const int steps : {1, 2}) {
    WaitingQueue queue(Aged(Sjf{}, {.threshold = 2, .quantum = 2}));
    queue.Push(Of(1, 1000), {});
    queue.Push(Of(2, 1), {});
    Run(queue, {{2}});
    Run(queue, {});
    queue.Push(Of(3, 5), {});
    CHECK(First(queue) == Ids{{1}, {3}});
    Run(queue, {{1}});
    if (steps == 2) Run(queue, {});
    CHECK(Done(queue.Pause({.request = {1}}, {})));
    for (int i = 0; i < 5; ++i) Run(queue, {});  // a call uses no quantum
    CHECK(Done(queue.Requeue({1}, {})));
    CHECK(First(queue, 1) == (steps == 1 ? Ids{{1}} : Ids{{3}}));
  }
}

TEST_CASE("a taken request leaves the order until the iteration ends") {
  WaitingQueue queue(Sjf{});
  for (std::uint64_t id = 1; id <= 4; ++id) queue.Push(Of(id, static_cast<double>(id)), {});
  CHECK(queue.Take({1}) == QueueResult::kOutOfPlace);  // no iteration has begun
  queue.Begin({});
  CHECK(queue.Top() == RequestId{1});
  CHECK(queue.Take({1}) == QueueResult::kDone);
  CHECK(queue.Take({1}) == QueueResult::kOutOfPlace);
  CHECK(queue.place({1}) == QueuePlace::kTaken);
  CHECK(queue.Take({3}) == QueueResult::kDone);  // it may be any request
  CHECK(queue.size() == 2);
  CHECK(queue.Top() == RequestId{2});
  CHECK(queue.Hold({2}) == QueueResult::kDone);
  CHECK(queue.Hold({3}) == QueueResult::kDone);  // taken first, then blocked
  CHECK(queue.Hold({3}) == QueueResult::kOutOfPlace);
  queue.Push(Of(5, 0.5), {});
  CHECK(queue.Top() == RequestId{5});
  CHECK(queue.Requeue({1}, {}) == QueueResult::kDone);
  CHECK(queue.Requeue({1}, {}) == QueueResult::kOutOfPlace);
  CHECK(queue.Take({5}) == QueueResult::kDone);
  CHECK(queue.Take({4}) == QueueResult::kDone);
  Run(queue, {{5}});
  CHECK(First(queue) == Ids{{1}, {4}});
  for (std::uint64_t id : {2u, 3u}) CHECK(queue.place({id}) == QueuePlace::kHeld);
  CHECK(queue.Requeue({3}, {}) == QueueResult::kDone);
  CHECK(First(queue) == Ids{{1}, {3}, {4}});
  queue.Begin({});
  CHECK(queue.Take({1}) == QueueResult::kDone);
  CHECK(queue.Erase({1}) == QueueResult::kDone);
  CHECK(queue.Take({3}) == QueueResult::kDone);
  CHECK(queue.Revise({.request = {3}, .output_tokens = Estimate::Exact(9)}, {}) == QueueResult::kDone);
  queue.Begin({});  // gives up the unfinished iteration
  CHECK(queue.place({3}) == QueuePlace::kWaiting);
  Ids two(2);
  CHECK(queue.List(two) == 2);
  CHECK(two == Ids{{4}, {3}});
}

TEST_CASE("a tool call of a taken request ends its promotion") {
  for (const char* spec :
       {"aged(fair_share,threshold=1,at_tool_call=reset)", "aged(sjf,threshold=1,at_tool_call=reset)"}) {
    CAPTURE(spec);
    AnyWaitingQueue queue(*MakePolicy(spec));
    queue.Push(Of(1, 1), {});
    queue.Push(Of(2, 9), {});
    queue.Begin({});
    Run(queue, {{1}});
    queue.Begin({});  // promotes 2
    CHECK(Done(queue.Take({2})));
    CHECK(Done(queue.Pause({.request = {2}}, {})));
    CHECK(queue.place({2}) == QueuePlace::kPaused);
    queue.Push(Of(3, 2), {});
    CHECK(Done(queue.Requeue({2}, {})));
    CHECK(First(queue).size() == 2);
  }
}

// Two queues get the same calls, but more is taken from one and returned by Requeue, End or the next Begin. Their
// orders must be equal after each step, under every policy.
TEST_CASE("a taken request that is returned loses nothing") {
  std::vector<std::string> specs = {"aged(stjf,threshold=3,quantum=2)", "aged(fair_share,threshold=4,quantum=2)"};
  for (const PolicyInfo& info : PolicyInfos()) specs.push_back(info.name);
  std::erase(specs, "aged"), std::erase(specs, "metered");
  std::erase(specs, "room_to_pass");  // requests that join meanwhile find less work
  for (const std::string& spec : specs) {
    CAPTURE(spec);
    for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(6)); ++seed) {
      CAPTURE(seed);
      Random random(seed);
      AnyWaitingQueue plain(*MakePolicy(spec)), taken_from(*MakePolicy(spec));
      std::uint64_t last = 0;
      Ids running;
      TimePoint now{};
      const auto both = [&](auto&& call) {
        const QueueResult result = call(plain);
        REQUIRE(call(taken_from) == result);
      };
      const auto something_happens = [&] {
        const RequestId any = {1 + random.Below(last + 1)};
        const double what = random.Uniform();
        if (what < 0.6) {
          Request r = Of(++last, static_cast<double>(1 + random.Below(500)));
          r.prompt_tokens = {static_cast<std::int32_t>(1 + random.Below(900))};
          r.tenant = {random.Below(4)}, r.agent = {random.Below(3)}, r.workflow = {last / 3 + 1};
          r.deadline = now + FromSeconds(random.Uniform() * 3), r.priority = static_cast<std::int32_t>(random.Below(3));
          both([&](auto& q) { return q.Push(r, now); });
        } else if (what < 0.75) {
          both([&](auto& q) { return q.Erase(any); });
          std::erase(running, any);
        } else if (what < 0.85) {
          both([&, tokens = Tokens{static_cast<std::int32_t>(random.Below(300))}](auto& q) {
            return q.Computed({any, tokens, {1}});
          });
        } else {
          const Revised e = {.request = any, .output_tokens = Estimate::Exact(static_cast<double>(random.Below(300)))};
          const AnyWaitingQueue::Restated restated = {.prompt_tokens = Tokens{static_cast<std::int32_t>(last)},
                                                      .arrival = now};
          const bool anew = random.Chance(0.3);
          both([&](auto& q) { return anew ? q.Revise(e, now, restated) : q.Revise(e, now); });
        }
      };
      for (int step = 0; step < 150; ++step) {
        now += FromSeconds(random.Uniform() * 0.3);
        while (last < 12 || random.Chance(0.5)) something_happens();
        plain.Begin(now), taken_from.Begin(now);
        std::vector<AnyWaitingQueue::Ran> ran;
        for (std::uint64_t n = random.Below(7); n > 0; --n) {
          const RequestId top = taken_from.Top();
          if (!top) break;
          REQUIRE(taken_from.Take(top) == QueueResult::kDone);
          if (random.Chance(0.3)) ran.push_back({top, {static_cast<std::int32_t>(random.Below(50))}, {1}});
          if (random.Chance(0.3)) something_happens();
          if (random.Chance(0.2) && (ran.empty() || ran.back().request != top)) taken_from.Requeue(top, now);
        }
        if (random.Chance(0.9)) {
          plain.End(ran, now), taken_from.End(ran, now);
          for (const auto& r : ran) {
            if (plain.place(r.request) == QueuePlace::kRunning) running.push_back(r.request);
          }
        }
        while (!running.empty() && random.Chance(0.6)) {
          const RequestId id = running[random.Below(running.size())];
          both([&](auto& q) { return q.Requeue(id, now); });
          std::erase(running, id);
        }
        plain.Begin(now), taken_from.Begin(now);  // group keys count from here
        Ids a(plain.size()), b(taken_from.size());
        REQUIRE(plain.List(a) == a.size());
        REQUIRE(taken_from.List(b) == b.size());
        REQUIRE(a == b);
        REQUIRE(taken_from.Top() == (b.empty() ? RequestId{} : b.front()));
      }
    }
  }
}

TEST_CASE("no request is lost or named twice under random hosts") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    WaitingQueue queue(AnyPolicy(Aged(Sjf{}, {.threshold = 4, .quantum = 3})), 10);
    enum class Where { kWaiting, kRunning, kPaused, kHeld };
    std::map<std::uint64_t, Where> model;
    for (int i = 0; i < 2000; ++i) {
      const std::uint64_t id = random.Below(30);
      const auto at = model.find(id);
      switch (random.Below(7)) {
        case 5:
          REQUIRE(Done(queue.Hold({id})) ==
                  (at != model.end() && at->second != Where::kHeld && at->second != Where::kPaused));
          if (at != model.end() && at->second != Where::kPaused) at->second = Where::kHeld;
          break;
        case 6:
          REQUIRE(queue.Put(Of(id, 3), {}) == (id == 0                         ? QueueResult::kInvalid
                                               : at == model.end()             ? QueueResult::kDone
                                               : at->second == Where::kWaiting ? QueueResult::kOutOfPlace
                                                                               : QueueResult::kRequeued));
          if (id != 0) model[id] = Where::kWaiting;
          break;
        case 0:
          REQUIRE(Done(queue.Push(Of(id, static_cast<double>(random.Below(9))), {})) == (id != 0 && at == model.end()));
          if (id != 0) model.emplace(id, Where::kWaiting);
          break;
        case 1:
          REQUIRE(Done(queue.Requeue({id}, {})) == (at != model.end() && at->second != Where::kWaiting));
          if (at != model.end()) at->second = Where::kWaiting;
          break;
        case 2:
          if (!random.Chance(0.3)) break;
          REQUIRE(Done(queue.Erase({id})) == (at != model.end()));
          model.erase(id);
          break;
        case 3:
          REQUIRE(Done(queue.Pause({.request = {id}}, {})) == (at != model.end() && at->second != Where::kPaused));
          if (at != model.end()) at->second = Where::kPaused;
          break;
        default: {
          const Ids first = First(queue, random.Below(4));
          for (RequestId picked : first) {
            REQUIRE(model.at(picked.value) == Where::kWaiting);
            model.at(picked.value) = Where::kRunning;
          }
          std::vector<AnyWaitingQueue::Ran> ran;
          for (RequestId picked : first) ran.push_back({picked});
          ran.push_back({{id}});  // in any state
          const bool runs = at != model.end() && at->second != Where::kPaused;
          REQUIRE(queue.End(ran, {}) == first.size() + (runs ? 1 : 0));
          if (runs) at->second = Where::kRunning;
        }
      }
      std::size_t waiting = 0;
      for (const auto& [key, where] : model) {
        REQUIRE(queue.contains({key}) == (where == Where::kWaiting));
        REQUIRE((queue.place({key}) == QueuePlace::kRunning) == (where == Where::kRunning));
        waiting += where == Where::kWaiting ? 1 : 0;
      }
      REQUIRE(queue.size() == waiting);
    }
  }
}

}  // namespace
}  // namespace takt
