// Compares records of branches with a map, and tests the effect of a flood of names on other branches.
#include "takt/base/branch_table.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

struct Entry : BranchRecord {
  int value = 0;
};
// Most names share a hash.
struct BadHash {
  std::uint64_t key = 0;
  std::uint64_t operator()(WorkflowId workflow, std::uint64_t branch) const { return (workflow.value + branch) % 3; }
};

template <class Table>
void CompareWithMap(std::uint64_t seed) {
  Random random(seed);
  Table table;
  table.KeyHashes(seed);
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> map;
  for (std::int64_t step = 0; step < Scaled(3'000); ++step) {
    CAPTURE(seed, step);
    const std::uint64_t w = random.Below(6), b = random.Below(8), what = random.Below(10);
    const TenantId tenant{random.Below(3)};
    const Slot i = table.Find({w}, b);
    REQUIRE((i != kNoSlot) == map.contains({w, b}));
    if (i == kNoSlot) {
      if (what < 5) table.Insert({{{{w}, b, tenant}}, map[{w, b}] = static_cast<int>(step)});
      continue;
    }
    REQUIRE(table[i].value == map[{w, b}]);
    if (what < 3) {
      table.Erase(i);
      map.erase({w, b});
    } else if (what < 6) {
      table.Returned({{w}, b, tenant});
      table.Use(i, tenant);
    } else if (what < 8) {
      table.Keep(i, random.Chance(0.5));
    }
    REQUIRE(table.size() == map.size());
    std::vector<std::pair<std::uint64_t, int>> branches, expected;
    table.ForEachBranch({w}, [&](Slot each) { branches.emplace_back(table[each].name.branch, table[each].value); });
    for (const auto& [name, value] : map) {
      if (name.first == w) expected.emplace_back(name.second, value);
    }
    std::ranges::sort(branches);
    REQUIRE(branches == expected);
    const Slot crowded = table.Crowded();
    REQUIRE((crowded == kNoSlot) == map.empty());
    if (crowded != kNoSlot) REQUIRE(table.Has(crowded));
  }
}

TEST_CASE("names are compared in full even if their hashes collide") {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CompareWithMap<BranchTable<Entry>>(seed);
    CompareWithMap<BranchTable<Entry, BadHash>>(seed);
  }
}

// A full table in which tenant 1 and workflow 2, which has no tenant, have returned.
struct Crowd {
  static constexpr std::size_t kMost = 1'000;
  BranchTable<Entry> table;

  Crowd() {
    for (std::uint64_t branch = 0; branch < 20; ++branch) Turn({{1}, branch, {1}}), Turn({{2}, branch, {}});
    for (std::uint64_t branch = 0; branch < 20; ++branch) Turn({{1}, branch, {1}}), Turn({{2}, branch, {}});
    table.Keep(table.Find({1}, 3), true);
  }
  void Turn(const BranchName& name) {
    if (const Slot i = table.Find(name.workflow, name.branch); i != kNoSlot) {
      table.Returned(name);
      table.Use(i, name.tenant);
      return;
    }
    if (table.size() >= kMost) table.Erase(table.Crowded());
    table.Insert({{name}});
  }
  void CheckOthers() const {
    CHECK(table.size() == kMost);
    for (std::uint64_t branch = 0; branch < 20; ++branch) {
      CAPTURE(branch);
      CHECK(table.Find({1}, branch) != kNoSlot);
      CHECK(table.Find({2}, branch) != kNoSlot);
    }
  }
};

TEST_CASE("a flood evicts its own branches, workflows and tenants") {
  for (const bool returns : {false, true}) {
    CAPTURE(returns);
    const auto flood = [&](auto&& name) {
      Crowd crowd;
      for (std::uint64_t i = 0; i < 3 * Crowd::kMost; ++i) {
        crowd.Turn(name(i));
        if (returns) crowd.Turn(name(i));
        if (i % 50 == 0) crowd.Turn({{1}, i / 50 % 20, {1}}), crowd.Turn({{2}, i / 50 % 20, {}});
      }
      crowd.CheckOthers();
    };
    flood([](std::uint64_t i) { return BranchName{{9}, i, {9}}; });
    flood([](std::uint64_t i) { return BranchName{{9 + i}, 0, {9}}; });
    flood([](std::uint64_t i) { return BranchName{{9}, i, {}}; });
    flood([](std::uint64_t i) { return BranchName{{9 + i}, 0, {}}; });
    flood([](std::uint64_t i) { return BranchName{{9 + i}, 0, {9 + i}}; });
  }
}

TEST_CASE("the largest share's oldest is evicted first, and kept ones last") {
  BranchTable<Entry> table;
  for (std::uint64_t branch = 0; branch < 5; ++branch) table.Insert({{{{7}, branch}}});
  table.Keep(table.Find({7}, 0), true), table.Keep(table.Find({7}, 1), true), table.Keep(table.Find({7}, 1), false);
  std::vector<std::uint64_t> order;
  for (Slot i; (i = table.Crowded()) != kNoSlot; table.Erase(i)) order.push_back(table[i].name.branch);
  CHECK(order == std::vector<std::uint64_t>{2, 3, 4, 1, 0});
}

}  // namespace
}  // namespace takt
