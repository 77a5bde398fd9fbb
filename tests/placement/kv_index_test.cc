// The index of reported KV blocks, against a map of sets.
#include "takt/placement/books/kv_index.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

using Hashes = std::vector<std::uint64_t>;

Hashes Range(std::uint64_t first, std::uint64_t end) {
  Hashes hashes(end - first);
  std::iota(hashes.begin(), hashes.end(), first);
  return hashes;
}

// Runs of all instances that report, by slot.
std::map<std::uint32_t, std::size_t> RunsOf(const KvIndex& index, const Hashes& prompt, std::uint64_t salt = 0) {
  std::map<std::uint32_t, std::size_t> runs;
  index.Match(prompt, salt, [&](std::uint32_t slot, std::size_t run) { CHECK(runs.emplace(slot, run).second); });
  return runs;
}

// The same by sets. The oldest block is first.
struct Sets {
  struct Block {
    std::uint64_t hash = 0;
    std::set<std::uint32_t> held;
  };
  std::size_t most;
  std::map<std::uint32_t, std::list<Block>> groups;
  std::set<std::uint32_t> reporting;

  std::list<Block>& Of(std::uint32_t slot) { return groups[slot / 64]; }
  static auto At(std::list<Block>& blocks, std::uint64_t hash) { return std::ranges::find(blocks, hash, &Block::hash); }
  void Store(std::uint32_t slot, const Hashes& hashes) {
    reporting.insert(slot);
    std::list<Block>& blocks = Of(slot);
    for (auto hash = hashes.rbegin(); hash != hashes.rend(); ++hash) {
      const auto at = At(blocks, *hash);
      Block block = at != blocks.end() ? *at : Block{*hash, {}};
      if (at != blocks.end()) blocks.erase(at);
      if (blocks.size() == most) blocks.pop_front();
      block.held.insert(slot);
      blocks.push_back(block);
    }
  }
  void Remove(std::uint32_t slot, const Hashes& hashes) {
    reporting.insert(slot);
    for (const std::uint64_t hash : hashes) {
      if (const auto at = At(Of(slot), hash); at != Of(slot).end()) at->held.erase(slot);
    }
    Of(slot).remove_if([](const Block& block) { return block.held.empty(); });
  }
  void Clear(std::uint32_t slot) {
    reporting.insert(slot);
    for (Block& block : Of(slot)) block.held.erase(slot);
    Of(slot).remove_if([](const Block& block) { return block.held.empty(); });
  }
  void Use(const Hashes& hashes) {
    for (auto& [group, blocks] : groups) {
      for (auto hash = hashes.rbegin(); hash != hashes.rend(); ++hash) {
        if (const auto at = At(blocks, *hash); at != blocks.end()) blocks.splice(blocks.end(), blocks, at);
      }
    }
  }
  std::map<std::uint32_t, std::size_t> Runs(const Hashes& prompt) {
    std::map<std::uint32_t, std::size_t> runs;
    for (const std::uint32_t slot : reporting) {
      std::size_t run = 0;
      while (run < prompt.size()) {
        const auto at = At(Of(slot), prompt[run]);
        if (at == Of(slot).end() || !at->held.contains(slot)) break;
        ++run;
      }
      runs[slot] = run;
    }
    return runs;
  }
};

