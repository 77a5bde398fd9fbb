// The order of victims alone: lines by age, the scan by value, and walks over nodes without a cache.
#include "takt/turns/victim_order.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "catch.h"
#include "takt/turns/retention/lru.h"

namespace takt::internal {
namespace {

// No lists: the value is the time of the last use, reversed.
struct Newest {
  double Value(const Held& held, TimePoint) const { return -ToSeconds(held.since - TimePoint{}); }
};

struct Cache {
  explicit Cache(AnyRetention policy) : order(std::move(policy), {16}) { order.MakeRoom(256); }

  // A node of `chunks` one-block chunks, with no node before it. `loose`: a return is possible.
  Slot Add(std::int32_t chunks, std::uint64_t stamp, bool loose = true) {
    const Slot n = nodes.Take();
    nodes[n] = {};
    nodes[n].end = chunks, nodes[n].blocks = 1, nodes[n].loose = loose;
    nodes[n].stamp = stamp, nodes[n].used = TimePoint(FromSeconds(static_cast<double>(stamp)));
    order.Relist(view(), n);
    return n;
  }
  std::vector<std::pair<Slot, std::int32_t>> Walk(std::int32_t blocks) {
    std::vector<std::pair<Slot, std::int32_t>> runs;
    order.Walk(view(), blocks, {}, [&](const VictimOrder::Run& run) {
      runs.push_back({run.node, run.from - run.end});
      return true;
    });
    return runs;
  }
  CacheView view() { return {nodes, holdings}; }

  PrefixNodes nodes;
  HoldingTable holdings;
  VictimOrder order;
};

using Runs = std::vector<std::pair<Slot, std::int32_t>>;

TEST_CASE("a set of lines finds its first one") {
  LineSet set;
  CHECK(set.first() == kNoLine);
  for (const std::size_t i : {kAwaitedLine, std::size_t{70}, std::size_t{3}}) {
    set.Set(i);
    CHECK(set.first() == i);
  }
  set.Clear(3);
  CHECK_FALSE(set.Has(3));
  CHECK(set.first() == 70);
}

TEST_CASE("a walk takes dead nodes, then the longest unused, without changes") {
  Cache cache(Lru{});
  const Slot young = cache.Add(3, 9), old = cache.Add(3, 1), dead = cache.Add(1, 20, false);
  for (int i = 0; i < 2; ++i) {
    CHECK(cache.Walk(5) == Runs{{dead, 1}, {old, 3}, {young, 1}});
    CHECK(cache.Walk(100) == Runs{{dead, 1}, {old, 3}, {young, 3}});
  }
  cache.nodes[old].references = 1;
  cache.order.Relist(cache.view(), old);
  CHECK(cache.nodes[old].line == kNoLine);
  CHECK(cache.Walk(100) == Runs{{dead, 1}, {young, 3}});
}

TEST_CASE("a node becomes a candidate once all nodes behind it are taken") {
  Cache cache(Lru{});
  const Slot head = cache.Add(2, 1), a = cache.Add(3, 5), b = cache.Add(3, 7);
  for (const Slot n : {a, b}) {
    cache.nodes[n].parent = head, cache.nodes[n].first = 2;
    cache.nodes[n].end = 3;
    ++cache.nodes[head].children;
  }
  cache.order.Relist(cache.view(), head);
  CHECK(cache.Walk(100) == Runs{{a, 1}, {b, 1}, {head, 2}});
}

TEST_CASE("nodes far from both ends of a line still come in order") {
  Cache cache(Lru{});
  std::vector<Slot> by_age(200);
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t at = i * 73 % 200;
    by_age[at] = cache.Add(1, at + 1);
  }
  CHECK(std::ranges::any_of(by_age, [&](Slot n) { return cache.nodes[n].astray; }));
  const Runs runs = cache.Walk(200);
  REQUIRE(runs.size() == 200);
  for (std::size_t i = 0; i < 200; ++i) CHECK(runs[i].first == by_age[i]);
}

TEST_CASE("another policy relists all nodes, and one without lists uses values") {
  Cache cache(Lru{});
  const Slot old = cache.Add(1, 1), young = cache.Add(1, 9), middle = cache.Add(1, 5);
  CHECK(cache.Walk(3) == Runs{{old, 1}, {middle, 1}, {young, 1}});
  std::vector<Slot> all;
  cache.order.MakeRoomFor(Newest{}, 256);
  cache.order.SetPolicy(cache.view(), Newest{}, all);
  CHECK(cache.Walk(3) == Runs{{young, 1}, {middle, 1}, {old, 1}});
  const Slot newer = cache.Add(1, 20);  // the scan continues and includes it
  CHECK(cache.Walk(2) == Runs{{newer, 1}, {young, 1}});
  cache.order.Unlist(cache.nodes, newer);
  CHECK(cache.Walk(2) == Runs{{young, 1}, {middle, 1}});
}

TEST_CASE("pinned nodes go after all others, and awaited ones last") {
  Cache cache(Lru{});
  const Slot awaited = cache.Add(1, 1), pinned = cache.Add(1, 2), held = cache.Add(1, 3);
  cache.nodes[awaited].awaited = 1, cache.nodes[pinned].pinned = 1;
  for (const Slot n : {awaited, pinned}) cache.order.Relist(cache.view(), n);
  CHECK(cache.nodes[awaited].line == kAwaitedLine);
  CHECK(cache.nodes[pinned].line == kPinnedLine);
  CHECK(cache.Walk(3) == Runs{{held, 1}, {pinned, 1}, {awaited, 1}});
}

}  // namespace
}  // namespace takt::internal
