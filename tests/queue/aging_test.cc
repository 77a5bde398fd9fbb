// Aging counts its comparisons, so that the test reads no clock.
#include "takt/queue/aging.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"

namespace takt::internal {
namespace {

std::int64_t comparisons = 0;

struct CountedKey {
  PackedKey key;

  CountedKey() = default;
  CountedKey(const FullKey& k) : key(k) {}    // NOLINT: the same value
  CountedKey(const PackedKey& k) : key(k) {}  // NOLINT: the same value
  friend bool operator<(const CountedKey& a, const CountedKey& b) { return ++comparisons, a.key < b.key; }
};

TEST_CASE("aging stops and resumes a count in O(log waiting) comparisons") {
  for (const std::size_t waiting : {1'000u, 100'000u}) {
    CAPTURE(waiting);
    AgingBy<IndexedHeapOf<CountedKey>> aging;
    std::vector<Slot> slots(waiting);
    std::iota(slots.begin(), slots.end(), 0u);
    for (const Slot slot : slots) {
      aging.Join(slot, true);
      aging.PlanEnds(true);
    }
    const auto levels = static_cast<std::int64_t>(std::bit_width(waiting)) / 2 + 1;  // of a heap with four children
    Random random(7);
    std::int64_t most = 0;
    for (int i = 0; i < 10'000; ++i) {
      const auto slot = static_cast<Slot>(random.Below(waiting));
      comparisons = 0;
      aging.Delist(slot);
      if (i % 2 == 0) aging.PlanEnds(true);
      aging.Enlist(slot);
      most = std::max(most, comparisons);
    }
    CHECK(most <= 8 * levels);
    // Longest wait first. Held requests do not count the time of the hold.
    CHECK(aging.Overdue(static_cast<std::int64_t>(waiting) + 5'001) == kNoSlot);
    std::size_t overdue = 0;
    for (Slot slot; (slot = aging.Overdue(1)) != kNoSlot; ++overdue) aging.Promote(slot, 10);
    CHECK(overdue == waiting);
  }
}

}  // namespace
}  // namespace takt::internal
