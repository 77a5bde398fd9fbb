#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "catch.h"
#include "takt/base/random.h"
#include "takt/numeric/correlation.h"
#include "takt/numeric/histogram.h"
#include "takt/numeric/quantile.h"
#include "takt/numeric/summary.h"
#include "takt/numeric/ttest.h"

namespace takt {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST_CASE("quantiles of type 7 interpolate ranks") {
  const std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  CHECK(QuantileOfSorted(ten, 0) == 1);
  CHECK(QuantileOfSorted(ten, 0.5) == 5.5);
  CHECK(QuantileOfSorted(ten, 0.9) == Approx(9.1).epsilon(1e-14));
  CHECK(QuantileOfSorted(ten, 0.25) == 3.25);
  CHECK(QuantileOfSorted(ten, 1) == 10);
  CHECK(QuantileOfSorted(ten, 7) == 10);
  CHECK(QuantileOfSorted(ten, -1) == 1);
  CHECK(QuantileOfSorted(ten, kNan) == 1);
  CHECK(std::isnan(QuantileOfSorted({}, 0.5)));
}

TEST_CASE("quantiles by nearest rank are values that occur") {
  std::vector<double> hundred(100);
  for (int i = 0; i < 100; ++i) hundred[static_cast<std::size_t>(i)] = i + 1;
  for (int i = 1; i <= 100; ++i) {
    CAPTURE(i);
    CHECK(QuantileOfSorted(hundred, i / 100.0, QuantileKind::kNearestRank) == i);  // 0.07, 0.14, 0.28, ... too
  }
  CHECK(QuantileOfSorted(hundred, 0.951, QuantileKind::kNearestRank) == 96);
  CHECK(QuantileOfSorted(hundred, 0, QuantileKind::kNearestRank) == 1);
}

TEST_CASE("selection agrees with sorting for any order, ties and NaN") {
  Random random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<double> values(1 + random.Below(40));
    for (double& x : values) x = random.Chance(0.1) ? kNan : static_cast<double>(random.Below(20));
    std::vector<double> sorted;
    std::copy_if(values.begin(), values.end(), std::back_inserter(sorted), [](double x) { return x == x; });
    std::sort(sorted.begin(), sorted.end());
    const double p = random.Uniform();
    for (const auto kind : {QuantileKind::kLinear, QuantileKind::kNearestRank}) {
      const double selected = Quantile(values, p, kind);
      if (sorted.empty()) {
        CHECK(std::isnan(selected));
      } else {
        REQUIRE(selected == QuantileOfSorted(sorted, p, kind));
      }
    }
  }
  std::vector<double> infinite = {kInfinity, 1, kInfinity};
  CHECK(Quantile(infinite, 0.75) == kInfinity);
}

