// What holds for every placement policy, and what each one promises.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/registry.h"
#include "takt/placement/round_robin.h"

namespace takt {
namespace {

InstanceState RandomInstance(Random& random) {
  InstanceState i;
  i.instance.id = {1 + random.Below(1000)};
  i.report.waiting = static_cast<std::int64_t>(random.Below(100));
  i.report.running = static_cast<std::int64_t>(random.Below(100));
  i.reported = random.Chance(0.5);
  i.outstanding = static_cast<std::int64_t>(random.Below(200));
  i.since_report = static_cast<std::int64_t>(random.Below(20));
  i.last_placed = random.Below(100'000);
  return i;
}

TEST_CASE("every placement is found by its name, scores with a number, and twice the same") {
  REQUIRE(!PlacementInfos().empty());
  for (const PlacementInfo& info : PlacementInfos()) {
    auto placement = MakePlacement(info.name);
    REQUIRE(placement.ok());
    CHECK(placement->name() == info.name);
    CHECK(!info.text.empty());
    Random random(1);
    for (int n = 0; n < 1000; ++n) {
      const InstanceState i = RandomInstance(random);
      RequestState r;
      r.request.output_tokens.mean = n % 3 == 0 ? std::numeric_limits<double>::quiet_NaN() : 1e300;
      placement->Up(i, TimePoint{});
      placement->Prepare(r, TimePoint{});
      const double score = placement->Score(r, i, TimePoint{});
      CHECK(std::isfinite(score));
      CHECK(score == AnyPlacement(*placement).Score(r, i, TimePoint{}));
    }
  }
}

TEST_CASE("an unknown placement is named, with those that exist") {
  const auto placement = MakePlacement("best");
  REQUIRE(!placement.ok());
  const auto message = std::string(placement.status().message());
  CHECK(message.find("'best'") != std::string::npos);
  CHECK(message.find("least_loaded, least_outstanding_tokens, random, round_robin") != std::string::npos);
}

TEST_CASE("a host's own placement needs no name") {
  struct Smallest {
    double Score(const RequestState&, const InstanceState& i, TimePoint) const {
      return -static_cast<double>(i.instance.kv_tokens.value);
    }
  };
  InstanceState i;
  i.instance.kv_tokens = {7};
  CHECK(AnyPlacement(Smallest{}).name() == "unnamed");
  CHECK(AnyPlacement(Smallest{}).Score({}, i, {}) == -7);
}

TEST_CASE("round robin prefers who was served longest ago") {
  InstanceState a, b;
  a.last_placed = 7, b.last_placed = 3;
  CHECK(RoundRobin{}.Score({}, b, {}) > RoundRobin{}.Score({}, a, {}));
}

TEST_CASE("least loaded: 4 * (waiting + placed since the report) + running") {
  InstanceState i;
  i.report = {.waiting = 3, .running = 5};
  i.since_report = 2;
  i.outstanding = 100;
  i.reported = true;
  CHECK(LeastLoaded{}.Score({}, i, {}) == -(4 * (3 + 2) + 5));
  i.reported = false;
  i.report = {};
  CHECK(LeastLoaded{}.Score({}, i, {}) == -400);
  CHECK(LeastLoaded{.waiting_weight = 1}.Score({}, i, {}) == -100);
}

}  // namespace
}  // namespace takt
