// The queue against a model that sorts everything, with every kind of policy.
#include "takt/queue/rank_queue.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"

namespace takt {
namespace {

// ---- test policies, one of each kind --------------------------------------------------------------------------

struct Static {
  static constexpr std::string_view kName = "static";
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
};

// The same order, but the policy chooses.
struct Choosing {
  static constexpr std::string_view kName = "choosing";
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
  void Enters(const RequestState& r, TimePoint now) {
    if (line.contains(r.slot)) Joins(r, now);
  }
  Slot First() const {
    const auto first = std::ranges::min_element(line, {}, [](const auto& entry) { return entry.second; });
    return first == line.end() ? kNoSlot : first->first;
  }
  void Joins(const RequestState& r, TimePoint) { line[r.slot] = {Key(r).key, r.request.arrival, r.request.id}; }
  void Leaves(Slot slot, bool) {
    left[slot] = line.at(slot);
    line.erase(slot);
  }
  void Returns(Slot slot) { line[slot] = left.at(slot); }

  std::map<Slot, internal::FullKey> line, left;
};

// The request with the longest wait relative to its priority comes first. The order changes with time.
struct Moving {
  static constexpr std::string_view kName = "moving";
  RankKey Key(const RequestState& r) const { return KeyAt(r, r.request.arrival); }
  RankKey KeyAt(const RequestState& r, TimePoint now) const {
    return {-ToSeconds(now - r.request.arrival) / (1 + std::abs(r.request.priority))};
  }
};

// Tenants in order of service. Reports the tenants whose rank moved, and lifts a returning tenant.
struct Grouped {
  static constexpr std::string_view kName = "grouped";
  RankKey Key(const RequestState& r) const { return {static_cast<double>(r.request.priority)}; }
  std::uint64_t Group(const RequestState& r) const { return r.request.tenant.value; }
  RankKey GroupKey(std::uint64_t group) const {
    const auto found = served.find(group);
    return {found == served.end() ? 0 : found->second};
  }
  std::vector<std::uint64_t>& moved_groups() { return moved; }
  void GroupSized(std::uint64_t group, std::int64_t, std::optional<RankKey> least) {
    if (least) served[group] = std::max(GroupKey(group).key, least->key);
  }
  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) {
    served[Group(r)] += prefill.value + output.value;
    moved.push_back(Group(r));
  }
  std::map<std::uint64_t, double> served;
  std::vector<std::uint64_t> moved;
};

// Tenants in order of service, without reports of moves. Requests also move inside the groups.
struct GroupedMoving {
  static constexpr std::string_view kName = "grouped_moving";
  RankKey Key(const RequestState& r) const { return Moving{}.Key(r); }
  RankKey KeyAt(const RequestState& r, TimePoint now) const { return Moving{}.KeyAt(r, now); }
  std::uint64_t Group(const RequestState& r) const { return groups.Group(r); }
  RankKey GroupKey(std::uint64_t group) const { return groups.GroupKey(group); }
  void Scheduled(const RequestState& r, Tokens prefill, Tokens output) { groups.Scheduled(r, prefill, output); }
  Grouped groups;
};

// ---- the model ------------------------------------------------------------------------------------------------

struct Item {
  RequestState state;
  bool waiting = false, counting = false, lives = false;
  std::int64_t waited = 0, quantum = 0;
  std::uint64_t promotion = 0, joined = 0;
  double key = 0;  // as of the last read
};

// Mirrors one queue, at O(n) or worse per question. `policy` is the queue's own, since only it knows group keys.
template <class P>
class Model {
 public:
  explicit Model(std::size_t slots, AgingOptions aging, bool ages) : items(slots), aging_(aging), ages_(ages) {}

  void Push(Slot slot, internal::RankQueue<P>& queue, TimePoint now, std::int64_t steps) {
    Item& i = items[slot];
    i.waiting = true;
    i.joined = ++joins_;
    i.key = queue.KeyOf(i.state, now).key;
    if (steps > 0) {
      i.waited = 0;
      if (i.quantum != kForever) i.quantum = std::max<std::int64_t>(0, i.quantum - steps);
    }
    i.counting = ages_ && i.quantum == 0 && (aging_.count_from == AgingOptions::CountFrom::kArrival || i.state.has_run);
  }

  void Promote() {
    std::vector<Item*> overdue;
    for (Item& i : items) {
      if (i.waiting && i.counting && i.waited >= aging_.threshold) overdue.push_back(&i);
    }
    std::ranges::sort(overdue, {}, [](const Item* i) { return std::tuple(-i->waited, i->joined); });
    for (Item* i : overdue) {
      i->counting = false;
      i->waited = 0;
      i->quantum = aging_.quantum;
      i->promotion = ++promotions;
    }
  }

