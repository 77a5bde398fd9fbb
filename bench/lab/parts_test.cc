// Tests parts that several studies share, without running a study.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "catch.h"
#include "lab/chimera/frontier.h"
#include "lab/kairos/linear_order.h"
#include "scale.h"
#include "sim/sim_workloads.h"
#include "takt/base/random.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"

namespace takt {
namespace {

TEST_CASE("the best linear order matches the best of all permutations") {
  Random random(6);
  CHECK(BestLinearOrder({}, 0).empty());
  for (int i = 0; i < Scaled(30); ++i) {
    const std::size_t n = 1 + random.Below(6);
    std::vector<double> gain(n * n);
    for (double& g : gain) g = random.Uniform() - 0.2;
    const auto sum = [&](const std::vector<std::size_t>& order) {
      double total = 0;
      for (std::size_t b = 0; b < n; ++b) {
        for (std::size_t a = 0; a < b; ++a) total += gain[order[a] * n + order[b]];
      }
      return total;
    };
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    double most = sum(order);
    while (std::next_permutation(order.begin(), order.end())) most = std::max(most, sum(order));
    CHECK(sum(BestLinearOrder(gain, n)) == Approx(most));
  }
}

TEST_CASE("frontiers: undominated points, and the area between two frontiers") {
  const std::vector<TradeOff> a = {{30, 10}, {10, 2}, {20, 8}, {25, 7}, {10, 1}, {40, 9}};
  CHECK(FrontierOf(a) == std::vector<TradeOff>{{10, 2}, {20, 8}, {30, 10}});
  CHECK(ValueAt(FrontierOf(a), 10) == 2);
  CHECK(ValueAt(FrontierOf(a), 15) == 5);
  CHECK(ValueAt(FrontierOf(a), 30) == 10);
  CHECK(ValueAt(FrontierOf(a), 99) == 10);
  // Latency budgets from 15 to 40: 5 at 15, 8 at 20, 10 from 30 on, against 4 throughout.
  const auto gap = GapBetween(a, {{15, 4}, {45, 4}});
  REQUIRE(gap);
  CHECK(gap->from == 15);
  CHECK(gap->to == 40);
  CHECK(gap->mean == Approx((5 * 6.5 + 10 * 9 + 10 * 10) / 25 - 4));
  CHECK(GapBetween({{15, 4}, {45, 4}}, a)->mean == Approx(-gap->mean));
  CHECK(GapBetween(a, a)->mean == 0);
  CHECK_FALSE(GapBetween(a, {{50, 4}}));
  CHECK_FALSE(GapBetween(a, {}));
  CHECK_FALSE(GapBetween({{1, 1}}, {{1, 1}}));  // no width
}

}  // namespace
}  // namespace takt