TEST_CASE("a compensated sum keeps what plain addition loses") {
  CompensatedSum sum;
  for (const double x : {1.0, 1e100, 1.0, -1e100}) sum.Add(x);
  CHECK(sum.value() == 2);
  CompensatedSum tenths;
  for (int i = 0; i < 1'000'000; ++i) tenths.Add(0.1);
  CHECK(tenths.value() == Approx(100'000).epsilon(1e-15));
  tenths.Add(kInfinity);
  CHECK(tenths.value() == kInfinity);
}

TEST_CASE("moments agree in one pass and merged") {
  const std::vector<double> values = {2, 4, 4, 4, 5, 5, 7, 9};
  const Moments all = Moments::Of(values);
  CHECK(all.count() == 8);
  CHECK(all.mean() == 5);
  CHECK(all.variance() == Approx(32.0 / 7).epsilon(1e-14));
  Moments merged = Moments::Of(std::span(values).first(3));
  merged.Add(Moments::Of(std::span(values).subspan(3)));
  merged.Add(Moments());
  CHECK(merged.count() == 8);
  CHECK(merged.mean() == Approx(5).epsilon(1e-15));
  CHECK(merged.variance() == Approx(32.0 / 7).epsilon(1e-14));
  // A large offset does not drown a small scatter.
  Moments offset;
  for (const double x : {4.0, 7.0, 13.0, 16.0}) offset.Add(1e9 + x);
  CHECK(offset.variance() == Approx(30).epsilon(1e-9));
  merged = {};
  merged.Add(kNan);
  CHECK(merged.count() == 0);
  CHECK(merged.variance() == 0);
}

TEST_CASE("a summary equals its values by hand") {
  std::vector<double> values = {3, kNan, 1, 2, 5, 4};
  const Summary s = Summary::Of(values);
  CHECK(s.count == 5);
  CHECK(s.mean == 3);
  CHECK(s.deviation == Approx(std::sqrt(2.5)).epsilon(1e-14));
  CHECK(s.min == 1);
  CHECK(s.p50 == 3);
  CHECK(s.p90 == Approx(4.6).epsilon(1e-14));
  CHECK(s.p95 == Approx(4.8).epsilon(1e-14));
  CHECK(s.p99 == Approx(4.96).epsilon(1e-14));
  CHECK(s.max == 5);
  CHECK(Summary::Of({}) == Summary{});
}

TEST_CASE("a histogram has widening bins") {
  LogHistogram h(1, 1000, 3);
  for (const double x : {0.0, 1.0, 9.0, 11.0, 50.0, 150.0, 5000.0, kInfinity, kNan, -3.0}) h.Add(x);
  h.Add(200, 4);
  CHECK(std::vector<std::int64_t>(h.counts().begin(), h.counts().end()) == std::vector<std::int64_t>{4, 2, 7});
  CHECK(h.edge(0) == 1);
  CHECK(h.edge(1) == Approx(10));
  CHECK(h.edge(3) == Approx(1000));
}

TEST_CASE("a histogram has bins of one width") {
  LinearHistogram h(10, 3);
  for (const double x : {-5.0, 0.0, 9.9, 10.0, 29.0, 30.0, 1e300, kInfinity, kNan}) h.Add(x);
  CHECK(std::vector<std::int64_t>(h.counts().begin(), h.counts().end()) == std::vector<std::int64_t>{3, 1, 4});
  CHECK(h.edge(2) == 20);
  h.Halve();
  CHECK(std::vector<std::int64_t>(h.counts().begin(), h.counts().end()) == std::vector<std::int64_t>{1, 0, 2});
}

TEST_CASE("quantiles of a histogram lie within a bin of the exact ones") {
  const std::vector<double> levels = {0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1};
  std::vector<double> estimated(levels.size());
  Random random(3);
  for (int run = 0; run < 20; ++run) {
    LogHistogram log(1e-3, 1e6, 512);
    LinearHistogram linear(5, 100);
    std::vector<double> values;
    for (int i = 0; i < 1000; ++i) {
      values.push_back(random.LogNormal(4, 0.1 * run));
      log.Add(values.back(), 3);
      linear.Add(values.back());
    }
    std::sort(values.begin(), values.end());
    const double width = log.edge(1) / log.edge(0);
    QuantilesOf(log, levels, values.front(), values.back(), estimated.begin());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      // The rank may fall between two values of one bin.
      const double p = levels[i];
      CHECK(estimated[i] >= QuantileOfSorted(values, p - 0.001) / width);
      CHECK(estimated[i] <= QuantileOfSorted(values, p + 0.001) * width);
    }
    CHECK(estimated.front() == values.front());
    CHECK(estimated.back() == values.back());
    if (values.back() >= 500) continue;
    QuantilesOf(linear, levels, values.front(), values.back(), estimated.begin());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      CHECK(estimated[i] >= QuantileOfSorted(values, levels[i] - 0.001) - 5);
      CHECK(estimated[i] <= QuantileOfSorted(values, levels[i] + 0.001) + 5);
    }
  }
}

TEST_CASE("quantiles of a histogram handle empty, single and outer values") {
  const std::vector<double> levels = {0, 0.5, 1};
  std::vector<double> estimated(3);
  LinearHistogram h(10, 4);
  QuantilesOf(h, levels, 7, 9, estimated.begin());
  CHECK(estimated == std::vector<double>{7, 7, 7});
  h.Add(12, 5);
  QuantilesOf(h, levels, 12, 12, estimated.begin());
  CHECK(estimated == std::vector<double>{12, 12, 12});
  h.Add(700, 5);
  QuantilesOf(h, levels, 12, 700, estimated.begin());
  CHECK(estimated == std::vector<double>{12, 20, 700});
}

