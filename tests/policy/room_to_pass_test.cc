// The order of room_to_pass, against a shadow that recounts everything, and by hand.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/policy/books/passing_line.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/registry.h"
#include "takt/policy/room_to_pass.h"
#include "takt/queue/waiting_queue.h"

namespace takt {
namespace {

using Place = PassingLine::Place;

// Sizes are rounded up to 1, 1.25, 1.5 or 1.75 times a power of two, from 16 us on.
Work RoundedUp(Work size) {
  for (Work power = 16;; power *= 2) {
    for (Work quarter = 4; quarter < 8; ++quarter) {
      if (size <= power / 4 * quarter) return power / 4 * quarter;
    }
  }
}

// The rule, recounted for every request: O(n^2).
struct Shadow {
  struct Item {
    Place place;
    Slot slot = 0;
    Work work = 0, size = 0, room = 0, gone = 0;  // gone: since it joined
    Work allowed = 0, most = 0;  // room when it joined; largest work in the line while it was passed
  };
  std::vector<Item> items;  // by place
  Work cap = PassingLine::kNoCap;

  Work Waiting() const {
    Work sum = 0;
    for (const Item& i : items) sum += i.work;
    return sum;
  }
  Work Ahead(const Place& place) const {
    Work sum = 0;
    for (const Item& i : items) sum += i.place < place ? i.work : 0;
    return sum;
  }
  Work RoomOf(const Item& i) const { return std::max(i.room, std::min(Waiting(), cap) - Ahead(i.place) - i.gone); }
  bool May(const Item& j) const {
    return std::ranges::all_of(items,
                               [&](const Item& i) { return !(i.place < j.place) || RoundedUp(j.size) <= RoomOf(i); });
  }
  Slot First(double tau) const {
    const Item* best = nullptr;
    double least = 0;
    for (const Item& i : items) {
      const double key =
          static_cast<double>(i.place.came) * 1e-9 + tau * std::log(static_cast<double>(RoundedUp(i.size)) * 1e-6);
      if (May(i) && (best == nullptr || key < least - 1e-9)) best = &i, least = key;
    }
    return best == nullptr ? kNoSlot : best->slot;
  }
  Item& At(Slot slot) { return *std::ranges::find(items, slot, &Item::slot); }
  void Join(Slot slot, const Place& place, Work work, Work room, Work size) {
    items.insert(std::ranges::upper_bound(items, place, {}, &Item::place), {place, slot, work, size, room, 0, room});
  }
  Item Leave(Slot slot, bool goes) {
    const Item gone = At(slot);
    const Work waiting = Waiting();
    std::erase_if(items, [slot](const Item& i) { return i.slot == slot; });
    if (!goes) return gone;
    for (Item& i : items) {
      if (i.place < gone.place) i.room -= gone.work, i.most = waiting;
      i.gone += gone.work;
    }
    return gone;
  }
};

struct Twins {
  explicit Twins(std::uint64_t seed) : random(seed) {}

  PassingLine line;
  Shadow shadow;
  Random random;
  std::int64_t now = 0;
  std::uint64_t next_id = 1;
  std::vector<Slot> free;
  Slot slots = 0;