TEST_CASE("an index of blocks equals a map of sets") {
  constexpr std::uint32_t kSlots[] = {0, 1, 5, 63, 64, 200};
  for (std::uint64_t seed = 0; std::cmp_less(seed, Scaled(40)); ++seed) {
    Random random(seed);
    const std::size_t most = seed % 2 == 0 ? 12 : 100'000;
    KvIndex index(most);
    index.KeyHashes(seed);
    Sets sets{most, {}, {}};
    for (int n = 0; n < 400; ++n) {
      const std::uint32_t slot = kSlots[random.Below(6)];
      const std::uint64_t first = random.Below(20);
      Hashes hashes = Range(first, first + random.Below(12));
      if (random.Chance(0.2)) hashes.insert(hashes.end(), hashes.begin(), hashes.end());  // each twice
      switch (random.Below(12)) {
        case 0: index.Clear(slot), sets.Clear(slot); break;
        case 1:
          index.Forget(slot);
          if (sets.reporting.contains(slot)) sets.Clear(slot), sets.reporting.erase(slot);
          break;
        case 2: index.Use(hashes, 0), sets.Use(hashes); break;
        case 3:
        case 4:
        case 5: index.Remove(slot, hashes), sets.Remove(slot, hashes); break;
        default: index.Store(slot, hashes), sets.Store(slot, hashes);
      }
      const Hashes prompt = Range(first, first + 15);
      REQUIRE(RunsOf(index, prompt) == sets.Runs(prompt));
      std::size_t size = 0;
      for (const auto& [group, blocks] : sets.groups) {
        size += blocks.size();
        REQUIRE(blocks.size() <= most);
      }
      REQUIRE(index.size() == size);
      for (const std::uint32_t each : kSlots) {
        const auto held = std::ranges::count_if(sets.Of(each), [&](const auto& b) { return b.held.contains(each); });
        REQUIRE(index.blocks(each) == static_cast<std::size_t>(held));
        REQUIRE(index.Reports(each) == sets.reporting.contains(each));
      }
    }
  }
}

TEST_CASE("a full index keeps the blocks that were used last, and the first blocks of a report") {
  KvIndex index(8);
  index.Store(3, Range(0, 20));
  CHECK(index.size() == 8);
  CHECK(RunsOf(index, Range(0, 20)) == std::map<std::uint32_t, std::size_t>{{3, 8}});
  index.Use(Range(0, 4), 0);
  index.Store(3, Range(100, 104));
  CHECK(RunsOf(index, Range(0, 20))[3] == 4);
  CHECK(RunsOf(index, Range(100, 110))[3] == 4);
}

TEST_CASE("salts keep equal blocks apart") {
  KvIndex index;
  index.Store(0, Hashes{SaltedHash(1, 7), 2});
  CHECK(RunsOf(index, {1}, 7)[0] == 1);
  CHECK(RunsOf(index, {1})[0] == 0);
  CHECK(RunsOf(index, {2})[0] == 1);
}

TEST_CASE("an index stays within its bounds, whatever is reported") {
  KvIndex index(std::size_t{1} << 12);
  Hashes hashes(200'000);
  for (std::size_t i = 0; i < hashes.size(); ++i) hashes[i] = Mix64(i);
  index.Store(0, hashes);
  CHECK(index.size() == std::size_t{1} << 12);
  CHECK(index.blocks(0) == std::size_t{1} << 12);
  for (const std::uint32_t slot : {KvIndex::kMostInstances, UINT32_MAX}) {
    index.Store(slot, hashes), index.Remove(slot, hashes), index.Clear(slot), index.Forget(slot);
    CHECK(!index.Reports(slot));
    CHECK(index.blocks(slot) == 0);
  }
  index.Store(KvIndex::kMostInstances - 1, hashes);
  CHECK(index.Reports(KvIndex::kMostInstances - 1));
  index.Remove(7, hashes);
  CHECK(index.blocks(7) == 0);
  index.Clear(0);
  CHECK(index.blocks(0) == 0);
  KvIndex none(0);
  none.Store(1, hashes);
  CHECK(none.size() == 0);
}

TEST_CASE("an index allocates nothing after warm-up") {
  KvIndex index(512);
  Random random(2);
  Hashes hashes(64);
  const auto run = [&](int n) {
    for (int i = 0; i < n; ++i) {
      for (std::uint64_t& hash : hashes) hash = random.Below(5'000);
      const auto slot = static_cast<std::uint32_t>(random.Below(70));
      if (random.Chance(0.3)) index.Remove(slot, hashes);
      if (random.Chance(0.05)) index.Forget(slot);
      index.Store(slot, hashes);
      index.Use(hashes, 0);
      index.Match(hashes, 0, [](std::uint32_t, std::size_t) {});
    }
  };
  run(2'000);
  const std::size_t before = allocations;
  run(2'000);
  CHECK(allocations == before);
}

}  // namespace
}  // namespace takt
