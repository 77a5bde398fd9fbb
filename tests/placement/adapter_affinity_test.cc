// Adapters that a router remembers for each instance, and the placement that prefers instances which have them loaded.
#include <cstdint>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/placement/registry.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

constexpr TimePoint kNow = TimePoint(Duration(1'000'000'000));

struct Hosts {
  explicit Hosts(const std::string& placement, int instances = 2, std::int32_t max_adapters = 2)
      : router(*Router::Create({}, Fcfs{}, *MakePlacement(placement))) {
    for (int i = 1; i <= instances; ++i) Up(static_cast<std::uint64_t>(i), max_adapters);
  }
  void Up(std::uint64_t id, std::int32_t max_adapters) {
    router.On(InstanceUp{{.id = {id}, .max_adapters = max_adapters}}, kNow);
  }
  // Returns the instance that gets a request of 1,000 prompt and 1,000 output tokens.
  std::uint64_t Send(std::uint64_t id, std::uint64_t adapter) {
    router.On(
        Arrived{{.id = {id}, .adapter = {adapter}, .prompt_tokens = {1000}, .output_tokens = Estimate::Exact(1000)}},
        kNow);
    std::uint64_t place = 0;
    for (const Placement& p : router.Place(kNow)) place = p.instance.value;
    return place;
  }
  void End(std::uint64_t id) { router.On(RequestEnded{{id}, {}}, kNow); }
  std::vector<std::uint64_t> Loaded(std::size_t instance) {
    std::vector<std::uint64_t> ids;
    for (const AdapterId id : router.instances()[instance].adapters.all()) ids.push_back(id.value);
    return ids;
  }

  Router router;
};

using Ids = std::vector<std::uint64_t>;

TEST_CASE("a router remembers the adapters used last on each instance") {
  Hosts hosts("round_robin", 1, 2);
  hosts.Send(1, 0);
  CHECK(hosts.Loaded(0).empty());
  hosts.Send(2, 7);
  hosts.Send(3, 8);
  CHECK(hosts.Loaded(0) == Ids{8, 7});
  hosts.Send(4, 7);
  CHECK(hosts.Loaded(0) == Ids{7, 8});
  hosts.Send(5, 9);
  CHECK(hosts.Loaded(0) == Ids{9, 7});
  hosts.End(3);  // it has used its adapter until now
  CHECK(hosts.Loaded(0) == Ids{8, 9});
  hosts.Up(1, 1);  // a new description; the next use drops what no longer fits
  hosts.Send(6, 9);
  CHECK(hosts.Loaded(0) == Ids{9});
  hosts.router.On(InstanceDown{{1}}, kNow);
  hosts.Up(1, 2);
  CHECK(hosts.Loaded(0).empty());
}

TEST_CASE("an instance with an unknown number of adapters is taken to keep 32") {
  for (const std::int32_t most : {0, 32, 1000}) {
    LoadedAdapters loaded;
    for (std::uint64_t id = 1; id <= 40; ++id) loaded.Use({id}, most);
    CHECK(loaded.all().size() == 32);
    CHECK(loaded.Has({9}));
    CHECK_FALSE(loaded.Has({8}));
  }
}

TEST_CASE("an instance with a negative number of adapters is refused") {
  Hosts hosts("round_robin", 1);
  hosts.Up(2, -1);
  CHECK(hosts.router.stats().events_invalid == 1);
  CHECK(hosts.router.instances().size() == 1);
}

TEST_CASE("adapter_affinity adds the load to the outstanding tokens, as computed by hand") {
  Hosts hosts("adapter_affinity(load_tokens=3000)");
  CHECK(hosts.Send(1, 7) == 1);
  // 2,000 outstanding tokens against a load of 3,000.
  CHECK(hosts.Send(2, 7) == 1);
  // 4,000 against 3,000.
  CHECK(hosts.Send(3, 7) == 2);
  // Both have it: 4,000 against 2,000.
  CHECK(hosts.Send(4, 7) == 2);
  // Equally much, a load on either; then a request without an adapter goes to the least tokens.
  CHECK(hosts.Send(5, 8) == 1);
  CHECK(hosts.Send(6, 0) == 2);
  std::vector<InstanceId> ids{{1}, {2}};
  std::vector<double> scores(2);
  hosts.router.Score({.id = {99}, .adapter = {8}, .prompt_tokens = {1}}, ids, kNow, scores);
  CHECK(scores == std::vector<double>{-6000, -6000 - 3000});
  hosts.router.Score({.id = {99}, .prompt_tokens = {1}}, ids, kNow, scores);
  CHECK(scores == std::vector<double>{-6000, -6000});
}

TEST_CASE("adapter_affinity without a load is least_outstanding_tokens") {
  Hosts affinity("adapter_affinity(load_tokens=0)", 3), tokens("least_outstanding_tokens", 3);
  for (std::uint64_t id = 1; id <= 60; ++id) {
    CHECK(affinity.Send(id, id % 7) == tokens.Send(id, id % 7));
    if (id % 3 == 0) affinity.End(id - 2), tokens.End(id - 2);
  }
}

}  // namespace
}  // namespace takt
