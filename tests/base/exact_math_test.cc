#include "takt/base/exact_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"

using namespace takt;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLargest = std::numeric_limits<double>::max();

// The reference has 64 bits or more. On other platforms the last place is not checked.
constexpr bool kHasReference = std::numeric_limits<long double>::digits >= 64;

// Error of `x` in units of the last place of a double at `truth`.
double UnitsOff(double x, long double truth) {
  int exponent = 0;
  std::frexp(truth, &exponent);
  return static_cast<double>(std::abs(static_cast<long double>(x) - truth) / std::ldexp(1.0L, exponent - 53));
}

// Largest error over random arguments.
template <class Function, class Reference, class Draw>
double Worst(Function function, Reference reference, Draw draw) {
  Random random(1);
  double worst = 0;
  for (std::int64_t i = 0; i < Scaled(1'000'000); ++i) {
    const double x = draw(random);
    const long double truth = reference(static_cast<long double>(x));
    if (std::abs(truth) < 0x1p-1022L || std::abs(truth) > static_cast<long double>(kLargest)) continue;
    worst = std::max(worst, UnitsOff(function(x), truth));
  }
  return worst;
}

double AnyPositive(Random& random) {
  const double x = std::bit_cast<double>(random.Bits() >> 1);
  return x <= kLargest ? x : 1;
}
double Within(Random& random, double most) { return (2 * random.Uniform() - 1) * most; }
// Arguments of every size down to 2^-60.
double Small(Random& random) { return Within(random, std::ldexp(1.0, -static_cast<int>(random.Below(60)))); }
double NearOne(Random& random) { return 1 + Small(random) / 2; }
double Moderate(Random& random) { return std::exp2(Within(random, 12)); }

}  // namespace

TEST_CASE("logarithms are within 0.51 units in the last place") {
  if (!kHasReference) return;
  const auto log = [](double x) { return exact::Log(x); };
  const auto true_log = [](long double x) { return std::log(x); };
  CHECK(Worst(log, true_log, AnyPositive) < 0.51);
  CHECK(Worst(log, true_log, NearOne) < 0.51);
  CHECK(Worst(log, true_log, Moderate) < 0.51);
  const auto log2 = [](double x) { return exact::Log2(x); };
  const auto true_log2 = [](long double x) { return std::log2(x); };
  CHECK(Worst(log2, true_log2, AnyPositive) < 0.51);
  CHECK(Worst(log2, true_log2, NearOne) < 0.51);
  const auto log1p = [](double x) { return exact::Log1p(x); };
  const auto true_log1p = [](long double x) { return std::log1p(x); };
  CHECK(Worst(log1p, true_log1p, AnyPositive) < 0.51);
  CHECK(Worst(log1p, true_log1p, Small) < 0.51);
}

TEST_CASE("exponentials are within 0.7 units in the last place") {
  if (!kHasReference) return;
  const auto wide = [](Random& random) { return Within(random, 745); };
  const auto narrow = [](Random& random) { return Within(random, 2); };
  const auto exp = [](double x) { return exact::Exp(x); };
  const auto true_exp = [](long double x) { return std::exp(x); };
  CHECK(Worst(exp, true_exp, wide) < 0.55);
  CHECK(Worst(exp, true_exp, narrow) < 0.55);
  const auto exp2 = [](double x) { return exact::Exp2(x); };
  const auto true_exp2 = [](long double x) { return std::exp2(x); };
  CHECK(Worst(exp2, true_exp2, [](Random& random) { return Within(random, 1070); }) < 0.55);
  CHECK(Worst(exp2, true_exp2, narrow) < 0.55);
  const auto expm1 = [](double x) { return exact::Expm1(x); };
  const auto true_expm1 = [](long double x) { return std::expm1(x); };
  CHECK(Worst(expm1, true_expm1, wide) < 0.7);
  CHECK(Worst(expm1, true_expm1, [](Random& random) { return Within(random, 45); }) < 0.7);
  CHECK(Worst(expm1, true_expm1, Small) < 0.7);
}

