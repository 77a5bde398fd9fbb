#include "takt/base/indexed_heap.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/queue/group_heap.h"

namespace takt {
namespace {

internal::FullKey K(double key, std::uint64_t id) { return {key, TimePoint{}, RequestId{id}}; }

TEST_CASE("full keys have a total order, with zeros, infinities and NaN") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> ascending = {-kInf,  -1e300, -1,    -1e-300, 0,
                                         1e-300, 1,      1e300, kInf,    std::numeric_limits<double>::quiet_NaN()};
  for (std::size_t a = 0; a < ascending.size(); ++a) {
    for (std::size_t b = 0; b < ascending.size(); ++b) {
      CHECK((K(ascending[a], 1) < K(ascending[b], 1)) == (a < b));
      CHECK((internal::PackedKey(K(ascending[a], 1)) < internal::PackedKey(K(ascending[b], 1))) == (a < b));
    }
  }
  CHECK(K(-0.0, 1) == K(0.0, 1));
  CHECK(K(-0.0, 1) < K(0.0, 2));
  CHECK(internal::FullKey{1, TimePoint(Duration(-5)), {9}} < internal::FullKey{1, TimePoint(Duration(3)), {1}});
  CHECK(internal::PackedKey(1, TimePoint(Duration(-5)), {9}) < internal::PackedKey(1, TimePoint(Duration(3)), {1}));
}

// A key that counts its comparisons.
struct Counted {
  std::uint32_t key = 0;
  static inline std::int64_t comparisons = 0;

  friend bool operator<(const Counted& a, const Counted& b) { return ++comparisons, a.key < b.key; }
};

TEST_CASE("any key works, and a removal compares siblings on each level") {
  constexpr std::uint32_t kSlots = 4096;  // seven levels
  IndexedHeapOf<Counted> heap;
  for (Slot slot = 0; slot < kSlots; ++slot) heap.Push(slot, {slot * 2654435761u});
  for (std::uint32_t last = 0, left = kSlots; left > 0; --left) {
    REQUIRE(heap.TopKey().key >= last);
    last = heap.TopKey().key;
    Counted::comparisons = 0;
    heap.Pop();
    REQUIRE(Counted::comparisons <= 7 * 4 + 7);
  }
}

TEST_CASE("the heap agrees with a sorted set under random operations") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const auto slots = static_cast<std::uint32_t>(1 + random.Below(300));
    IndexedHeap heap;
    std::set<std::pair<internal::FullKey, Slot>> model;
    std::vector<internal::FullKey> keys(slots);
    const auto any_key = [&](Slot slot) { return K(static_cast<double>(random.Below(20)), slot + 1); };
    for (int i = 0; i < 3000; ++i) {
      const auto slot = static_cast<Slot>(random.Below(slots));
      REQUIRE(heap.contains(slot) == model.contains({keys[slot], slot}));
      if (!heap.contains(slot)) {
        heap.Push(slot, keys[slot] = any_key(slot));
        model.emplace(keys[slot], slot);
      } else if (random.Chance(0.5)) {
        model.erase({keys[slot], slot});
        heap.Update(slot, keys[slot] = any_key(slot));
        model.emplace(keys[slot], slot);
      } else if (random.Chance(0.5)) {
        heap.Erase(slot);
        model.erase({keys[slot], slot});
      } else {
        REQUIRE(heap.Pop() == model.begin()->second);
        model.erase(model.begin());
      }
      REQUIRE(heap.size() == model.size());
      REQUIRE(heap.Top() == (model.empty() ? kNoSlot : model.begin()->second));
      if (i % 100 == 0) {
        for (Slot s = 0; s < slots; ++s) {
          if (heap.contains(s)) keys[s] = any_key(s);
        }
        std::set<std::pair<internal::FullKey, Slot>> again;
        for (const auto& [key, s] : model) again.emplace(keys[s], s);
        model.swap(again);
        heap.UpdateAll([&](Slot s) { return internal::PackedKey(keys[s]); });
        auto expected = model.begin();
        heap.VisitInOrder([&](Slot s) {
          REQUIRE(s == (expected++)->second);
          return true;
        });
        REQUIRE(expected == model.end());
      }
      if (i == 1500) heap.Clear(), model.clear();
    }
  }
}

TEST_CASE("a visit stops on request") {
  IndexedHeap heap;
  for (Slot slot = 0; slot < 100; ++slot) heap.Push(slot, K(100 - slot, 1));
  std::vector<Slot> seen;
  heap.VisitInOrder([&](Slot slot) {
    seen.push_back(slot);
    return seen.size() < 3;
  });
  CHECK(seen == std::vector<Slot>{99, 98, 97});
  CHECK(heap.size() == 100);
}

