// Tests of two samples against all ways to deal the values.
#include "takt/numeric/two_sample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "catch.h"

namespace takt {
namespace {

// Share of all splits of `values` into n and the rest whose statistic is at least as extreme as the observed statistic.
template <class Statistic>
double ExactP(const std::vector<double>& values, std::size_t n, double seen, const Statistic& statistic) {
  std::vector<bool> in_a(values.size());
  std::fill(in_a.begin(), in_a.begin() + static_cast<std::ptrdiff_t>(n), true);
  int ways = 0, as_far = 0;
  do {
    std::vector<double> a, b;
    for (std::size_t i = 0; i < values.size(); ++i) (in_a[i] ? a : b).push_back(values[i]);
    ++ways;
    as_far += std::abs(statistic(a, b)) >= std::abs(seen) - 1e-12 ? 1 : 0;
  } while (std::prev_permutation(in_a.begin(), in_a.end()));
  return static_cast<double>(as_far) / ways;
}

double RankSum(const std::vector<double>& a, const std::vector<double>& b) { return RankSumTest(a, b).statistic; }
double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  return KolmogorovSmirnovTest(a, b).statistic;
}

TEST_CASE("the rank sum's tail is exact or above the exact one") {
  std::vector<double> values(15);
  std::iota(values.begin(), values.end(), 1.0);
  for (std::size_t shift = 0; shift <= 8; ++shift) {
    CAPTURE(shift);
    const std::vector<double> a(values.begin() + static_cast<std::ptrdiff_t>(shift),
                                values.begin() + static_cast<std::ptrdiff_t>(shift) + 7);
    std::vector<double> b;
    std::ranges::copy_if(values, std::back_inserter(b), [&](double x) { return x < a.front() || x > a.back(); });
    const TwoSampleTest test = RankSumTest(a, b);
    const double exact = ExactP(values, 7, test.statistic, RankSum);
    CHECK(test.p == Approx(exact).margin(0.02));
    if (exact < 0.01) CHECK(test.p >= exact);
    CHECK((shift < 4 ? test.statistic <= 0 : shift > 4 ? test.statistic >= 0 : std::abs(test.statistic) < 0.1));
  }
  // Ties count half, and lessen the variance: of 8 ones and 8 twos dealt 7 : 1 and 1 : 7.
  const std::vector<double> low = {1, 1, 1, 1, 1, 1, 1, 2}, high = {1, 2, 2, 2, 2, 2, 2, 2};
  CHECK(RankSumTest(high, low).statistic == Approx((56 - 32 - 0.5) / std::sqrt(64.0 / 12 * (17 - 1008.0 / 240))));
  CHECK(RankSumTest(low, high).statistic == -RankSumTest(high, low).statistic);
}

TEST_CASE("the Kolmogorov-Smirnov bound is above the exact tail") {
  std::vector<double> values(16);
  std::iota(values.begin(), values.end(), 1.0);
  for (const std::vector<double>& a : {std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8},
                                       {1, 2, 3, 4, 5, 6, 7, 9},
                                       {1, 2, 3, 4, 13, 14, 15, 16},
                                       {9, 10, 11, 12, 13, 14, 15, 16},
                                       {2, 4, 6, 8, 10, 12, 14, 16},
                                       {5, 6, 7, 8, 9, 10, 11, 12}}) {
    std::vector<double> b;
    std::ranges::set_difference(values, a, std::back_inserter(b));
    const TwoSampleTest test = KolmogorovSmirnovTest(a, b);
    CHECK(test.p >= ExactP(values, 8, test.statistic, Distance));
  }
  const std::vector<double> low = {1, 2, 3}, high = {4, 5, 6};
  CHECK(KolmogorovSmirnovTest(high, low).statistic == 1);
  CHECK(KolmogorovSmirnovTest(low, high).statistic == -1);
  CHECK(KolmogorovSmirnovTest(low, low).statistic == 0);
  CHECK(KolmogorovSmirnovTest(low, low).p == 1);
}

TEST_CASE("uninformative samples give no evidence") {
  const std::vector<double> some = {1, 2}, same = {3, 3, 3}, none;
  CHECK(RankSumTest(some, none).p == 1);
  CHECK(RankSumTest(none, some).p == 1);
  CHECK(RankSumTest(same, same).p == 1);
  CHECK(KolmogorovSmirnovTest(some, none).p == 1);
  CHECK(KolmogorovSmirnovTest(same, same).p == 1);
}

TEST_CASE("Fisher's F has closed forms for two degrees of freedom") {
  for (const double f : {0.1, 0.5, 1.0, 3.0, 20.0}) {
    CHECK(FisherTail(f, 2, 2) == Approx(1 / (1 + f)));
    CHECK(FisherTail(f, 2, 50) == Approx(std::pow(1 + 2 * f / 50, -25)));
    CHECK(FisherTail(f, 30, 12) == Approx(1 - FisherTail(1 / f, 12, 30)));
  }
  CHECK(FisherTail(0, 3, 3) == 1);
  CHECK(FisherTail(-1, 3, 3) == 1);
}

}  // namespace
}  // namespace takt
