// KV memory by count, against a shadow that lists every chunk.
#include "takt/kv/kv_ledger.h"

#include <algorithm>
#include <cstdint>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

using Hashes = std::vector<std::uint64_t>;

internal::KvLedger Ledger(std::int32_t blocks, bool prefixes = true) { return {{blocks}, {16}, {10}, prefixes}; }

TEST_CASE("blocks are used or free, on the GPU and in the host") {
  internal::KvLedger ledger = Ledger(20);
  CHECK(ledger.total() == 20);
  CHECK(ledger.block_tokens() == 16);
  ledger.Allocate(7);
  ledger.AllocateCpu(4);
  CHECK(ledger.use() == KvUse{{20}, {7}, {13}, {0}, {0}, {10}, {4}});
  CHECK(ledger.cpu_free() == 6);
  ledger.Free(3);
  ledger.FreeCpu(1);
  CHECK(ledger.use() == KvUse{{20}, {4}, {16}, {0}, {0}, {10}, {3}});
  ledger.Allocate(16);
  CHECK(ledger.free() == 0);
}

TEST_CASE("a prefix is shared if enabled and cut into whole blocks") {
  const internal::KvLedger ledger = Ledger(20), none = Ledger(20, false);
  const auto blocks = [](const internal::KvLedger& of, std::int32_t tokens) {
    const std::uint64_t hash = 1;
    return of.ChunkBlocks({{tokens}, {&hash, 1}});
  };
  CHECK(blocks(ledger, 16) == 1);
  CHECK(blocks(ledger, 64) == 4);
  CHECK(blocks(ledger, 24) == 0);
  CHECK(blocks(ledger, 0) == 0);
  CHECK(blocks(ledger, -16) == 0);
  CHECK(blocks(none, 16) == 0);
  CHECK(ledger.ChunkBlocks({}) == 0);
}

TEST_CASE("the oldest idle chunk is evicted first, deepest before its parents") {
  internal::KvLedger ledger = Ledger(6);
  ledger.Allocate(6);
  for (const Hashes& hashes : {Hashes{1}, Hashes{1, 2}, Hashes{1, 2, 3}}) REQUIRE(ledger.Publish(hashes, 2));
  CHECK_FALSE(ledger.Publish(Hashes{1, 2}, 2));
  ledger.Release(Hashes{1, 2, 3}, 2);
  CHECK(ledger.use() == KvUse{{6}, {0}, {6}, {6}, {0}, {10}, {0}});
  CHECK(ledger.Find(Hashes{1, 2, 3}, 2).chunks == 3);
  ledger.Allocate(1);
  CHECK(ledger.Find(Hashes{1, 2, 3}, 2).chunks == 2);
  CHECK(ledger.use().cached == Blocks{4});
  ledger.Acquire(Hashes{1}, 2);
  CHECK(ledger.Find(Hashes{1, 2}, 2).idle == 1);
  ledger.Allocate(2);
  CHECK(ledger.Find(Hashes{1, 2}, 2).chunks == 1);
  CHECK(ledger.use() == KvUse{{6}, {5}, {1}, {0}, {0}, {10}, {0}});
}

// A shadow: published chunks, their users, and idle times.
struct Shadow {
  struct Chunk {
    std::int32_t references = 0;
  };
  using Name = std::pair<std::uint64_t, std::int32_t>;  // hash and size
  std::map<Name, Chunk> chunks;
  std::list<Name> idle;  // longest idle first

  std::int32_t Blocks(bool idle_ones) const {
    std::int32_t blocks = 0;
    for (const auto& [name, chunk] : chunks) blocks += (chunk.references == 0) == idle_ones ? name.second : 0;
    return blocks;
  }
};

TEST_CASE("the ledger agrees with a list of chunks under random use") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(50)); ++seed) {
    Random random(seed);
    constexpr std::int32_t kTotal = 40;
    internal::KvLedger ledger = Ledger(kTotal);
    Shadow shadow;
    std::int32_t own = 0;  // private blocks
    std::vector<std::pair<Hashes, std::int32_t>> holders;
    for (int step = 0; step < 1000; ++step) {
      const std::int32_t size = random.Chance(0.5) ? 1 : 3;
      Hashes hashes;
      for (std::uint64_t n = 1 + random.Below(4), of = random.Below(3); hashes.size() < n;) {
        hashes.push_back(100 * of + hashes.size());
      }
      switch (random.Below(4)) {
        case 0: {  // cached chunks are referred to, the rest is computed and published
          std::size_t found = 0;
          std::int32_t idle = 0;
          while (found < hashes.size() && shadow.chunks.contains({hashes[found], size})) {
            idle += shadow.chunks.at({hashes[found++], size}).references == 0 ? 1 : 0;
          }
          const internal::PrefixHit hit = ledger.Find(hashes, size);
          REQUIRE(hit.chunks == static_cast<std::int32_t>(found));
          REQUIRE(hit.idle == idle);
          const auto rest = static_cast<std::int32_t>(hashes.size() - found) * size;
          if (own + shadow.Blocks(false) + idle * size + rest > kTotal) break;
          const Hashes there(hashes.begin(), hashes.begin() + static_cast<std::ptrdiff_t>(found));
          ledger.Acquire(there, size);
          for (const std::uint64_t hash : there) {
            if (shadow.chunks[{hash, size}].references++ == 0) shadow.idle.remove({hash, size});
          }
          ledger.Allocate(rest);
          own += rest;
          while (kTotal - own - shadow.Blocks(false) < shadow.Blocks(true)) {
            shadow.chunks.erase(shadow.idle.front());
            shadow.idle.pop_front();
          }
          Hashes mine = there;
          for (std::size_t n = found; n < hashes.size(); ++n) {
            const bool is_new = !shadow.chunks.contains({hashes[n], size});
            REQUIRE(ledger.Publish(std::span(hashes).first(n + 1), size) == is_new);
            if (!is_new) break;
            shadow.chunks[{hashes[n], size}].references = 1;
            own -= size;
            mine.push_back(hashes[n]);
          }
          holders.emplace_back(mine, size);
          break;
        }
        case 1:
        case 2: {
          if (holders.empty()) break;
          std::swap(holders[random.Below(holders.size())], holders.back());
          const auto [mine, of] = holders.back();
          holders.pop_back();
          ledger.Release(mine, of);
          for (std::size_t n = mine.size(); n-- > 0;) {
            if (--shadow.chunks[{mine[n], of}].references == 0) shadow.idle.push_back({mine[n], of});
          }
          break;
        }
        default:
          if (own > 0) {
            const auto blocks = static_cast<std::int32_t>(1 + random.Below(static_cast<std::uint64_t>(own)));
            ledger.Free(blocks);
            own -= blocks;
          }
      }
      REQUIRE(ledger.use() == KvUse{{kTotal},
                                    {own + shadow.Blocks(false)},
                                    {kTotal - own - shadow.Blocks(false)},
                                    {shadow.Blocks(true)},
                                    {0},
                                    {10},
                                    {0}});
    }
  }
}

}  // namespace
}  // namespace takt