TEST_CASE("moments follow from their known values") {
  Moments all = Moments::Of(std::vector<double>{1, 2, 6});
  Moments estimated = Moments::From(3, all.mean(), all.deviation());
  CHECK(estimated.deviation() == Approx(all.deviation()).epsilon(1e-14));
  for (Moments* m : {&all, &estimated}) m->Add(11);
  CHECK(estimated.mean() == Approx(all.mean()).epsilon(1e-14));
  CHECK(estimated.deviation() == Approx(all.deviation()).epsilon(1e-14));
  CHECK(Moments::From(1, 5, 3).deviation() == 0);
}

PairCounts CountPairsOneByOne(const std::vector<double>& x, const std::vector<double>& y) {
  PairCounts c;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (x[i] != x[i] || y[i] != y[i] || x[j] != x[j] || y[j] != y[j]) continue;
      const double dx = x[i] - x[j], dy = y[i] - y[j];
      if (dx == 0 && dy == 0) ++c.tied_both;
      else if (dx == 0) ++c.tied_first;
      else if (dy == 0) ++c.tied_second;
      else if ((dx > 0) == (dy > 0)) ++c.concordant;
      else ++c.discordant;
    }
  }
  return c;
}

TEST_CASE("pairs by merge sort equal those counted one by one") {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = random.Below(60);
    const std::uint64_t levels = 1 + random.Below(40);
    std::vector<double> x(n), y(n);
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = random.Chance(0.02) ? kNan : static_cast<double>(random.Below(levels));
      y[i] = random.Chance(0.5) ? x[i] : static_cast<double>(random.Below(levels));
    }
    const PairCounts fast = CountPairs(x, y);
    const PairCounts slow = CountPairsOneByOne(x, y);
    REQUIRE(fast.concordant == slow.concordant);
    REQUIRE(fast.discordant == slow.discordant);
    REQUIRE(fast.tied_first == slow.tied_first);
    REQUIRE(fast.tied_second == slow.tied_second);
    REQUIRE(fast.tied_both == slow.tied_both);
  }
}

TEST_CASE("tau and distance equal values by hand") {
  const std::vector<double> x = {1, 2, 3, 4};
  CHECK(CountPairs(x, x).tau_b() == 1);
  CHECK(CountPairs(x, x).distance() == 0);
  CHECK(CountPairs(x, std::vector<double>{4, 3, 2, 1}).tau_b() == -1);
  CHECK(CountPairs(x, std::vector<double>{4, 3, 2, 1}).distance() == 1);
  CHECK(CountPairs(x, std::vector<double>{2, 1, 3, 4}).tau_b() == Approx(4.0 / 6));
  CHECK(CountPairs(x, std::vector<double>{2, 1, 3, 4}).distance() == Approx(1.0 / 6));
  CHECK(CountPairs(x, std::vector<double>{5, 5, 5, 5}).tau_b() == 0);
  CHECK(CountPairs(x, std::vector<double>{5, 5, 5, 5}).distance() == 0.5);
  CHECK(CountPairs({}, {}).distance() == 0);
}

TEST_CASE("the distance between two correlated normals is 1/2 - asin(rho)/pi") {
  Random random(2);
  std::vector<double> x, y;
  for (int i = 0; i < 20'000; ++i) {
    x.push_back(random.Normal());
    y.push_back(0.89 * x.back() + std::sqrt(1 - 0.89 * 0.89) * random.Normal());
  }
  CHECK(CountPairs(x, y).distance() == Approx(0.5 - std::asin(0.89) / 3.14159265358979).margin(0.004));
  CHECK(Correlation(x, y) == Approx(0.89).margin(0.005));
}