  Work RandomSize() {
    const double most = random.Below(8) == 0 ? 24 : 8;  // octaves
    return static_cast<Work>(100 * std::exp2(most * random.Uniform()));
  }
  // A workflow may go on after the request.
  Work SizeFor(Work work) { return random.Below(3) == 0 ? work + RandomSize() : work; }
  void Join(bool anywhere) {
    Slot slot = slots;
    if (free.empty()) ++slots;
    else slot = free.back(), free.pop_back();
    const std::int64_t back = anywhere && random.Below(4) == 0 ? static_cast<std::int64_t>(random.Below(3'000'000)) : 0;
    const Place place{now - back, next_id++};
    const Work ahead = line.Ahead(place);
    REQUIRE(ahead == shadow.Ahead(place));
    const Work room = ahead / 20 + static_cast<Work>(random.Below(3) == 0 ? random.Below(50'000) : 0);
    const Work work = RandomSize(), size = SizeFor(work);
    line.Join(slot, place, work, room, size), shadow.Join(slot, place, work, room, size);
  }
  Slot Any() { return shadow.items[random.Below(shadow.items.size())].slot; }
  void Check(double tau) const {
    REQUIRE(line.First(tau, shadow.cap) == shadow.First(tau));
    REQUIRE(line.waiting() == shadow.Waiting());
  }
};

// The line subtracts the work that has gone from its sums soon.
void ReachMostGone(PassingLine& line) {
  Work left = PassingLine::kMostGone;
  for (std::uint64_t id = 1; left > 100'000'000; ++id) {
    const Work size = std::min(left - 1'000'000, PassingLine::kMostSize);
    line.Join(0, {0, id}, size, 0), line.Leave(0, true);
    left -= size;
  }
}

TEST_CASE("the line chooses by the rule, and undoes choices") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(8)); ++seed) {
    Twins t(seed);
    if (seed == 1) ReachMostGone(t.line);
    double tau = 0.001;
    for (int event = 0; event < 1'500; ++event) {
      t.now += static_cast<std::int64_t>(t.random.Below(2'000'000));
      const std::uint64_t kind = t.random.Below(16);
      const bool any = !t.shadow.items.empty();
      if (kind < 7 || !any) {
        t.Join(true);
      } else if (kind < 13) {
        const Slot first = t.line.First(tau, t.shadow.cap);
        t.line.Leave(first, true), t.shadow.Leave(first, true);
        t.free.push_back(first);
      } else if (kind == 13) {
        const bool goes = t.random.Below(2) == 0;  // out of turn, as when the choice does not fit
        const Slot slot = t.Any();
        t.line.Leave(slot, goes), t.shadow.Leave(slot, goes);
        t.free.push_back(slot);
      } else if (kind == 14) {
        const Slot slot = t.Any();
        const Work work = t.RandomSize(), size = t.SizeFor(work);
        t.line.Resize(slot, work, size), t.shadow.At(slot).work = work, t.shadow.At(slot).size = size;
      } else {
        const Shadow before = t.shadow;
        std::vector<Slot> chosen;
        for (std::uint64_t n = t.random.Below(20); n > 0 && !t.shadow.items.empty(); --n) {
          t.Check(tau);
          chosen.push_back(t.line.First(tau, t.shadow.cap));
          t.line.Leave(chosen.back(), true), t.shadow.Leave(chosen.back(), true);
        }
        for (; !chosen.empty(); chosen.pop_back()) t.line.Return(chosen.back());
        t.shadow = before;
      }
      if (t.random.Below(50) == 0) t.shadow.cap = t.random.Below(2) == 0 ? t.RandomSize() * 10 : PassingLine::kNoCap;
      if (t.random.Below(50) == 0) tau = 1e-4 * std::exp2(static_cast<double>(t.random.Below(12)));
      t.Check(tau);
      if (t.shadow.items.empty()) continue;
      const Shadow::Item& item = t.shadow.At(t.Any());
      REQUIRE(t.line.Room(item.slot) == item.room);
      REQUIRE(t.line.Before(item.slot) == t.shadow.Ahead(item.place) + item.gone);
    }
  }
}

TEST_CASE("no request waits for more work than its bound") {
  std::int64_t passed = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(8)); ++seed) {
    Twins t(seed);
    std::vector<Work> found;
    for (int event = 0; event < 2'000; ++event) {
      t.now += static_cast<std::int64_t>(t.random.Below(2'000'000));
      if (t.shadow.items.empty() || t.random.Below(100) < (event < 1'000 ? 55u : 45u)) {
        t.Join(false);
        Shadow::Item& last = t.shadow.items.back();
        found.resize(std::max<std::size_t>(found.size(), last.slot + 1));
        found[last.slot] = t.shadow.Ahead(last.place);
        continue;
      }
      const Slot first = t.line.First(0.01);
      t.line.Leave(first, true);
      const Shadow::Item gone = t.shadow.Leave(first, true);
      t.free.push_back(first);
      REQUIRE(gone.gone <= std::max(found[first] + gone.allowed, gone.most));
      passed += gone.room < gone.allowed ? 1 : 0;
    }
  }
  CHECK(passed > Scaled(1'000));
}

// Requests at even places joined long ago and have room. Requests at odd places joined late and have none, but a
// newcomer would wait longer. So none stops a request, but every subtree may contain one that does.
TEST_CASE("the choices of a plan examine a bounded number of requests") {
  PassingLine line;
  constexpr Slot kWaiting = 20'000, kChoices = 200;
  for (Slot slot = 0; slot < kWaiting; slot += 2) line.Join(slot, {slot, slot}, 200, Work{1} << 40);
  line.Join(kWaiting, {kWaiting, kWaiting}, 1'000'000'000, 0), line.Leave(kWaiting, true);
  for (Slot slot = 1; slot < kWaiting; slot += 2) line.Join(slot, {slot, slot}, 200, 0);
  for (Slot i = 0; i < kChoices; ++i) line.Join(kWaiting + i, {kWaiting + i, kWaiting + i}, 16, 0);
  const auto list = [&] {
    std::vector<Slot> order;
    std::int64_t looks = 0;
    for (Slot i = 0; i < kChoices; ++i) {
      order.push_back(line.First(1)), looks += line.looks();
      line.Leave(order.back(), true);
    }
    CHECK(looks <= PassingLine::kMostLooks + kChoices * (PassingLine::kLooksEach + 2));
    for (Slot i = kChoices; i > 0; --i) line.Return(order[i - 1]);
    return order;
  };
  const std::vector<Slot> order = list();
  CHECK(order[0] == 0);
  CHECK(list() == order);
  line.Leave(line.First(1), true);
  line.First(1);
  CHECK(line.looks() < PassingLine::kMostLooks / 2);
  line.BeginPlan();
  line.First(1);
  CHECK(line.looks() > PassingLine::kMostLooks / 2);
}

TEST_CASE("the quantile of the work found is that of a sort, within its class") {
  Random random(7);
  FoundWork found;
  std::vector<double> all;
  CHECK(found.Quantile(0.95) == 0);
  for (int n = 1; n < 5'000; ++n) {
    const double work = random.Below(3) == 0 ? 0 : 1e3 * std::exp2(random.Uniform() * 20 * (n % 500) / 500);
    found.Add(static_cast<Work>(work)), all.push_back(work);
    const Work quantile = found.Quantile(0.95);
    if (n % 97 != 0) continue;
    std::ranges::sort(all);
    const double exact = all[static_cast<std::size_t>(0.95 * n)];
    if (exact > 0) CHECK(static_cast<double>(quantile) == Approx(exact).epsilon(0.15));
  }
}

// ---- the policy in a queue: a call of `tokens` output tokens has a size of `tokens` milliseconds

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

RoomToPass Policy() {
  RoomToPass policy;
  policy.set_pace({.step_s = 0, .prefill_s = 0, .sequence_s = 1e-3, .context_s = 0});
  return policy;
}
Request Call(std::uint64_t id, double came, double tokens, std::uint64_t workflow = 0, double workflow_came = -1) {
  Request r;
  r.id = {id}, r.workflow = {workflow};
  r.arrival = At(came), r.workflow_arrival = At(workflow_came < 0 ? came : workflow_came);
  r.prompt_tokens = {1};
  r.output_tokens = Estimate::Exact(tokens);
  return r;
}
Request CallBy(std::uint64_t id, double came, double tokens, double deadline) {
  Request r = Call(id, came, tokens);
  r.deadline = At(came + deadline);
  return r;
}
template <class Queue>
std::vector<std::uint64_t> Order(const Queue& queue) {
  std::array<RequestId, 32> ids;
  std::vector<std::uint64_t> order;
  for (std::size_t n = queue.List(ids), i = 0; i < n; ++i) order.push_back(ids[i].value);
  return order;
}
void Go(WaitingQueue<RoomToPass>& queue, std::uint64_t id, double now) {
  const WaitingQueue<RoomToPass>::Ran ran[] = {{{id}, {}, {}}};
  queue.Begin(At(now)), queue.End(ran, At(now));
}

// Runs a request to its end.
void Finish(WaitingQueue<RoomToPass>& queue, std::uint64_t id, std::int32_t tokens, double now) {
  const WaitingQueue<RoomToPass>::Ran ran[] = {{{id}, {}, {tokens}}};
  queue.Begin(At(now)), queue.End(ran, At(now));
  queue.Erase({id});
}

// 200 s of work wait, so that later requests find work and tau grows.
WaitingQueue<RoomToPass> Busy() {
  WaitingQueue<RoomToPass> queue(Policy());
  for (std::uint64_t id = 1; id <= 20; ++id) queue.Push(Call(id, 0, 10'000), At(0));
  return queue;
}

// The example of docs/reference/policies/room_to_pass.md.
TEST_CASE("a small request passes as long as each earlier one has room") {
  WaitingQueue<RoomToPass> queue(Policy());
  for (std::uint64_t id = 1; id <= 10; ++id) queue.Push(Call(id, -20, 10'000), At(-20));
  queue.Push(Call(100, 0, 40'000), At(0));
  queue.Push(Call(101, 1, 4'000), At(1));
  queue.Push(Call(102, 2, 2'000), At(2));
  for (std::uint64_t id = 1; id <= 10; ++id) Go(queue, id, 2);
  queue.Begin(At(2));
  CHECK(queue.policy().tau() > 5);
  CHECK(Order(queue) == std::vector<std::uint64_t>{102, 100, 101});
  CHECK(Order(queue) == std::vector<std::uint64_t>{102, 100, 101});  // a list changes nothing
}

TEST_CASE("a later call keeps its workflow's place") {
  WaitingQueue<RoomToPass> queue(Policy());
  queue.Push(Call(1, 1, 100, 1), At(1));
  queue.Push(Call(2, 2, 100, 2), At(2));
  queue.Push(Call(3, 3, 100, 3, 0.5), At(3));
  queue.Begin(At(3));
  CHECK(Order(queue) == std::vector<std::uint64_t>{3, 1, 2});
}

// The usual time is 100 s. With 110 s of work before it, half of this time moves a request forward by 55 s. With 120 s,
// 98 s of time move it forward by 2.4 s.
TEST_CASE("a tight deadline moves a request forward by a share of the waiting work") {
  WaitingQueue<RoomToPass> queue(Policy());
  queue.Push(CallBy(99, -1, 10, 100), At(-1));
  Finish(queue, 99, 10, -1);
  for (std::uint64_t id = 1; id <= 10; ++id) queue.Push(Call(id, 0, 10'000), At(0));
  queue.Push(Call(11, 1, 10'000), At(1));
  queue.Push(CallBy(12, 2, 10'000, 50), At(2));
  queue.Push(CallBy(13, 3, 10'000, 98), At(3));
  queue.Push(CallBy(14, 4, 10'000, 500), At(4));
  queue.Begin(At(4));
  CHECK(Order(queue) == std::vector<std::uint64_t>{12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 11, 14});
}

TEST_CASE("equal deadlines change nothing") {
  RoomToPass policy = Policy();
  RequestState r;
  for (r.slot = 0; r.slot < 40; ++r.slot) {
    r.request = CallBy(r.slot + 1, 0.37 * r.slot, 900, 77.7);
    r.enqueued = r.request.arrival, r.generated = {};
    policy.Enters(r, r.enqueued), policy.Joins(r, r.enqueued);
    CHECK(policy.PlaceOf(r).came == r.request.arrival.time_since_epoch().count());
    if (r.slot % 2 == 0) continue;
    policy.Leaves(r.slot, true);
    r.generated = {900};
    policy.Ends(r, r.enqueued);
  }
}

TEST_CASE("preset=mean is the order of footprint") {
  AnyWaitingQueue mean(*MakePolicy("room_to_pass(preset=mean)")), footprint(*MakePolicy("footprint"));
  Random random(5);
  for (std::uint64_t id = 1; id <= 30; ++id) {
    const Request r = Call(id, static_cast<double>(id), static_cast<double>(1 + random.Below(900)));
    mean.Push(r, r.arrival), footprint.Push(r, r.arrival);
  }
  CHECK(Order(mean) == Order(footprint));
}

TEST_CASE("tau and the work found are saved, and damaged words change nothing") {
  WaitingQueue<RoomToPass> queue = Busy();
  for (std::uint64_t id = 1; id <= 20; ++id) Go(queue, id, static_cast<double>(id));
  const std::vector<std::uint64_t> words = queue.policy().SaveLearnt();
  RoomToPass fresh = Policy();
  const std::vector<std::uint64_t> none = fresh.SaveLearnt();
  for (const std::size_t at : {0u, 1u, 2u, 3u, 4u, 200u}) {
    std::vector<std::uint64_t> damaged = words;
    damaged[at] = UINT64_MAX;
    CHECK_FALSE(fresh.LoadLearnt(damaged));
  }
  for (std::size_t n = 0; n < words.size(); n += 7) CHECK_FALSE(fresh.LoadLearnt(std::span(words).first(n)));
  CHECK(fresh.SaveLearnt() == none);
  REQUIRE(fresh.LoadLearnt(words));
  CHECK(fresh.SaveLearnt() == words);
  CHECK(fresh.tau() == queue.policy().tau());
  CHECK(fresh.tau() > 0);
}

// 40 s of work go. Each false prediction counts as 16 times the largest request that has ended.
TEST_CASE("a newcomer counts less work if predictions are cancelled") {
  WaitingQueue<RoomToPass> queue(Policy());
  for (std::uint64_t id = 1; id <= 40; ++id) queue.Push(Call(id, 0, 1'000), At(0));
  for (std::uint64_t id = 1; id <= 40; ++id) Finish(queue, id, 1'000, static_cast<double>(id));
  queue.Push(Call(50, 41, 10'000), At(41));
  const auto flood = [&] {
    for (std::uint64_t id = 1'000; id < 1'100; ++id) queue.Push(Call(id, 41, 1e6), At(41));
    CHECK(queue.policy().line().waiting() == 1'610'000'000);
  };
  flood();
  CHECK(queue.policy().cap() == PassingLine::kNoCap);
  for (std::uint64_t id = 1'000; id < 1'100; ++id) queue.Erase({id});
  flood();
  CHECK(static_cast<double>(queue.policy().cap()) == Approx(1'610e6 * 40 / 1'640));
}

TEST_CASE("after a change of policy, the order is that of a fresh start") {
  std::vector<RequestState> states(100);
  internal::RankQueue<AnyPolicy> changed{Fcfs{}}, fresh{Policy()};
  const auto state_of = [&](Slot slot) -> const RequestState& { return states[slot]; };
  Random random(11);
  const TimePoint now = At(200);
  for (Slot i = 0; i < 100; ++i) {
    const Slot slot = (37 * i + 5) % 100;
    RequestState& state = states[slot];
    state.request = Call(i + 1, i, static_cast<double>(1 + random.Below(2'000)));
    state.slot = slot, state.enqueued = state.request.arrival;
    changed.Push(slot, state, now), fresh.Push(slot, state, now);
  }
  changed.ChangePolicy(Policy(), now, state_of);
  const auto order = [](const auto& queue) {
    std::vector<Slot> slots;
    queue.TopK(100, [&](Slot slot) { slots.push_back(slot); });
    return slots;
  };
  changed.BeginPlan(now + std::chrono::seconds(5), state_of), fresh.BeginPlan(now + std::chrono::seconds(5), state_of);
  CHECK(order(changed) == order(fresh));
}

TEST_CASE("the number of requests ahead is the place in the order of choices") {
  internal::RankQueue<AnyPolicy> queue{Policy()};
  std::vector<RequestState> states(60);
  const auto state_of = [&](Slot slot) -> const RequestState& { return states[slot]; };
  for (Slot slot = 0; slot < 60; ++slot) {  // large and small in turn
    states[slot].request = Call(slot + 1, slot, slot % 2 == 0 ? 40'000 : 500);
    states[slot].slot = slot, states[slot].enqueued = states[slot].request.arrival;
    queue.Push(slot, states[slot], At(slot));
  }
  queue.BeginPlan(At(60), state_of);
  std::vector<Slot> order;
  queue.TopK(60, [&](Slot slot) { order.push_back(slot); });
  REQUIRE(order.size() == 60);
  CHECK_FALSE(std::ranges::is_sorted(order));  // some pass
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(queue.Ahead(order[i]) == static_cast<std::int64_t>(i));
}

TEST_CASE("the quantile of found work may be the least") {
  FoundWork found;
  for (int i = 0; i < 100; ++i) found.Add(1'000'000);
  const Work most = found.Quantile(0.95);
  CHECK(most > 0);
  CHECK(found.Quantile(0) <= most);
  CHECK(found.Quantile(0.95) == most);
}

TEST_CASE("requests that were taken without running keep their room") {
  WaitingQueue<RoomToPass> queue = Busy();
  const auto room = [&] {
    const PassingLine& line = queue.policy().line();
    Work sum = 0;
    for (Slot slot = 0; slot < 20; ++slot) sum += line.contains(slot) ? line.Room(slot) : 0;
    return sum;
  };
  queue.Begin(At(2));
  const Work before = room();
  for (int i = 0; i < 3; ++i) {
    for (int k = 0; k < 4; ++k) queue.Take(queue.Top());
    queue.End({}, At(2));
    queue.Begin(At(2));
  }
  CHECK(room() == before);
}

// room.
TEST_CASE("an erased or held request that was taken changes no other room") {
  const bool holds = GENERATE(false, true);
  WaitingQueue<RoomToPass> queue(Policy());
  for (std::uint64_t id = 1; id <= 6; ++id) queue.Push(Call(id, static_cast<double>(id), 1'000), At(6));
  const auto rooms = [&queue] {
    std::vector<Work> all;
    for (Slot slot = 1; slot <= 5; ++slot) all.push_back(queue.policy().line().Room(slot));  // requests 2 to 6
    return all;
  };
  const std::vector<Work> before = rooms();
  queue.Begin(At(7));
  for (int i = 0; i < 5; ++i) queue.Take(queue.Top());
  if (holds) queue.Hold({1});
  else queue.Erase({1});
  queue.End({}, At(7));
  CHECK(rooms() == before);
}

TEST_CASE("a leap of the clock counts as an hour in tau") {
  WaitingQueue<RoomToPass> queue = Busy();
  queue.Begin(At(1e9)), queue.End({}, At(1e9));
  for (std::uint64_t id = 1; id <= 20; ++id) Go(queue, id, 1e9);
  CHECK(queue.policy().tau() == Approx(3'600));
}

TEST_CASE("a revised size counts from now on, and keeps the place") {
  RoomToPass policy = Policy();
  std::vector<RequestState> states(3);
  for (Slot slot = 0; slot < states.size(); ++slot) {
    RequestState& r = states[slot];
    r.slot = slot, r.request = Call(slot + 1, slot, 1'000), r.enqueued = At(slot);
    policy.Enters(r, At(slot)), policy.Joins(r, At(slot));
  }
  const Work all = policy.line().waiting(), before = policy.line().Before(2);
  states[1].request.output_tokens = Estimate::Exact(3'000);
  policy.Enters(states[1], At(9));
  CHECK(policy.line().waiting() == Approx(static_cast<double>(all) * 5 / 3).epsilon(0.01));
  CHECK(policy.line().Before(2) == Approx(static_cast<double>(before) * 2).epsilon(0.01));
  CHECK(policy.PlaceOf(states[1]).came == At(1).time_since_epoch().count());
  CHECK(policy.line().Before(0) == 0);
}

struct Waits {
  double mean = 0, p95 = 0, p99 = 0;
};

// One server, to which work arrives at 1.1 times its capacity; a token takes a millisecond.
Waits Serve(const std::vector<double>& sizes, const std::string& spec) {
  AnyWaitingQueue queue(*MakePolicy(spec));
  double total = 0, free_at = 0, sum = 0;
  for (const double size : sizes) total += size;
  const double gap = total / 1.1 / static_cast<double>(sizes.size());
  std::vector<double> took;
  for (std::size_t next = 0; took.size() < sizes.size();) {
    const double arrives = next < sizes.size() ? gap * static_cast<double>(next) : 1e9;
    if (queue.empty() || arrives <= free_at) {
      queue.Push(Call(next + 1, arrives, 1'000 * sizes[next]), At(arrives));
      free_at = std::max(free_at, arrives), ++next;
      continue;
    }
    queue.Begin(At(free_at));
    const std::size_t i = queue.Top().value - 1;
    const AnyWaitingQueue::Ran ran = {{i + 1}, {1}, {static_cast<std::int32_t>(1'000 * sizes[i])}};
    queue.End(std::span(&ran, 1), At(free_at));
    queue.Erase(ran.request);
    free_at += sizes[i];
    took.push_back(free_at - gap * static_cast<double>(i));
    sum += took.back();
  }
  std::ranges::sort(took);
  const auto at = [&](double q) { return took[static_cast<std::size_t>(q * static_cast<double>(took.size()))]; };
  return {sum / static_cast<double>(took.size()), at(0.95), at(0.99)};
}

TEST_CASE("on one overloaded server the tail stays and the mean falls; a larger factor buys mean for tail") {
  const std::string pace = "step_s=0,prefill_s=0,sequence_s=0.001,context_s=0,learn=false";
  for (const double sigma : {0.7, 1.2, 2.0}) {
    Random random(11);
    std::vector<double> sizes;
    for (int i = 0; i < 4'000; ++i) sizes.push_back(std::max(random.LogNormal(0, sigma), 1e-3));
    const Waits fcfs = Serve(sizes, "fcfs");
    double before = 0.97 * fcfs.mean;
    for (const double factor : {1.05, 1.2, 1.4}) {
      CAPTURE(sigma, factor);
      const Waits ours = Serve(sizes, "room_to_pass(" + pace + ",tail_factor=" + std::to_string(factor) + ")");
      CHECK(ours.p95 <= 1.01 * factor * fcfs.p95);
      CHECK(ours.p99 <= 1.01 * factor * fcfs.p99);
      CHECK(ours.mean < before);
      before = ours.mean;
    }
  }
}

TEST_CASE("requests that were taken return to their places") {
  WaitingQueue<RoomToPass> queue = Busy();
  queue.Push(Call(100, 1, 10), At(1));
  queue.Begin(At(2));
  const std::vector<std::uint64_t> order = Order(queue);
  for (int i = 0; i < 5; ++i) queue.Take(queue.Top());
  queue.End({}, At(2));
  queue.Begin(At(2));
  CHECK(Order(queue) == order);
}

TEST_CASE("the policy allocates nothing after its reserve") {
  WaitingQueue<RoomToPass> queue(Policy(), 1'000);
  Random random(3);
  std::uint64_t next = 1, first = 1;
  const auto round = [&](double now) {
    for (int i = 0; i < 500; ++i) queue.Push(Call(next++, now, 1.0 + static_cast<double>(random.Below(900))), At(now));
    for (int i = 0; i < 500; ++i) {
      const RequestId id = queue.Top();
      const WaitingQueue<RoomToPass>::Ran ran[] = {{id, {}, {1}}};
      queue.Begin(At(now)), queue.End(ran, At(now));
      queue.Erase(id), ++first;
    }
  };
  round(1);
  const std::size_t before = allocations;
  round(2);
  CHECK(allocations == before);
}

}  // namespace
}  // namespace takt
