// The block manager: holders, lookups, and that numbers survive a swap.
#include "kv_memory.h"

#include <deque>
#include <numeric>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"

namespace tiny {
namespace {

using takt::Blocks;
using takt::KvAction;
using takt::KvReservation;
using takt::RequestId;
using takt::Tokens;

constexpr std::size_t kFloats = 6;

std::vector<std::int32_t> Tokens4(std::int32_t from, std::int32_t n) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

takt::Request About(std::uint64_t id, const std::vector<std::int32_t>& prompt) {
  static std::deque<std::vector<std::uint64_t>> kept;
  std::vector<std::uint64_t>& hashes = kept.emplace_back();
  ExtendChain(hashes, prompt, 4);
  return {.id = {id}, .prompt_tokens = {static_cast<std::int32_t>(prompt.size())}, .prefix = {{4}, hashes}};
}

bool Reserve(KvMemory& kv, std::uint64_t id, std::int32_t have, std::int32_t want) {
  KvReservation wish{{id}, {have}, {want}, have == 0, false};
  kv.Reserve({1}, std::span(&wish, 1));
  return wish.granted;
}

Tokens Cached(KvMemory& kv, const takt::Request& request) {
  takt::KvHit hit{.request = &request};
  kv.CachedTokens({&hit, 1});
  return hit.tokens;
}

TEST_CASE("a chain names a block and all before it") {
  std::vector<std::uint64_t> a, b, c;
  ExtendChain(a, Tokens4(0, 11), 4);
  CHECK(a.size() == 2);
  std::vector<std::int32_t> other = Tokens4(0, 12);
  ExtendChain(b, other, 4);
  CHECK((b.size() == 3 && a[0] == b[0] && a[1] == b[1]));
  other[0] = 99;
  ExtendChain(c, other, 4);
  CHECK((c[0] != b[0] && c[1] != b[1] && c[2] != b[2]));
  ExtendChain(a, Tokens4(0, 12), 4);
  CHECK(a == b);
}

TEST_CASE("reservations are granted whole or not at all") {
  KvMemory kv(kFloats, {4}, {5}, {0}, true);
  CHECK(Reserve(kv, 1, 0, 12));
  CHECK(kv.free_blocks() == Blocks{2});
  CHECK_FALSE(Reserve(kv, 2, 0, 12));
  CHECK(kv.free_blocks() == Blocks{2});
  CHECK(kv.table({2}).empty());
  CHECK(Reserve(kv, 1, 12, 16));
  CHECK(kv.table({1}).size() == 4);
  std::vector<KvReservation> wishes = {{{1}, {16}, {20}, false, false}, {{3}, {0}, {4}, true, false}};
  kv.Reserve({2}, wishes);
  CHECK((wishes[0].granted && !wishes[1].granted));
  CHECK(kv.Release({1}, KvAction::kDrop) == Blocks{5});
  CHECK(kv.free_blocks() == Blocks{5});
  CHECK(kv.Inconsistency() == nullptr);
}

TEST_CASE("lookups find computed whole blocks, never the last token") {
  KvMemory kv(kFloats, {4}, {8}, {0}, true);
  const auto prompt = Tokens4(0, 12);
  REQUIRE(Reserve(kv, 1, 0, 12));
  CHECK(Cached(kv, About(2, prompt)) == Tokens{0});
  kv.Publish({1}, prompt, 7);
  CHECK(Cached(kv, About(2, prompt)) == Tokens{4});
  kv.Publish({1}, prompt, 12);
  CHECK(Cached(kv, About(2, prompt)) == Tokens{8});
  CHECK(Cached(kv, About(2, Tokens4(0, 13))) == Tokens{12});
  REQUIRE(Reserve(kv, 2, 0, 16));
  for (std::size_t i = 0; i < 3; ++i) CHECK(kv.table({1})[i] == kv.table({2})[i]);
  CHECK(kv.free_blocks() == Blocks{4});  // three are shared
  CHECK(kv.reused_tokens() == 12);
  kv.Release({1}, KvAction::kDrop);
  CHECK(kv.free_blocks() == Blocks{4});
  kv.Forget({2});
  CHECK(kv.free_blocks() == Blocks{8});
  CHECK(Cached(kv, About(3, prompt)) == Tokens{8});
  CHECK(Cached(kv, About(4, Tokens4(1, 12))) == Tokens{0});
  CHECK(kv.Inconsistency() == nullptr);
}

TEST_CASE("the least recently used prefix is evicted first, from its end") {
  KvMemory kv(kFloats, {4}, {4}, {0}, true);
  const auto old_one = Tokens4(0, 9), new_one = Tokens4(100, 9);
  for (std::uint64_t id : {1u, 2u}) {
    const auto& prompt = id == 1 ? old_one : new_one;
    REQUIRE(Reserve(kv, id, 0, 8));
    kv.Publish({id}, prompt, 8);
    kv.Forget({id});
  }
  CHECK(Cached(kv, About(3, old_one)) == Tokens{8});
  REQUIRE(Reserve(kv, 4, 0, 4));
  CHECK(kv.evicted_blocks() == 1);
  CHECK(Cached(kv, About(3, old_one)) == Tokens{4});
  CHECK(Cached(kv, About(3, new_one)) == Tokens{8});
}

TEST_CASE("a plan does not evict what it has promised") {
  KvMemory kv(kFloats, {4}, {4}, {0}, true);
  const auto prompt = Tokens4(0, 9);
  REQUIRE(Reserve(kv, 1, 0, 8));
  kv.Publish({1}, prompt, 8);
  const std::vector<std::int32_t> table(kv.table({1}).begin(), kv.table({1}).end());
  kv.Forget({1});
  CHECK(Cached(kv, About(2, prompt)) == Tokens{8});
  std::vector<KvReservation> wishes = {{{3}, {0}, {4}, true, false}, {{2}, {0}, {12}, true, false}};
  kv.Reserve({1}, wishes);
  CHECK((wishes[0].granted && wishes[1].granted));
  CHECK(kv.evicted_blocks() == 0);
  CHECK((kv.table({2})[0] == table[0] && kv.table({2})[1] == table[1]));
  CHECK(kv.Inconsistency() == nullptr);
}

TEST_CASE("numbers return unchanged from the second arena") {
  KvMemory kv(kFloats, {4}, {4}, {3}, true);
  REQUIRE(Reserve(kv, 1, 0, 12));
  const auto numbers = [&kv](std::uint64_t id, std::size_t block) {
    return kv.arena().subspan(static_cast<std::size_t>(kv.table({id})[block]) * kFloats, kFloats);
  };
  for (std::size_t b = 0; b < 3; ++b) std::ranges::fill(numbers(1, b), static_cast<float>(b + 1));
  kv.CopyOut({1}, {3});
  CHECK(kv.Release({1}, KvAction::kOut) == Blocks{3});
  CHECK((kv.swapped_out({1}) && kv.cpu_free() == Blocks{0}));
  REQUIRE(Reserve(kv, 2, 0, 16));
  std::ranges::fill(kv.arena(), -1.0f);
  kv.Forget({2});
  REQUIRE(Reserve(kv, 1, 0, 16));
  kv.CopyIn({1});
  for (std::size_t b = 0; b < 3; ++b) {
    for (float x : numbers(1, b)) CHECK(x == static_cast<float>(b + 1));
  }
  CHECK((!kv.swapped_out({1}) && kv.cpu_free() == Blocks{3}));
  kv.CopyOut({1}, {2});
  kv.Forget({1});
  CHECK((kv.cpu_free() == Blocks{3} && kv.free_blocks() == Blocks{4}));
  CHECK(kv.Inconsistency() == nullptr);
}

TEST_CASE("counts agree after any history") {
  takt::Random random(1);
  KvMemory kv(kFloats, {4}, {24}, {12}, true);
  std::vector<std::vector<std::int32_t>> prompts;
  for (int i = 0; i < 6; ++i) {
    prompts.push_back(Tokens4(i % 2, 20));
    prompts.back()[static_cast<std::size_t>(3 * i)] = 50;
  }
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t id = 1 + random.Below(6);
    const auto& prompt = prompts[id - 1];
    const auto held = static_cast<std::int32_t>(kv.table({id}).size());
    switch (random.Below(6)) {
      case 0:
        if (held == 0 && !kv.swapped_out({id})) Cached(kv, About(id, prompt));
        Reserve(kv, id, 4 * held,
                kv.swapped_out({id}) ? 20 : 4 * std::min(held + 1 + static_cast<std::int32_t>(random.Below(5)), 5));
        if (kv.swapped_out({id}) && !kv.table({id}).empty()) kv.CopyIn({id});
        break;
      case 1: kv.Publish({id}, prompt, random.Below(4 * static_cast<std::uint64_t>(held) + 1)); break;
      case 2:
        if (!kv.swapped_out({id})) kv.Release({id}, KvAction::kDrop);
        break;
      case 3:
        if (held > 0 && held <= kv.cpu_free().value && !kv.swapped_out({id})) {
          kv.CopyOut({id}, {held});
          kv.Release({id}, KvAction::kOut);
        }
        break;
      default: kv.Forget({id});
    }
    REQUIRE(kv.Inconsistency() == nullptr);
  }
  for (std::uint64_t id = 1; id <= 6; ++id) kv.Forget({id});
  CHECK((kv.free_blocks() == Blocks{24} && kv.cpu_free() == Blocks{12}));
}

}  // namespace
}  // namespace tiny