TEST_CASE("powers are within 0.7 units in the last place") {
  if (!kHasReference) return;
  for (const double y : {0.37, 1.7, -2.0, 25.0, -300.0, 1e-5}) {
    const auto pow = [y](double x) { return exact::Pow(x, y); };
    const auto true_pow = [y](long double x) { return std::pow(x, static_cast<long double>(y)); };
    CHECK(Worst(pow, true_pow, Moderate) < 0.7);
    CHECK(Worst(pow, true_pow, NearOne) < 0.7);
    CHECK(Worst(pow, true_pow, AnyPositive) < 0.7);
  }
}

TEST_CASE("the complementary error function is right to 13 digits") {
  for (double x = -6; x < 26; x += 1e-3) CHECK(exact::Erfc(x) == Approx(std::erfc(x)).epsilon(1e-13));
  CHECK(exact::Erfc(kInfinity) == 0);
  CHECK(exact::Erfc(-kInfinity) == 2);
}

TEST_CASE("a logarithm never falls if its argument rises") {
  Random random(2);
  std::int64_t falls = 0;
  const auto look = [&falls](double x) { falls += exact::Log(std::nextafter(x, kInfinity)) < exact::Log(x) ? 1 : 0; };
  for (std::int64_t i = 0; i < Scaled(500'000); ++i)
    look(AnyPositive(random)), look(NearOne(random)), look(Moderate(random));
  // Arguments at which the split-off power of two changes.
  for (int k = -1000; k < 1000; ++k) {
    double x = std::ldexp(std::sqrt(0.5), k);
    for (int i = 0; i < 20; ++i) x = std::nextafter(x, 0.0);
    for (int i = 0; i < 40; ++i) look(x = std::nextafter(x, kInfinity));
  }
  CHECK(falls == 0);
}

TEST_CASE("exact results come out exact") {
  static_assert(exact::Log(1) == 0 && exact::Log1p(0) == 0 && exact::Exp(0) == 1 && exact::Expm1(0) == 0);
  for (int k = -1074; k < 1024; ++k) {
    CHECK(exact::Log2(std::ldexp(1.0, k)) == k);
    CHECK(exact::Exp2(k) == std::ldexp(1.0, k));
  }
  CHECK(exact::Pow(3, 4) == 81);
  CHECK(exact::Pow(0.9995, 0) == 1);
  CHECK(exact::Pow(1, 1e300) == 1);
}

TEST_CASE("domain limits are those of the C library") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(exact::Log(0) == -kInfinity);
  CHECK(exact::Log2(0) == -kInfinity);
  CHECK(exact::Log1p(-1) == -kInfinity);
  CHECK(exact::Log(kInfinity) == kInfinity);
  CHECK(exact::Exp(kInfinity) == kInfinity);
  CHECK(exact::Exp(-kInfinity) == 0);
  CHECK(exact::Exp(-745) == std::exp(-745));
  CHECK(exact::Exp2(-kInfinity) == 0);
  CHECK(exact::Expm1(-kInfinity) == -1);
  CHECK(exact::Pow(0, 2) == 0);
  CHECK(exact::Pow(0, -2) == kInfinity);
  CHECK(exact::Pow(kInfinity, 2) == kInfinity);
  CHECK(exact::Pow(kInfinity, -2) == 0);
  CHECK(exact::Pow(0.5, kInfinity) == 0);
  CHECK(exact::Pow(2, 5000) == kInfinity);
  for (const double none :
       {exact::Log(-1), exact::Log2(-1), exact::Log1p(-2), exact::Log(nan), exact::Exp(nan), exact::Exp2(nan),
        exact::Expm1(nan), exact::Pow(-2, 0.5), exact::Pow(nan, 1), exact::Erfc(nan)}) {
    CHECK(std::isnan(none));
  }
}
