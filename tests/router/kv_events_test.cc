// Reports of KV blocks in a router: cached tokens are those of the reports, and estimates otherwise.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "catch.h"
#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/inbox.h"
#include "takt/placement/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"
#include "with_rivals.h"

namespace takt {
namespace {

constexpr std::int32_t kBlock = 16;

TimePoint At(std::int64_t seconds) { return TimePoint{} + std::chrono::seconds(seconds); }

std::vector<std::uint64_t> Blocks(std::uint64_t first, std::size_t n) {
  std::vector<std::uint64_t> hashes(n);
  std::iota(hashes.begin(), hashes.end(), first);
  return hashes;
}

struct Fleet {
  explicit Fleet(const std::string& placement, std::uint64_t instances = 3)
      : router(*Router::Create({}, Fcfs{}, *MakePlacement(placement))) {
    for (std::uint64_t i = 1; i <= instances; ++i) router.On(InstanceUp{{.id = {i}, .kv_tokens = {100'000}}}, At(now));
  }
  static Request Prompt(std::uint64_t id, std::uint64_t workflow, const std::vector<std::uint64_t>& hashes) {
    Request r{.id = {id}, .workflow = {workflow}};
    r.prompt_tokens = {static_cast<std::int32_t>(hashes.size()) * kBlock + 1};
    r.prefix = {{kBlock}, hashes};
    return r;
  }
  // Places a request, which then ends. Returns its instance.
  std::uint64_t Turn(std::uint64_t workflow, const std::vector<std::uint64_t>& hashes) {
    const std::uint64_t id = ++last_id;
    router.On(Arrived{Prompt(id, workflow, hashes)}, At(++now));
    router.Place(At(now));
    const InstanceId place = router.InstanceOf({id});
    router.On(RequestEnded{{id}, place}, At(now));
    return place.value;
  }
  // Score of an instance; with `prefix` and no other requests, cached tokens.
  double Score(const Request& r, std::uint64_t instance) {
    const InstanceId ids[] = {{instance}};
    double scores[1] = {};
    router.Score(r, ids, At(now), scores);
    return scores[0];
  }

  Router router;
  std::int64_t now = 0;
  std::uint64_t last_id = 0;
};

TEST_CASE("a turn goes to the instance that has its blocks, although the estimate has another") {
  for (const char* placement : {"prefix", "session", "cached_cost"}) {
    CAPTURE(placement);
    Fleet fleet(placement);
    const auto hashes = Blocks(1, 100);
    const std::uint64_t home = fleet.Turn(7, hashes), other = home % 3 + 1;
    CHECK(fleet.Turn(7, hashes) == home);
    fleet.router.On(KvCleared{{home}}, At(fleet.now));  // its cache lost them
    fleet.router.On(KvStored{{other}, hashes}, At(fleet.now));  // another got them, for example by a transfer
    CHECK(fleet.Turn(7, hashes) == other);
    CHECK(fleet.router.stats().faults() == 0);
  }
}

TEST_CASE("cached tokens are the longest run of leading blocks") {
  Fleet fleet("prefix");
  const auto hashes = Blocks(1, 10);
  const Request r = Fleet::Prompt(99, 7, hashes);
  CHECK(fleet.Score(r, 1) == 0);
  fleet.router.On(KvStored{{1}, Blocks(2, 9)}, At(0));  // without the first
  CHECK(fleet.Score(r, 1) == 0);
  fleet.router.On(KvStored{{1}, Blocks(1, 1)}, At(0));
  CHECK(fleet.Score(r, 1) == 10 * kBlock);
  fleet.router.On(KvRemoved{{1}, Blocks(4, 1)}, At(0));
  CHECK(fleet.Score(r, 1) == 3 * kBlock);
  fleet.router.On(KvStored{{1}, Blocks(4, 1)}, At(0));
  Request full = r;
  full.prompt_tokens = {10 * kBlock};  // at least one token is computed
  CHECK(fleet.Score(full, 1) == 9 * kBlock);
  Request absurd = r;
  for (const std::int32_t tokens : {0, -1, INT32_MIN, INT32_MAX}) {
    absurd.prefix.block_tokens = {tokens};
    CHECK(fleet.Score(absurd, 1) == 0);
  }
  Request salted = r;
  salted.salt = 5;
  CHECK(fleet.Score(salted, 1) == 0);
  fleet.router.On(KvCleared{{1}}, At(0));
  CHECK(fleet.Score(r, 1) == 0);
  CHECK(fleet.router.stats().faults() == 0);
}

TEST_CASE("an instance that never reported, and tokens without hashes, are estimated") {
  Fleet fleet("prefix", 2);
  const auto hashes = Blocks(1, 20);
  const std::uint64_t home = fleet.Turn(7, hashes), other = 3 - home;
  const Request r = Fleet::Prompt(99, 7, hashes);
  CHECK(fleet.Score(r, home) == 20 * kBlock);
  fleet.router.On(KvStored{{other}}, At(fleet.now));  // the other one reports
  CHECK(fleet.Score(r, home) == 20 * kBlock);
  CHECK(fleet.Score(r, other) == 0);
  fleet.router.On(KvStored{{home}, Blocks(1, 5)}, At(fleet.now));
  CHECK(fleet.Score(r, home) == 5 * kBlock);
  Request plain = r;
  plain.prefix = {};
  CHECK(fleet.Score(plain, home) == 20 * kBlock);
  Request part = r;
  const auto first = Blocks(1, 5);
  part.prefix.hashes = first;  // all of its hashes are there
  CHECK(fleet.Score(part, home) == 20 * kBlock);
}

TEST_CASE("reports of unknown instances and former lives change nothing") {
  Fleet fleet("prefix", 1);
  const auto hashes = Blocks(1, 10);
  const Request r = Fleet::Prompt(99, 7, hashes);
  Router& router = fleet.router;
  const std::uint64_t life = router.instances()[0].instance.life;
  router.On(KvStored{{1}, hashes, life}, At(0));
  CHECK(fleet.Score(r, 1) == 10 * kBlock);
  router.On(InstanceUp{{.id = {1}, .kv_tokens = {100'000}, .life = life + 1}}, At(0));  // restarts
  CHECK(fleet.Score(r, 1) == 0);
  router.On(KvStored{{1}, hashes, life}, At(0));
  CHECK(router.stats().reported_late == 1);
  CHECK(fleet.Score(r, 1) == 0);
  router.On(KvStored{{1}, hashes, life + 1}, At(0));
  router.On(KvRemoved{{1}, hashes, life}, At(0));
  router.On(KvCleared{{1}, life}, At(0));
  CHECK(router.stats().reported_late == 3);
  CHECK(fleet.Score(r, 1) == 10 * kBlock);
  const std::uint64_t before = router.stats().events_unknown;
  router.On(KvStored{{9}, hashes}, At(0));
  router.On(KvRemoved{{}, hashes}, At(0));
  router.On(KvCleared{{1}, life + 5}, At(0));
  CHECK(router.stats().events_unknown == before + 3);
  CHECK(fleet.Score(r, 1) == 10 * kBlock);
  router.On(InstanceDown{{1}}, At(0));
  router.On(KvStored{{1}, hashes}, At(0));
  CHECK(router.stats().events_unknown == before + 4);
  router.On(InstanceUp{{.id = {1}, .kv_tokens = {100'000}}}, At(0));
  CHECK(fleet.Score(r, 1) == 0);
}

TEST_CASE("a decode instance that has the prompt's blocks runs the whole request") {
  RouterOptions options;
  options.local_tokens = kBlock;
  options.local_if_sooner = false;
  Router router = *Router::Create(options, Fcfs{}, *MakePlacement("prefix"));
  router.On(InstanceUp{{.id = {1}, .role = InstanceRole::kPrefill}}, At(0));
  router.On(InstanceUp{{.id = {2}, .role = InstanceRole::kDecode}}, At(0));
  const auto hashes = Blocks(1, 10);
  router.On(Arrived{Fleet::Prompt(1, 7, hashes)}, At(0));
  router.Place(At(0));
  CHECK(router.InstanceOf({1}) == InstanceId{1});
  router.On(KvStored{{2}, hashes}, At(0));
  router.On(Arrived{Fleet::Prompt(2, 8, hashes)}, At(0));
  router.Place(At(0));
  CHECK(router.InstanceOf({2}) == InstanceId{2});
}

TEST_CASE("an inbox passes reports with their hashes") {
  Fleet fleet("prefix", 1);
  RouterInbox inbox;
  const auto hashes = std::make_shared<const std::vector<std::uint64_t>>(Blocks(1, 10));
  CHECK(inbox.Push(KvStored{{1}, *hashes}, hashes) == Pushed::kFirst);
  inbox.Drain([&](const RouterEvent& event) { fleet.router.On(event, At(0)); });
  CHECK(fleet.Score(Fleet::Prompt(99, 7, *hashes), 1) == 10 * kBlock);
}

TEST_CASE("a router with reports of KV allocates nothing after warm-up") {
  for (const char* placement : {"prefix", "session", "cached_cost", "lmetric"}) {
    CAPTURE(placement);
    Fleet fleet(placement);
    const auto hashes = Blocks(1, 400);
    const auto run = [&](std::uint64_t n, std::uint64_t seed) {
      Random random(seed);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::size_t first = random.Below(300);
        const std::span<const std::uint64_t> some = std::span(hashes).subspan(first, random.Below(100));
        const InstanceId instance{1 + random.Below(3)};
        if (random.Chance(0.02)) fleet.router.On(KvCleared{instance}, At(fleet.now));
        if (random.Chance(0.02)) fleet.router.On(InstanceDown{instance}, At(fleet.now));
        fleet.router.On(InstanceUp{{.id = instance, .kv_tokens = {100'000}}}, At(fleet.now));
        fleet.router.On(KvStored{instance, some}, At(fleet.now));
        fleet.router.On(KvRemoved{instance, some.first(some.size() / 2)}, At(fleet.now));
        const std::uint64_t id = ++fleet.last_id;
        Request r{.id = {id}, .workflow = {1 + random.Below(20)}, .prompt_tokens = {6401}};
        r.prefix = {{kBlock}, hashes};
        fleet.router.On(Arrived{r}, At(fleet.now));
        fleet.router.Place(At(++fleet.now));
        fleet.router.On(RequestEnded{{id}, fleet.router.InstanceOf({id})}, At(fleet.now));
      }
    };
    run(3'000, 1);
    const std::size_t before = allocations;
    run(1'000, 2);
    CHECK(allocations == before);
  }
}

}  // namespace
}  // namespace takt