  void EndPlan(bool ran) {
    for (Item& i : items) i.waited += ran && i.waiting && i.counting ? 1 : 0;
  }

  std::vector<Slot> Order(const P& policy) const {
    std::vector<std::tuple<std::uint64_t, double, internal::FullKey, Slot>> order;
    for (Slot slot = 0; slot < items.size(); ++slot) {
      const Item& i = items[slot];
      if (!i.waiting) continue;
      const internal::FullKey key{i.key, i.state.request.arrival, i.state.request.id};
      if (i.quantum > 0) {
        order.emplace_back(i.promotion, 0, key, slot);
      } else if constexpr (GroupPolicy<P>) {
        const double group = HooksOf(policy).groups ? policy.GroupKey(policy.Group(i.state)).key : 0;
        order.emplace_back(UINT64_MAX, group, key, slot);
      } else {
        order.emplace_back(UINT64_MAX, 0, key, slot);
      }
    }
    std::ranges::sort(order);
    std::vector<Slot> slots;
    for (const auto& entry : order) slots.push_back(std::get<3>(entry));
    return slots;
  }

  // Among requests that never ran and are not promoted, by their ranks at this moment.
  Slot Worst(internal::RankQueue<P>& queue, TimePoint now) const {
    Slot worst = kNoSlot;
    for (Slot slot = 0; slot < items.size(); ++slot) {
      if (!MayBeWorst(items[slot])) continue;
      if (worst == kNoSlot || RankAt(worst, queue, now) < RankAt(slot, queue, now)) worst = slot;
    }
    return worst;
  }

  std::vector<Item> items;
  std::uint64_t promotions = 0;

 private:
  static bool MayBeWorst(const Item& i) { return i.waiting && i.quantum == 0 && !i.state.has_run; }

  // Among groups with equal keys, the larger group is worse.
  std::tuple<double, std::int64_t, internal::FullKey> RankAt(Slot slot, internal::RankQueue<P>& queue,
                                                             TimePoint now) const {
    const P& policy = queue.policy();
    const RequestState& state = items[slot].state;
    double group = 0;
    std::int64_t size = 0;
    if constexpr (GroupPolicy<P>) {
      if (HooksOf(policy).groups) {
        group = policy.GroupKey(policy.Group(state)).key;
        for (const Item& i : items) size += MayBeWorst(i) && policy.Group(i.state) == policy.Group(state) ? 1 : 0;
      }
    }
    return {group, queue.moving() ? 0 : size, queue.KeyOf(state, now)};
  }

