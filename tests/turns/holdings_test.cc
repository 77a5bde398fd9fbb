// Holdings against a shadow that keeps every chunk and scans all of them for every victim.
#include "takt/turns/holdings.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "turns/holdings_shadow.h"
#include "scale.h"
#include "takt/base/random.h"
#include "takt/turns/return_times.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lfu.h"
#include "takt/turns/retention/lru.h"
#include "takt/rivals/retention/tlru.h"
#include "takt/turns/retention/ttl.h"

namespace takt {
namespace {

using internal::Holdings;

const ReturnTimes& Times() {
  static const ReturnTimes times;
  return times;
}

// hold_value without lists: every candidate is scanned.
struct Exact {
  HoldValue held{.curves = &Times().curves()};
  double Value(const Held& h, TimePoint now) const { return held.Value(h, now); }
};

// A clairvoyant order: the workflow that returns last is evicted first. The times are random numbers.
struct Clairvoyant {
  double Value(const Held& h, TimePoint) const { return -static_cast<double>(Mix64(h.workflow.value) >> 40); }
};

// No lists, and an own value for awaited blocks.
struct ByClass {
  double Value(const Held& h, TimePoint now) const { return 1 / (1 + ToSeconds(now - h.since) + h.return_class); }
  double AwaitedValue(const Held& h) const { return 5.0 - h.return_class; }
};

// With lists, the tail is worth less than the blocks before it.
struct TailFirst {
  static constexpr std::size_t kLists = 3;
  std::size_t List(const Held& h) const { return h.tokens > 40'000 ? 0 : h.tokens > 20'000 ? 1 : 2; }
  double Value(const Held& h, TimePoint) const { return static_cast<double>(List(h)); }
};

struct Running {
  Hashes prompt;
  std::int32_t shared = 0;
  HeldTurn turn;
};

template <class Policy>
void Compare(const Policy& policy, std::uint64_t seed, std::int64_t steps, std::uint64_t workflows = 8) {
  Random random(seed);
  Holdings holdings(policy, {kBlockTokens});
  REQUIRE(holdings.policy().listed() == ListedRetention<Policy>);
  REQUIRE(holdings.policy().awaits() == AwaitedRetention<Policy>);
  holdings.KeyHashes(seed);
  Shadow<Policy> shadow{policy};
  shadow.most_of_one = 60, shadow.most_of_all = 150;
  holdings.BoundPins(shadow.most_of_one, shadow.most_of_all);
  std::vector<Running> running;
  std::map<Branch, Hashes> last;  // prompts
  std::vector<Hashes> heads;
  for (std::uint64_t i = 0; i < 3; ++i) heads.push_back(GoOn({}, 4 + 3 * i, 100 + i));
  double clock = 0;
  const auto any_branch = [&] { return Branch{1 + random.Below(workflows), random.Below(2)}; };
  for (std::int64_t step = 0; step < steps; ++step) {
    clock += random.Chance(0.3) ? 0 : random.LogNormal(1, 2);
    const TimePoint now = At(clock);
    CAPTURE(seed, step);
    if (random.Chance(0.1)) {  // a pin or an unpin
      const Branch branch = any_branch();
      const TimePoint until = random.Chance(0.2) ? kUnset : now + FromSeconds(random.LogNormal(3, 2));
      REQUIRE(holdings.Pin({branch.first}, branch.second, until) == shadow.Pin(branch, until));
    } else if (random.Chance(0.03)) {
      const Branch branch = any_branch();
      const auto return_class = static_cast<std::uint32_t>(random.Below(5));
      holdings.Touch({branch.first}, branch.second, return_class, now);
      if (shadow.records.contains(branch)) {
        ++shadow.stamp;
        shadow.records[branch].return_class = return_class;
        for (const std::uint64_t hash : shadow.records[branch].path) {
          shadow.chunks[hash].used = now, shadow.chunks[hash].stamp = shadow.stamp;
        }
      }
    }
    holdings.EndPins(now);
    for (auto& [branch, r] : shadow.records) {
      if (r.pinned_until <= now) r.pinned_until = kUnset;
    }
    const std::uint64_t what = random.Below(100);
    if (what < 30 && running.size() < 6) {  // a turn begins
      const Branch branch = any_branch();
      Hashes prompt = last[branch];
      if (prompt.empty() || random.Chance(0.05)) prompt = heads[random.Below(3)];
      if (random.Chance(0.3)) prompt.resize(random.Below(prompt.size() + 1));
      if (random.Chance(0.1)) prompt = last[any_branch()];
      const std::size_t more = random.Below(12);
      prompt = GoOn(std::move(prompt), more, random.Below(4));
      if (prompt.size() > 60) prompt.resize(60);
      const auto hit = holdings.Find(prompt, kBlocks);
      REQUIRE(hit.chunks == shadow.Find(prompt));
      std::int32_t idle = 0;
      for (std::int32_t i = 0; i < hit.chunks; ++i)
        idle += shadow.chunks[prompt[static_cast<std::size_t>(i)]].references == 0;
      REQUIRE(hit.idle == idle);
      const std::int32_t take = random.Chance(0.1) ? hit.chunks / 2 : hit.chunks;
      holdings.Acquire(First(prompt, take), kBlocks);
      for (const std::uint64_t hash : First(prompt, take)) ++shadow.chunks[hash].references;
      HeldTurn turn = {{branch.first}, branch.second, static_cast<std::uint32_t>(random.Below(5)), random.Chance(0.05)};
      if (random.Chance(0.1)) turn.workflow = {};
      turn.tenant = {branch.first % 3};
      if (random.Chance(0.2)) turn.pinned_until = now + FromSeconds(random.LogNormal(3, 2));
      last[branch] = prompt;
      running.push_back({std::move(prompt), take, turn});
    } else if (what < 60 && !running.empty()) {  // a chunk is computed
      Running& r = running[random.Below(running.size())];
      for (std::uint64_t more = random.Below(12); more > 0; --more) {
        if (r.shared == static_cast<std::int32_t>(r.prompt.size())) break;
        const std::uint64_t hash = r.prompt[static_cast<std::size_t>(r.shared)];
        const std::uint64_t before = r.shared == 0 ? 0 : r.prompt[static_cast<std::size_t>(r.shared - 1)];
        const bool fresh = !shadow.chunks.contains(hash) && (before == 0 || !shadow.chunks[before].spoiled);
        REQUIRE(holdings.Publish(First(r.prompt, r.shared + 1), kBlocks) == fresh);
        if (!fresh) break;
        shadow.chunks[hash] = {.before = before, .depth = r.shared, .references = 1};
        ++r.shared;
      }
    } else if (what < 80 && !running.empty()) {  // a turn ends
      const std::size_t i = random.Below(running.size());
      holdings.Release(First(running[i].prompt, running[i].shared), kBlocks, running[i].turn, now);
      shadow.Release(First(running[i].prompt, running[i].shared), running[i].turn, now);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (what < 86) {
      const Branch branch = any_branch();
      const bool awaited = random.Chance(0.5);
      holdings.Await({branch.first}, branch.second, awaited);
      if (shadow.records.contains(branch) && shadow.records[branch].awaited != awaited) {
        shadow.records[branch].awaited = awaited;
        shadow.records[branch].pinned_until = kUnset;
      }
    } else if (what < 89) {
      const Branch branch = any_branch();
      const auto return_class = static_cast<std::uint32_t>(random.Below(5));
      holdings.SetClass({branch.first}, branch.second, return_class);
      if (shadow.records.contains(branch)) shadow.records[branch].return_class = return_class;
    } else if (what < 91) {
      const Branch branch = any_branch();
      if (random.Chance(0.5)) {
        holdings.End({branch.first}, branch.second);
        shadow.End(branch);
      } else {
        holdings.End({branch.first});
        for (std::uint64_t b = 0; b < 2; ++b) shadow.End({branch.first, b});
      }
    } else if (what < 92 && !running.empty() && random.Chance(0.3)) {
      Running& r = running[random.Below(running.size())];
      if (r.shared > 0) {
        const auto first = static_cast<std::int32_t>(random.Below(static_cast<std::uint64_t>(r.shared)));
        holdings.Spoil(First(r.prompt, r.shared), first, kBlocks);
        shadow.Spoil(shadow.From(r.prompt[static_cast<std::size_t>(first)]));
      }
    } else if (what < 93 && random.Chance(0.05)) {
      holdings.SpoilAll();
      std::set<std::uint64_t> all;
      for (const auto& [hash, c] : shadow.chunks) all.insert(hash);
      shadow.Spoil(all);
    } else if (what >= 93) {  // eviction: first announced, then done
      const auto want = static_cast<std::int32_t>(1 + random.Below(40));
      std::int32_t announced = 0;
      double value = 0;
      // HeldVictim::value is exact if a block's value is linear in its depth. A step between two lists is not linear,
      // but only pinned and awaited blocks are taken across one.
      constexpr bool kSteps = std::same_as<Policy, TailFirst> || std::same_as<Policy, Tlru>;
      const bool exact = !kSteps || shadow.NothingKept();
      const std::int32_t found = holdings.Walk(want, now, [&](const auto& victim) {
        announced += victim.blocks;
        value += victim.value;
      });
      REQUIRE(announced == found);
      const auto loss = holdings.LossOf(want, now);
      REQUIRE(loss.blocks == found);
      REQUIRE(loss.value == value);
      holdings.dropped().clear();
      REQUIRE(holdings.Evict(want, now) == found);
      std::vector<DroppedPrefix> dropped;
      double sum = 0;
      for (std::int32_t n = 0; n < want; n += kBlocks) {
        const auto next = shadow.Next(now);
        if (!next) break;
        dropped.push_back({next->first, {kBlocks}});
        sum += next->second * kBlocks;
        shadow.Drop(next->first);
      }
      REQUIRE(holdings.dropped() == dropped);
      if (exact) REQUIRE(value == Approx(sum).margin(1e-9));
    }
    std::int32_t used = 0, idle = 0;
    for (const auto& [hash, c] : shadow.chunks) (c.references > 0 ? used : idle) += kBlocks;
    REQUIRE(holdings.referenced() == used);
    REQUIRE(holdings.idle() == idle);
    REQUIRE(holdings.chunks() == shadow.chunks.size());
    REQUIRE(holdings.holdings() == shadow.records.size());
    const Branch branch = any_branch();
    Holding expected;
    if (const auto r = shadow.records.find(branch); r != shadow.records.end()) {
      const auto& [path, return_class, uses, since, awaited, context, tenant, pinned_until, pinned] = r->second;
      const std::int32_t tokens = kBlocks * kBlockTokens;
      auto own = static_cast<std::int32_t>(path.size());
      while (own > 0 && shadow.chunks[path[static_cast<std::size_t>(own - 1)]].holders.size() == 1) --own;
      expected = {
          static_cast<std::int32_t>(path.size()) * tokens, own * tokens,          return_class, uses, since, awaited,
          shadow.chunks[path.back()].references > 0,       pinned_until != kUnset};
    }
    std::int32_t pinned = 0;
    for (const auto& [other, r] : shadow.records) pinned += r.pinned_until != kUnset ? r.pinned : 0;
    REQUIRE(holdings.pinned() == pinned);
    REQUIRE(holdings.Find({branch.first}, branch.second) == expected);
  }
}

TEST_CASE("a chunk that returned before the list was read is not listed") {
  Holdings holdings(Lru{}, {kBlockTokens});
  const std::vector<std::uint64_t> hashes = {1, 2};
  const auto publish = [&] {
    for (const std::size_t n : {1u, 2u}) REQUIRE(holdings.Publish(std::span(hashes).first(n), 1));
    holdings.Release(hashes, 1, {.workflow = {1}}, TimePoint{});
  };
  publish();
  REQUIRE(holdings.Evict(2, TimePoint{}) == 2);
  publish();
  CHECK(holdings.dropped().empty());
  REQUIRE(holdings.Evict(1, TimePoint{}) == 1);
  REQUIRE(holdings.dropped().size() == 1);
  CHECK(holdings.dropped()[0].hash == 2);
}

TEST_CASE("chunks, counts, holdings and victims equal the shadow's under random use") {
  const std::int64_t steps = Scaled(1'500);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Compare(Lru{}, seed, steps);
    Compare(Ttl{.seconds = 30}, 100 + seed, steps);
    Compare(Lfu{}, 200 + seed, steps);
    Compare(HoldValue{.curves = &Times().curves()}, 300 + seed, steps);
    Compare(HoldValue{}, 400 + seed, steps);
    Compare(Exact{}, 500 + seed, steps);
    Compare(Clairvoyant{}, 600 + seed, steps);
    Compare(ByClass{}, 1'200 + seed, steps);
    Compare(Tlru{.xi = 20'000, .next = 5'000}, 1'400 + seed, steps);
    Compare(TailFirst{}, 1'300 + seed, steps);
  }
}

TEST_CASE("hundreds of holdings that change lists equal the shadow's") {
  const std::int64_t steps = Scaled(2'000);
  Compare(Lru{}, 1'501, steps, 150);
  Compare(Lfu{}, 1'502, steps, 150);
  Compare(HoldValue{}, 1'503, steps, 150);
  Compare(Exact{}, 1'504, steps, 150);
  Compare(TailFirst{}, 1'505, steps, 150);
}

void Turn(Holdings& holdings, const Hashes& prompt, const HeldTurn& turn, double now) {
  const std::int32_t found = holdings.Find(prompt, 1).chunks;
  holdings.Acquire(First(prompt, found), 1);
  for (std::int32_t n = found; n < static_cast<std::int32_t>(prompt.size()); ++n) {
    REQUIRE(holdings.Publish(First(prompt, n + 1), 1));
  }
  holdings.Release(prompt, 1, turn, At(now));
}

TEST_CASE("a branch that a turn leaves behind is dead and evicted first") {
  Holdings holdings;
  const Hashes first = GoOn({}, 10, 1), other = GoOn({}, 5, 2),
               compacted = GoOn({first.begin(), first.begin() + 4}, 3, 3);
  Turn(holdings, other, {{2}}, 0);
  Turn(holdings, first, {{1}}, 1);
  Turn(holdings, compacted, {{1}}, 2);
  CHECK(holdings.idle() == 18);
  CHECK(holdings.Evict(6, At(3)) == 6);
  CHECK(holdings.Find(first, 1).chunks == 4);
  CHECK(holdings.Find(compacted, 1).chunks == 7);
  CHECK(holdings.Evict(2, At(3)) == 2);
  CHECK(holdings.Find(other, 1).chunks == 3);  // then the oldest, from its tail
  CHECK(holdings.Find({1}, 0).tokens == 7 * 16);
}

TEST_CASE("a shared head counts once, by its latest use") {
  Holdings holdings;
  const Hashes head = GoOn({}, 8, 1), a = GoOn(head, 4, 2), b = GoOn(head, 4, 3), lone = GoOn({}, 4, 4);
  Turn(holdings, a, {{1}}, 0);
  Turn(holdings, lone, {{3}}, 1);
  Turn(holdings, b, {{2}}, 2);
  CHECK(holdings.idle() == 20);
  CHECK(holdings.Find({1}, 0) == Holding{12 * 16, 8 * 16, 0, 1, At(0), false});
  CHECK(holdings.Evict(8, At(3)) == 8);  // a's tail, then the lone one: b's use kept the head young
  CHECK(holdings.Find(a, 1).chunks == 8);
  CHECK(holdings.Find(lone, 1).chunks == 0);
  CHECK(holdings.Evict(4, At(3)) == 4);
  CHECK(holdings.Find(head, 1).chunks == 8);
  holdings.End({2});
  CHECK(holdings.Find({1}, 0).own_from == 0);
  CHECK(holdings.Evict(100, At(3)) == 8);
  CHECK(holdings.holdings() == 0);
}

TEST_CASE("running requests' blocks stay, and waiting turns' blocks go last") {
  Holdings holdings;
  const Hashes a = GoOn({}, 6, 1), b = GoOn({}, 6, 2), c = GoOn({}, 6, 3);
  Turn(holdings, a, {{1}}, 0);
  Turn(holdings, b, {{2}}, 1);
  Turn(holdings, c, {{3}}, 2);
  holdings.Await({1}, 0, true);
  holdings.Acquire(First(b, 4), 1);
  CHECK(holdings.Evict(7, At(3)) == 7);
  CHECK(holdings.Find(b, 1).chunks == 4);
  CHECK(holdings.Find(c, 1).chunks == 1);
  CHECK(holdings.Find(a, 1).chunks == 6);
  CHECK(holdings.Evict(100, At(3)) == 7);
  CHECK(holdings.referenced() == 4);
  CHECK(holdings.idle() == 0);
}

TEST_CASE("equal hashes of two sizes, and hashes without a chain, are distinguished") {
  Holdings holdings;
  const Hashes a = {7, 8, 9};
  Turn(holdings, a, {{1}}, 0);
  CHECK(holdings.Find(a, 2).chunks == 0);
  CHECK(holdings.Publish(First(a, 1), 2));
  CHECK(holdings.referenced() == 2);
  holdings.Release(First(a, 1), 2, {{2}}, At(1));
  CHECK(holdings.Find(Hashes{7, 9, 8}, 1).chunks == 1);
  CHECK(holdings.Find(Hashes{1, 2, 9}, 1).chunks == 0);
  CHECK(holdings.Find(Hashes{}, 1).chunks == 0);
}

TEST_CASE("beyond the limit, holdings with the oldest last turns end") {
  constexpr std::uint64_t kMost = Holdings::kMostHoldings;
  Holdings holdings;
  const Hashes prompt = {1, 2};
  const auto turn = [&](std::uint64_t workflow, int at) {
    holdings.Acquire(First(prompt, holdings.Find(prompt, 1).chunks), 1);
    while (holdings.Find(prompt, 1).chunks < 2) holdings.Publish(First(prompt, holdings.Find(prompt, 1).chunks + 1), 1);
    holdings.Release(prompt, 1, {{workflow}, 0, 0}, At(at));
  };
  for (std::uint64_t i = 1; i <= kMost; ++i) turn(i, 1);
  CHECK(holdings.holdings() == kMost);
  turn(1, 2);
  holdings.Await({3}, 0, true, At(2));
  for (std::uint64_t i = 1; i <= 3; ++i) turn(kMost + i, 3);
  CHECK(holdings.holdings() == kMost);
  CHECK(holdings.Find({1}, 0).tokens == 32);
  for (std::uint64_t gone = 2; gone <= 4; ++gone) CHECK(holdings.Find({gone}, 0).tokens == 0);
  CHECK(holdings.Find({5}, 0).tokens == 32);
  holdings.Await({3}, 0, false);
  CHECK(holdings.idle() == 2);
  CHECK(holdings.Evict(2, At(4)) == 2);
  CHECK(holdings.holdings() == 0);
}

TEST_CASE("a flood of names ends own holdings and no other tenant's pin") {
  constexpr std::uint64_t kMost = Holdings::kMostHoldings;
  using Name = HeldTurn (*)(std::uint64_t);
  for (const Name name : {Name([](std::uint64_t i) { return HeldTurn{.workflow = {9}, .branch = i, .tenant = {9}}; }),
                          Name([](std::uint64_t i) { return HeldTurn{.workflow = {9 + i}, .tenant = {9}}; }),
                          Name([](std::uint64_t i) { return HeldTurn{.workflow = {9 + i}, .tenant = {9 + i}}; }),
                          Name([](std::uint64_t i) { return HeldTurn{.workflow = {9}, .branch = i}; }),
                          Name([](std::uint64_t i) { return HeldTurn{.workflow = {9 + i}}; })}) {
    Holdings holdings;
    holdings.BoundPins(100, 200);
    const auto turn = [&](std::uint64_t hash, HeldTurn of, double at) {
      const Hashes prompt = {hash};
      const std::int32_t found = holdings.Find(prompt, 1).chunks;
      holdings.Acquire(First(prompt, found), 1);
      if (found == 0) holdings.Publish(prompt, 1);
      holdings.Release(prompt, 1, of, At(at));
    };
    for (const double at : {0.0, 1.0}) {
      turn(1, {.workflow = {1}, .tenant = {1}, .pinned_until = At(100)}, at);
      turn(2, {.workflow = {2}, .tenant = {1}}, at);
    }
    for (std::uint64_t i = 0; i < kMost + 1'000; ++i) {
      HeldTurn of = name(i);
      if (i < 10) of.pinned_until = At(100);
      turn(100 + i, of, 2);
    }
    CHECK(holdings.holdings() == kMost);
    CHECK(holdings.crowded_out() == 1'002);
    CHECK(holdings.pins_crowded_out() == 0);
    CHECK(holdings.pins() == 11);
    CHECK(holdings.Find({1}, 0).pinned);
    CHECK(holdings.Find({2}, 0).tokens == 16);
  }
}

TEST_CASE("a tenant that holds only pins loses its oldest, counted") {
  Holdings holdings;
  holdings.BoundPins(100, 200);
  holdings.BoundHoldings(4);
  for (std::uint64_t i = 1; i <= 6; ++i) {
    const Hashes prompt = {i};
    holdings.Acquire({}, 1);
    holdings.Publish(prompt, 1);
    holdings.Release(prompt, 1, {.workflow = {i}, .tenant = {1}, .pinned_until = At(100)}, At(0));
  }
  CHECK(holdings.holdings() == 4);
  CHECK(holdings.crowded_out() == 2);
  CHECK(holdings.pins_crowded_out() == 2);
  CHECK(holdings.pins() == 4);
  CHECK_FALSE(holdings.Find({1}, 0).pinned);
  CHECK(holdings.Find({3}, 0).pinned);
}

TEST_CASE("holdings allocate nothing after they have had room") {
  constexpr std::size_t kFlows = 40;
  Random random(3);
  Holdings holdings(HoldValue{.curves = &Times().curves()});
  holdings.MakeRoom(6'000);
  holdings.MakeRoomToHold(2 * kFlows);
  holdings.dropped().reserve(200'000);
  std::vector<Hashes> prompts(kFlows);
  for (Hashes& prompt : prompts) prompt.reserve(512);
  std::int32_t gone = 0;
  const std::size_t before = allocations;
  for (int step = 0; step < 3'000; ++step) {
    const std::uint64_t flow = random.Below(kFlows);
    Hashes& prompt = prompts[flow];
    if (prompt.size() > 120 || random.Chance(0.05)) prompt.resize(random.Below(prompt.size() + 1));
    const std::uint64_t of = prompt.size() < 20 ? 1 : 1'000 * flow + static_cast<std::uint64_t>(step);
    for (std::uint64_t more = 1 + random.Below(20); more > 0; --more) {
      prompt.push_back(Mix64((prompt.empty() ? 0 : prompt.back()) ^ Mix64(of)));
    }
    const auto n = static_cast<std::int32_t>(prompt.size());
    std::int32_t found = holdings.Find(prompt, 1).chunks;
    holdings.Acquire(First(prompt, found), 1);
    const std::int32_t over = holdings.referenced() + holdings.idle() + n - found - 3'000;
    if (over > 0) gone += holdings.Evict(over, At(step));
    while (found < n && holdings.Publish(First(prompt, found + 1), 1)) ++found;
    holdings.Release(First(prompt, found), 1, {{1 + flow}, 0, static_cast<std::uint32_t>(random.Below(4))}, At(step));
    if (random.Chance(0.01)) holdings.End({1 + random.Below(kFlows)});
  }
  CHECK(allocations == before);
  CHECK(gone > 5'000);
}

}  // namespace
}  // namespace takt