TEST_CASE("correlation equals values by hand") {
  const std::vector<double> x = {1, 2, 3};
  CHECK(Correlation(x, std::vector<double>{5, 7, 9}) == Approx(1));
  CHECK(Correlation(x, std::vector<double>{3, 1, 2}) == Approx(-0.5));
  CHECK(Correlation(x, std::vector<double>{3, 3, 3}) == 0);
}

// Values of mpmath with 30 digits.
TEST_CASE("the tail of Student's t equals reference values") {
  CHECK(StudentTail(0, 7) == Approx(0.5).epsilon(1e-13));
  CHECK(StudentTail(0.5, 3) == Approx(0.3257239824240755).epsilon(1e-12));
  CHECK(StudentTail(2, 5) == Approx(0.050969739414929178).epsilon(1e-12));
  CHECK(StudentTail(1.5, 12.7) == Approx(0.079029285328855944).epsilon(1e-12));
  CHECK(StudentTail(3, 1) == Approx(0.10241638234956673).epsilon(1e-12));  // atan in closed form
  CHECK(StudentTail(2.5, 200) == Approx(0.0066115863208503955).epsilon(1e-11));
  CHECK(StudentTail(9, 2.2) == Approx(0.0044599614549595642).epsilon(1e-12));
  CHECK(StudentTail(6, 4000) == Approx(1.0740568809251258e-9).epsilon(1e-10));
  CHECK(IncompleteBeta(0.5, 40, 0.01) == Approx(0.62861397674601533).epsilon(1e-12));
  CHECK(StudentTail(-2, 5) == Approx(1 - 0.050969739414929178).epsilon(1e-12));
  CHECK(StudentTail(1.6448536269514722, 1e9) == Approx(0.05).epsilon(1e-12));
  CHECK(StudentTail(kInfinity, 4) == 0);
  CHECK(IncompleteBeta(2, 3, 0.3) == Approx(0.3483).epsilon(1e-13));
  CHECK(IncompleteBeta(2, 3, 0.9) + IncompleteBeta(3, 2, 0.1) == Approx(1).epsilon(1e-13));
}

TEST_CASE("quantiles of Student's t equal published tables") {
  CHECK(StudentQuantile(0.975, 1) == Approx(12.7062).epsilon(1e-5));
  CHECK(StudentQuantile(0.975, 9) == Approx(2.26216).epsilon(1e-5));
  CHECK(StudentQuantile(0.025, 9) == Approx(-2.26216).epsilon(1e-5));
  CHECK(StudentQuantile(0.99, 19) == Approx(2.53948).epsilon(1e-5));
}

TEST_CASE("Welch's test equals reference values") {
  const std::vector<double> a = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
                                 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4};
  const std::vector<double> b = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
                                 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 28.5};
  const TTest test = WelchTest(Moments::Of(a), Moments::Of(b));
  CHECK(test.t == Approx(-2.97543035361).epsilon(1e-9));
  CHECK(test.freedom == Approx(27.9601264821).epsilon(1e-9));
  CHECK(test.p_less == Approx(0.00298699341255).epsilon(1e-9));
  CHECK(test.p_greater == Approx(1 - test.p_less).epsilon(1e-12));

  const Moments two = Moments::Of(std::vector<double>{2, 2});
  const Moments three = Moments::Of(std::vector<double>{3, 3, 3});
  CHECK(WelchTest(three, two).p_greater == 0);
  CHECK(WelchTest(two, three).p_greater == 1);
  CHECK(WelchTest(two, two).p_greater == 0.5);
  CHECK(WelchTest(Moments(), two).p_greater == 1);
}

TEST_CASE("a paired test equals values by hand") {
  // Mean 2, deviation 1, n 4: t = 4 with 3 degrees; 2 P(T > 4) = 0.0280.
  const TTest test = PairedTest(Moments::Of(std::vector<double>{2 - std::sqrt(1.5), 2, 2, 2 + std::sqrt(1.5)}));
  CHECK(test.t == Approx(4).epsilon(1e-12));
  CHECK(test.p_greater == Approx(0.0140042).margin(1e-7));
  CHECK(PairedTest(Moments()).p_less == 1);
}

}  // namespace
}  // namespace takt
