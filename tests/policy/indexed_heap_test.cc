#include "takt/policy/indexed_heap.h"

#include <limits>
#include <set>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/policy/group_heap.h"

namespace takt {
namespace {

FullKey K(double key, std::uint64_t id) { return {key, TimePoint{}, RequestId{id}}; }

TEST_CASE("full keys have a total order, also with zeros, infinities and what is not a number") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> ascending = {-kInf,  -1e300, -1,    -1e-300, 0,
                                         1e-300, 1,      1e300, kInf,    std::numeric_limits<double>::quiet_NaN()};
  for (std::size_t a = 0; a < ascending.size(); ++a) {
    for (std::size_t b = 0; b < ascending.size(); ++b) {
      CHECK((K(ascending[a], 1) < K(ascending[b], 1)) == (a < b));
      CHECK((PackedKey(K(ascending[a], 1)) < PackedKey(K(ascending[b], 1))) == (a < b));
    }
  }
  CHECK(K(-0.0, 1) == K(0.0, 1));
  CHECK(K(-0.0, 1) < K(0.0, 2));
  CHECK(FullKey{1, TimePoint(Duration(-5)), {9}} < FullKey{1, TimePoint(Duration(3)), {1}});
  CHECK(PackedKey(1, TimePoint(Duration(-5)), {9}) < PackedKey(1, TimePoint(Duration(3)), {1}));
}

TEST_CASE("the heap is a sorted set, whatever happens") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const auto slots = static_cast<std::uint32_t>(1 + random.Below(300));
    IndexedHeap heap;
    std::set<std::pair<FullKey, Slot>> model;
    std::vector<FullKey> keys(slots);
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
        std::set<std::pair<FullKey, Slot>> again;
        for (const auto& [key, s] : model) again.emplace(keys[s], s);
        model.swap(again);
        heap.UpdateAll([&](Slot s) { return PackedKey(keys[s]); });
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

TEST_CASE("a visit stops when it is told to") {
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

TEST_CASE("a group's new key moves all its members at once") {
  GroupHeap heap;
  heap.Push(0, 7, K(1, 1), OrderedBits(5));
  heap.Push(1, 7, K(0, 2), OrderedBits(99));  // the group has its key already
  heap.Push(2, 8, K(-9, 3), OrderedBits(6));
  CHECK(heap.Top() == 1);
  heap.SetGroupKey(8, OrderedBits(4));
  CHECK(heap.Top() == 2);
  heap.SetGroupKey(7, OrderedBits(4));
  CHECK(heap.Top() == 2);  // equal groups: the better member
  heap.Erase(2);
  CHECK_FALSE(heap.waits(8));
  heap.SetGroupKey(8, OrderedBits(-1));  // nobody of it waits
  CHECK(heap.Top() == 1);
  heap.Update(1, K(2, 2));
  CHECK(heap.Top() == 0);
}

}  // namespace
}  // namespace takt
