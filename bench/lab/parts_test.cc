// Tests parts that several studies share, without running a study.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "catch.h"
#include "lab/chimera/frontier.h"
#include "lab/claim.h"
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

TEST_CASE("one rule judges a paper's claim by its interval") {
  using tool::Claimed, tool::Interval, tool::Over, tool::Verdict, tool::VerdictOf;
  const Claimed range(10, 20), figure = 15, most({}, 5);
  CHECK(VerdictOf({12, 8, 16}, range, 0) == Verdict::kHolds);
  CHECK(VerdictOf({9, 8, 10}, range, 0) == Verdict::kHolds);
  CHECK(VerdictOf({25, 20, 30}, range, 0) == Verdict::kHolds);
  CHECK(VerdictOf({25, 20.1, 30}, range, 0) == Verdict::kBeyond);
  CHECK(VerdictOf({9, 8, 9.9}, range, 0) == Verdict::kFails);
  CHECK(VerdictOf({9, -2, 20}, range, 0) == Verdict::kUndecided);
  CHECK(VerdictOf({-5, -9, -1}, range, 0) == Verdict::kFails);
  CHECK(VerdictOf({14, 13, 15}, figure, 0) == Verdict::kHolds);
  CHECK(VerdictOf({17, 16, 18}, figure, 0) == Verdict::kBeyond);
  CHECK(VerdictOf({1.4, 1.1, 1.7}, 1.5, 1) == Verdict::kHolds);
  CHECK(VerdictOf({1.4, 0.9, 1.9}, 1.5, 1) == Verdict::kUndecided);
  CHECK(VerdictOf({2, 1, 3}, Over(0), 0) == Verdict::kHolds);
  CHECK(VerdictOf({2, -1, 5}, Over(0), 0) == Verdict::kUndecided);
  CHECK(VerdictOf({-2, -3, -1}, Over(0), 0) == Verdict::kFails);
  CHECK(VerdictOf({6, 4, 8}, most, 0) == Verdict::kHolds);
  CHECK(VerdictOf({-9, -9, -9}, most, 0) == Verdict::kHolds);
  CHECK(VerdictOf({6, 5.5, 6.5}, most, 0) == Verdict::kFails);
  CHECK(VerdictOf({-1, -2, 0}, -0.8, 0) == Verdict::kHolds);  // a loss that the paper reports
  CHECK(VerdictOf(tool::Exact(50), 50, 0) == Verdict::kHolds);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const Claimed& claimed : {range, most}) {
    CHECK(VerdictOf({3, -kInfinite, kInfinite}, claimed, 0) == Verdict::kUndecided);  // one seed
  }

  CHECK(Worse(Verdict::kHolds, Verdict::kHolds) == Verdict::kHolds);
  CHECK(Worse(Verdict::kHolds, Verdict::kBeyond) == Verdict::kBeyond);
  CHECK(Worse(Verdict::kUndecided, Verdict::kBeyond) == Verdict::kUndecided);
  CHECK(Worse(Verdict::kUndecided, Verdict::kFails) == Verdict::kFails);
}

TEST_CASE("reports count the paper's claims and show whose a claim is") {
  tool::Claims claims(tool::ClaimSource::kPaper);
  claims.Judge("a", {12, 11, 13}, {10, 20}, "%", "near");
  claims.Judge("b", {30, 25, 35}, {10, 20}, "%", "far");
  claims.Judge("c", {5, 4, 6}, 5, "%", "by fit");
  claims.Tag(tool::ClaimSource::kFitted);
  claims.Judge("d", {5, 4, 6}, {{}, 3}, "%", "a yardstick");
  claims.Tag(tool::ClaimSource::kOwn);
  claims.Lacking("e", 1, "%", "no data");
  tool::ScenarioReport report;
  report.claims = claims.Take();
  const std::string text = ScenarioText(report, false), html = ScenarioHtml(report), json = ScenarioJson(report);
  const auto has = [](const std::string& in, const std::string& part) { return in.find(part) != std::string::npos; };
  for (const std::string& page : {text, html}) {
    CHECK(has(page, "3 claims of the paper, 2 measured: 1 hold, 1 beyond, 0 fail, 0 undecided."));
    CHECK(has(page, "5 claims with takt's own and fitted ones, 4 measured: 2 hold, 1 beyond, 1 fail, 0 undecided."));
    CHECK(has(page, "source"));
    CHECK(has(page, "beyond"));
  }
  CHECK(has(text, "takt's own"));
  CHECK(has(json, R"("verdict": "beyond")"));
  CHECK(has(json, R"("source": "fitted")"));
  CHECK(has(json, R"("source": "takt's own")"));

  tool::Claims own;
  own.AtMost("f", 1, 2, "", "");
  report.claims = own.Take();
  CHECK(has(ScenarioText(report, false), "1 claim, 1 measured: 1 hold"));
  CHECK_FALSE(has(ScenarioText(report, false), "source"));
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