TEST_CASE("the heap of groups agrees with a sorted set") {
  constexpr Slot kSlots = 60;
  constexpr std::uint64_t kGroups = 6;
  struct Member {
    bool waits = false;
    std::uint64_t group = 0;
    internal::FullKey key;
  };
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    internal::GroupHeap heap;
    std::vector<Member> members(kSlots);
    std::vector<std::uint64_t> group_keys(kGroups);
    const auto any_key = [&](Slot slot) { return K(static_cast<double>(random.Below(5)), slot + 1); };
    const auto any_group_key = [&] { return internal::OrderedBits(static_cast<double>(random.Below(4))); };
    const auto waiting_of = [&](std::uint64_t group) {
      return std::ranges::count_if(members, [&](const Member& m) { return m.waits && m.group == group; });
    };
    for (int i = 0; i < 2000; ++i) {
      const auto slot = static_cast<Slot>(random.Below(kSlots));
      Member& m = members[slot];
      REQUIRE(heap.contains(slot) == m.waits);
      if (!m.waits) {
        m = {true, random.Below(kGroups), any_key(slot)};
        const std::uint64_t key = any_group_key();
        if (waiting_of(m.group) == 1) group_keys[m.group] = key;  // other members wait, so the group keeps its key
        heap.Push(slot, m.group, m.key, key);
        REQUIRE(heap.GroupOf(slot) == m.group);
      } else if (random.Chance(0.4)) {
        heap.Update(slot, m.key = any_key(slot));
      } else if (random.Chance(0.7)) {
        heap.Erase(slot);
        m.waits = false;
      } else {
        const std::uint64_t group = random.Below(kGroups), key = any_group_key();
        heap.SetGroupKey(group, key);
        group_keys[group] = key;  // if no member waits, the next one brings another key
      }
      if (i % 100 == 50) {
        for (std::uint64_t& key : group_keys) key = any_group_key();
        heap.SetGroupKeys([&](std::uint64_t group) { return group_keys[group]; });
      }
      if (i % 100 == 99) {
        for (Slot s = 0; s < kSlots; ++s) members[s].key = any_key(s);
        heap.UpdateAll([&](Slot s) { return internal::PackedKey(members[s].key); });
      }
      if (i == 1500) {
        heap.Clear();
        for (Member& each : members) each.waits = false;
      }

      std::vector<std::tuple<std::uint64_t, internal::FullKey, Slot>> order;
      for (Slot s = 0; s < kSlots; ++s) {
        if (members[s].waits) order.emplace_back(group_keys[members[s].group], members[s].key, s);
      }
      std::ranges::sort(order);
      REQUIRE(heap.size() == order.size());
      REQUIRE(heap.empty() == order.empty());
      REQUIRE(heap.Top() == (order.empty() ? kNoSlot : std::get<Slot>(order.front())));
      if (!order.empty()) REQUIRE(heap.TopGroup() == members[heap.Top()].group);
      for (std::uint64_t group = 0; group < kGroups; ++group) {
        REQUIRE(heap.SizeOf(group) == waiting_of(group));
        REQUIRE(heap.waits(group) == (waiting_of(group) > 0));
      }
      std::vector<Slot> seen;
      const std::size_t most = random.Below(kSlots);
      heap.VisitInOrder([&](Slot s) {
        seen.push_back(s);
        return seen.size() < most;
      });
      REQUIRE(seen.size() == std::min(order.size(), std::max<std::size_t>(most, 1)));
      for (std::size_t k = 0; k < seen.size(); ++k) REQUIRE(seen[k] == std::get<Slot>(order[k]));
    }
  }
}

TEST_CASE("a group's new key moves all its members at once") {
  internal::GroupHeap heap;
  heap.Push(0, 7, K(1, 1), internal::OrderedBits(5));
  heap.Push(1, 7, K(0, 2), internal::OrderedBits(99));  // the group has its key already
  heap.Push(2, 8, K(-9, 3), internal::OrderedBits(6));
  CHECK(heap.Top() == 1);
  heap.SetGroupKey(8, internal::OrderedBits(4));
  CHECK(heap.Top() == 2);
  heap.SetGroupKey(7, internal::OrderedBits(4));
  CHECK(heap.Top() == 2);  // equal groups: the better member
  heap.Erase(2);
  CHECK_FALSE(heap.waits(8));
  heap.SetGroupKey(8, internal::OrderedBits(-1));  // no member waits
  CHECK(heap.Top() == 1);
  heap.Update(1, K(2, 2));
  CHECK(heap.Top() == 0);
}

}  // namespace
}  // namespace takt