  AgingOptions aging_;
  bool ages_;
  std::uint64_t joins_ = 0;
};

template <class P>
std::vector<Slot> OrderOf(const internal::RankQueue<P>& queue) {
  std::vector<Slot> slots;
  queue.ForEachInOrder([&](Slot slot) {
    slots.push_back(slot);
    return true;
  });
  return slots;
}

// Random events. After the start of each plan and during its picks, the queue's order must be the model's.
template <class P>
void CompareWithModel(P policy, std::uint64_t seed, int rounds) {
  Random random(seed);
  constexpr Slot kSlots = 40;
  AgingOptions aging;
  bool ages = false;
  if constexpr (AgingPolicy<P>) {
    if (policy.aging() != nullptr) aging = *policy.aging(), ages = true;
  }
  internal::RankQueue<P> queue(std::move(policy));
  const bool tracks = random.Chance(0.7);
  if (tracks) queue.TrackWorst();
  if (random.Chance(0.5)) queue.Reserve(kSlots);
  Model<P> model(kSlots, aging, ages);
  std::vector<Item>& items = model.items;
  const auto state_of = [&](Slot slot) -> const RequestState& { return items[slot].state; };
  std::uint64_t last_id = 0;
  TimePoint now{};

  for (int round = 0; round < rounds; ++round) {
    now += Duration(static_cast<std::int64_t>(random.Below(3)) * 1'000'000'000);
    for (std::uint64_t events = random.Below(4); events > 0; --events) {
      const Slot slot = static_cast<Slot>(random.Below(kSlots));
      Item& i = items[slot];
      if (!i.lives) {
        i = {};
        i.lives = true;
        i.state.slot = slot;
        Request& r = i.state.request;
        r.id = {++last_id};
        r.arrival = now;
        r.tenant = {random.Below(4)};
        r.priority = static_cast<std::int32_t>(random.Below(5));
        i.state.has_run = random.Chance(0.1);
        queue.Push(slot, i.state, now);
        model.Push(slot, queue, now, 0);
      } else if (!i.waiting) {  // it was picked, ran or not, and returns
        const auto steps = static_cast<std::int64_t>(random.Below(4));
        i.state.has_run |= steps > 0;
        CHECK(queue.PromotedWith(slot, steps) == (i.quantum > steps));
        queue.Push(slot, i.state, now, steps);
        model.Push(slot, queue, now, steps);
      } else if (random.Chance(0.3)) {  // cancelled
        queue.Erase(slot);
        queue.Forget(slot, i.state, now);
        i = {};
      } else if (random.Chance(0.2)) {  // calls a tool
        queue.ToolCalled(slot);
        queue.Erase(slot);
        i.waiting = i.counting = false;
        if (aging.at_tool_call != AgingOptions::AtToolCall::kKeep) i.waited = 0;
        if (aging.at_tool_call == AgingOptions::AtToolCall::kReset) i.quantum = 0;
      } else {
        i.state.request.priority = static_cast<std::int32_t>(random.Below(5));
        if (random.Chance(0.3)) i.state.request.tenant = {random.Below(4)};
        queue.Update(slot, i.state, now);
        i.key = queue.KeyOf(i.state, now).key;
      }
    }
    if constexpr (ScheduledPolicy<P>) {
      const RequestState& served = items[random.Below(kSlots)].state;
      const Tokens prefill{static_cast<std::int32_t>(random.Below(3))};
      if (HooksOf(queue.policy()).scheduled) queue.policy().Scheduled(served, prefill, {1});
    }

    // Between plans, too, the worst is the current one, after any service.
    if (tracks) REQUIRE(queue.WorstNeverRun(now, state_of) == model.Worst(queue, now));
    queue.BeginPlan(now, state_of);
    if (ages) model.Promote();
    if (HooksOf(queue.policy()).moving) {
      for (Item& i : items) {
        if (i.waiting && i.quantum == 0) i.key = queue.KeyOf(i.state, now).key;
      }
    }
    std::vector<Slot> order = model.Order(queue.policy());
    REQUIRE(OrderOf(queue) == order);
    REQUIRE(queue.size() == order.size());
    REQUIRE(queue.promotions() == model.promotions);

    std::vector<Slot> first;
    queue.TopK(3, [&](Slot slot) { first.push_back(slot); });
    std::vector<Slot> expected = order;
    expected.resize(std::min<std::size_t>(3, order.size()));
    REQUIRE(first == expected);

    const std::size_t picks = std::min<std::size_t>(random.Below(3), order.size());
    for (std::size_t k = 0; k < picks; ++k) {
      REQUIRE(queue.Top() == order[k]);
      queue.Erase(order[k]);
      REQUIRE_FALSE(queue.contains(order[k]));
      items[order[k]].waiting = items[order[k]].counting = false;
    }
    for (Slot slot = 0; slot < kSlots; ++slot) {
      if (items[slot].lives) REQUIRE(queue.promoted(slot) == (items[slot].quantum > 0));
    }
    const bool ran = random.Chance(0.7);
    queue.EndPlan(ran);
    model.EndPlan(ran);
  }
}

template <class P>
void CompareWithModel(P policy) {
  for (std::int64_t seed = 1; seed <= Scaled(10); ++seed)
    CompareWithModel(policy, static_cast<std::uint64_t>(seed), 400);
}

template <class P>
void CompareAllForms(P policy) {
  CompareWithModel(policy);
  CompareWithModel(AnyPolicy(policy));
  using From = AgingOptions::CountFrom;
  for (const AgingOptions& options :
       {AgingOptions{.threshold = 5, .quantum = 2}, AgingOptions{.threshold = 0, .quantum = 1},
        AgingOptions{.threshold = 3, .quantum = kForever},
        AgingOptions{.threshold = 4, .quantum = 3, .count_from = From::kFirstRun},
        AgingOptions{.threshold = 6, .quantum = 4, .at_tool_call = AgingOptions::AtToolCall::kReset},
        AgingOptions{.threshold = 3, .quantum = 5, .at_tool_call = AgingOptions::AtToolCall::kResetCount}}) {
    CompareWithModel(Aged(policy, options));
    CompareWithModel(AnyPolicy(Aged(policy, options)));
    CompareWithModel(Aged(AnyPolicy(policy), options));
  }
}

TEST_CASE("a static policy's queue is a sorted list") { CompareAllForms(Static{}); }
TEST_CASE("a choosing policy's queue is a sorted list") { CompareAllForms(Choosing{}); }
TEST_CASE("a moving policy's queue is a sorted list") { CompareAllForms(Moving{}); }
TEST_CASE("a group policy's queue is a sorted list") { CompareAllForms(Grouped{}); }
TEST_CASE("a moving group policy's queue is a sorted list") { CompareAllForms(GroupedMoving{}); }

}  // namespace
}  // namespace takt
