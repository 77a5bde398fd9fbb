#include "takt/learning/calibration.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Lengths exp(mu + spread z), predicted with an error of exp(sigma z). Their statistics are known in closed form.
struct LogNormalWorld {
  double mu = std::log(200.0), spread = 1, sigma = 0.7;

  double weight() const { return spread * spread / (spread * spread + sigma * sigma); }  // of the prediction
  double variance() const { return weight() * sigma * sigma; }  // of ln(actual), given the prediction
  double LogMedian(double predicted) const { return mu + weight() * (std::log(predicted) - mu); }
  double Mean(double predicted) const { return std::exp(LogMedian(predicted) + variance() / 2); }
};

TEST_CASE("calibration is the identity until a request has ended") {
  const Calibration calibration;
  for (const double predicted : {1.0, 3.0, 77.5, 1e4, 1e9}) {
    for (const double generated : {0.0, 1e3, 1e9}) {
      CHECK(calibration.Expect(predicted, generated).mean == Approx(predicted).epsilon(1e-9));
    }
  }
}

TEST_CASE("the posterior mean of log-normal lengths converges within a bound") {
  const auto [sigma, n, tolerance] = GENERATE(table<double, int, double>({{0.7, 200, 0.25},
                                                                          {0.7, 2000, 0.12},
                                                                          {0.7, 20'000, 0.06},  //
                                                                          {1.2, 200, 0.35},
                                                                          {1.2, 2000, 0.15},
                                                                          {1.2, 20'000, 0.08}}));
  CAPTURE(sigma, n);
  const LogNormalWorld world{.sigma = sigma};
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(10)); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Calibration calibration;
    for (int i = 0; i < n; ++i) {
      const double actual = random.LogNormal(world.mu, world.spread);
      calibration.Observe(actual * random.LogNormal(0, sigma), 0, actual);
    }
    CHECK(calibration.drifts() == 0);
    // Averages over predictions as they arrive, so that extreme lengths count by their frequency.
    double off = 0, above = 0, below = 0;
    constexpr int kAsked = 2000;
    for (int i = 0; i < kAsked; ++i) {
      const double actual = random.LogNormal(world.mu, world.spread);
      const double predicted = std::max(1.0, actual * random.LogNormal(0, sigma));
      const Estimate e = calibration.Expect(predicted, 0);
      off += std::abs(std::log(e.mean / world.Mean(predicted)));
      above += actual > e.Quantile(0.9) ? 1 : 0;
      below += actual < e.Quantile(0.1) ? 1 : 0;
    }
    CHECK(off / kAsked < tolerance);
    CHECK(above / kAsked == Approx(0.1).margin(n < 1000 ? 0.1 : 0.04));
    CHECK(below / kAsked == Approx(0.1).margin(n < 1000 ? 0.1 : 0.04));
  }
}

TEST_CASE("a biased scale is learned within some dozens") {
  Random random(5);
  Calibration calibration;
  for (int i = 0; i < 60; ++i) {
    const double actual = random.LogNormal(6, 1);
    calibration.Observe(10 * actual * random.LogNormal(0, 0.2), 0, actual);
  }
  for (const double predicted : {1000.0, 4000.0, 16'000.0}) {
    CHECK(calibration.Expect(predicted, 0).mean == Approx(predicted / 10).epsilon(0.25));
  }
}

TEST_CASE("exact predictions stay exact") {
  Random random(6);
  Calibration calibration;
  for (int i = 0; i < 5000; ++i) {
    const double actual = std::max(1.0, random.LogNormal(5, 1.5));
    calibration.Observe(actual, random.Chance(0.5) ? 100 * random.Uniform() : 0, actual);
  }
  CHECK(calibration.drifts() == 0);
  for (const double x : {2.0, 17.0, 400.0, 9000.0}) {
    const Estimate e = calibration.Expect(x, 0);
    CHECK(e.mean == Approx(x).epsilon(1e-6));
    CHECK(e.Quantile(0.9) == Approx(x).epsilon(1e-3));
  }
}

// One class, so the prediction has no information. Each workflow makes rounds until it succeeds, and hard ones rarely
// do. A workflow with more past rounds therefore has more to come.
TEST_CASE("class means by generated tokens equal brute-force conditional means") {
  Random random(7);
  Calibration calibration;
  double class_sum = 0, class_count = 0;
  struct Known {
    double sum = 0, count = 0;
  };
  std::map<int, Known> by_octave;  // true rest, by tokens generated
  const auto octave = [](double generated) { return generated < 1 ? -1 : static_cast<int>(std::log2(generated)); };
  const auto workflows = static_cast<int>(std::max<std::int64_t>(Scaled(6000), 3000));
  for (int w = 0; w < workflows; ++w) {
    const double success = random.Chance(0.7) ? 0.7 : 0.04;
    std::vector<double> before;  // tokens generated when each call was made
    double generated = 0;
    do {
      before.push_back(generated);
      generated += std::floor(random.LogNormal(std::log(150.0), 0.4)) + 1;
    } while (!random.Chance(success));
    const double mean = class_count > 0 ? class_sum / class_count : 0;
    for (const double then : before) {
      const double left = generated - then;
      if (class_count > 0) calibration.Observe(mean, then, left, then > 0);
      class_sum += left;
      ++class_count;
      by_octave[octave(then)].sum += left;
      ++by_octave[octave(then)].count;
    }
  }
  const double mean = class_sum / class_count;
  int compared = 0;
  for (const auto& [k, truth] : by_octave) {
    if (truth.count < 300) continue;
    ++compared;
    CAPTURE(k, truth.count);
    const double generated = k < 0 ? 0 : 1.5 * std::exp2(k);
    CHECK(calibration.Expect(mean, generated).mean == Approx(truth.sum / truth.count).epsilon(0.15));
  }
  CHECK(compared >= 5);
  CHECK(calibration.Expect(mean, 5000).mean > 3 * calibration.Expect(mean, 0).mean);
}

TEST_CASE("equal generated tokens keep the order of predictions") {
  Random random(8);
  for (int round = 0; round < Scaled(30); ++round) {
    CAPTURE(round);
    Calibration calibration;
    const int n = static_cast<int>(random.Below(3000));
    for (int i = 0; i < n; ++i) {
      // Extreme cases: the actual length is independent of the prediction, or falls with it.
      const double predicted = random.LogNormal(5, 3);
      const double actual = round % 2 == 0 ? random.LogNormal(5, 3) : 1e4 / predicted;
      calibration.Observe(predicted, random.LogNormal(3, 4), actual);
    }
    for (const double generated : {0.0, 50.0, 3000.0}) {
      double last = 0;
      for (double x = 1; x < 1e7; x *= 1.1) {
        const double mean = calibration.Expect(x, generated).mean;
        REQUIRE(mean >= last * (1 - 1e-12));
        last = mean;
      }
    }
  }
}

TEST_CASE("a bin with few samples is near its neighbours") {
  Random random(9);
  const LogNormalWorld world;
  Calibration calibration;
  for (int i = 0; i < 3000; ++i) {
    const double actual = random.LogNormal(world.mu, world.spread);
    calibration.Observe(actual * random.LogNormal(0, world.sigma), 0, actual);
  }
  // Outside the observed range, and at a number of tokens generated that no request reached.
  CHECK(calibration.Expect(1e5, 0).mean == Approx(world.Mean(1e5)).epsilon(0.4));
  CHECK(calibration.Expect(200, 1e5).mean == Approx(calibration.Expect(200, 0).mean).epsilon(0.05));
  calibration.Observe(1e5, 0, 2 * world.Mean(1e5));
  CHECK(calibration.Expect(1e5, 0).mean == Approx(world.Mean(1e5)).epsilon(0.6));
}

TEST_CASE("a changed workload is detected, and the old one forgotten") {
  const auto [before, after] = GENERATE(table<double, double>({{1, 3}, {3, 1}, {1, 0.3}}));
  CAPTURE(before, after);
  Random random(10);
  const LogNormalWorld world{.sigma = 0.5};
  Calibration calibration;
  const auto observe = [&](double factor) {
    const double predicted = random.LogNormal(world.mu, world.spread);
    calibration.Observe(predicted, 0, factor * predicted * random.LogNormal(0, world.sigma));
  };
  for (int i = 0; i < 8000; ++i) observe(before);
  CHECK(calibration.drifts() == 0);
  int noticed = 0;
  while (calibration.drifts() == 0 && noticed < 1000) observe(after), ++noticed;
  CHECK(noticed <= 160);
  for (int i = 0; i < 800; ++i) observe(after);
  const double mean = std::exp(world.sigma * world.sigma / 2);
  for (const double x : {100.0, 200.0, 400.0}) {
    CHECK(calibration.Expect(x, 0).mean == Approx(after * mean * x).epsilon(0.2));
  }
  CHECK(calibration.observations() < 2000);
}

TEST_CASE("no drift is reported for a constant workload") {
  std::int64_t drifts = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(20)); ++seed) {
    Random random(seed);
    Calibration calibration;
    for (int i = 0; i < 10'000; ++i) {
      const double actual = random.LogNormal(5, 1.2);
      const double predicted = actual * random.LogNormal(0, 1.2);
      calibration.Observe(predicted, random.LogNormal(4, 2), actual);
    }
    drifts += calibration.drifts();
  }
  CHECK(drifts == 0);
}

TEST_CASE("one absurd observation changes bins little") {
  Random random(12);
  const LogNormalWorld world;
  Calibration calm;
  for (int i = 0; i < 2000; ++i) {
    const double actual = random.LogNormal(world.mu, world.spread);
    calm.Observe(actual * random.LogNormal(0, world.sigma), 0, actual);
  }
  for (const double predicted : {1.0, 200.0, 1e15}) {
    for (const double generated : {0.0, 1e15}) {
      for (const double actual : {0.0, 1e15}) {
        CAPTURE(predicted, generated, actual);
        Calibration hit = calm;
        for (int k = 0; k < 3; ++k) hit.Observe(predicted, generated, actual);
        hit.Observe(200, 0, 200);
        for (const double asked : {1.0, 50.0, 200.0, 1000.0, 1e5}) {
          for (const double then : {0.0, 1e15}) {
            CAPTURE(asked, then);
            const double factor = hit.Expect(asked, then).mean / calm.Expect(asked, then).mean;
            const bool filled = then == 0 && asked > 10 && asked < 5000;
            CHECK(std::abs(std::log(factor)) < std::log(filled ? 1.7 : 30));
          }
        }
      }
    }
  }
}

TEST_CASE("invalid lengths are ignored") {
  Calibration calibration;
  for (const double bad : {kNan, kInfinity, -kInfinity, -1.0, 2e15}) {
    calibration.Observe(bad, 0, 10);
    calibration.Observe(10, 0, bad);
    CHECK_FALSE(calibration.Expect(bad, 0).known());
  }
  CHECK(calibration.observations() == 0);
  for (const double bad : {kNan, kInfinity, -kInfinity, -1.0}) {
    calibration.Observe(10, bad, 10);
    CHECK(calibration.Expect(10, bad).known());
  }
  CHECK(calibration.observations() == 4);
  calibration.Observe(0, 0, 0);
  CHECK(calibration.Expect(0, 0).known());
}

TEST_CASE("any input gives a valid length") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(200)); ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Calibration calibration(
        {.window = static_cast<std::int64_t>(random.Below(40)), .drift_p = random.Chance(0.5) ? 0.1 : 0});
    const auto any = [&] {
      switch (random.Below(6)) {
        case 0: return kNan;
        case 1: return 1e15;
        case 2: return 0.0;
        case 3: return random.LogNormal(0, 20);
        default: return random.LogNormal(5, 2);
      }
    };
    for (int i = 0; i < 1500; ++i) {
      const double predicted = any(), generated = any();
      calibration.Observe(predicted, generated, any());
      const double asked = any();
      const Estimate e = calibration.Expect(asked, any());
      CAPTURE(i, asked, e.mean, e.quantiles[0]);
      REQUIRE(e.known() == (asked >= 0 && asked <= 1e15));
      if (!e.known()) continue;
      for (std::size_t q = 0; q < e.quantiles.size(); ++q) {
        REQUIRE(std::isfinite(e.quantiles[q]));
        REQUIRE((q == 0 || e.quantiles[q] >= e.quantiles[q - 1]));
      }
    }
  }
}

TEST_CASE("the same observations make the same estimates") {
  Random random(13);
  Calibration a, b;
  for (int i = 0; i < 3000; ++i) {
    const double predicted = random.LogNormal(5, 1), generated = random.LogNormal(5, 2),
                 actual = random.LogNormal(5, 1);
    a.Observe(predicted, generated, actual);
    b.Observe(predicted, generated, actual);
    REQUIRE(a.Expect(predicted, generated) == b.Expect(predicted, generated));
  }
}

TEST_CASE("the error of predictions, by hand") {
  CalibrationCheck check;
  CHECK(check.error().count == 0);
  CHECK(check.error().by_octave == 0);
  // 64 .. 127: predicted 100 + 100, actual 300 + 500. 256 .. 511: predicted 300, actual 100.
  check.Observe(100, 300);
  check.Observe(100, 500);
  check.Observe(300, 100);
  const CalibrationError e = check.error();
  CHECK(e.count == 3);
  CHECK(e.bias == Approx(std::log(900.0 / 500)));
  CHECK(e.by_octave == Approx((2 * std::log(4.0) + std::log(3.0)) / 3));
  const double a = std::log(3.0), b = std::log(5.0), c = -std::log(3.0), mean = (a + b + c) / 3;
  CHECK(e.spread ==
        Approx(std::sqrt(((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean)) / 2)));
  for (const double bad : {kNan, kInfinity, -1.0}) check.Observe(bad, 1), check.Observe(1, bad);
  CHECK(check.error().count == 3);
}

TEST_CASE("raw predictions have an error that calibrated ones lack") {
  const LogNormalWorld world{.sigma = 1.2};
  Random random(14);
  Calibration calibration;
  CalibrationCheck raw, calibrated;
  for (int i = 0; i < 20'000; ++i) {
    const double actual = random.LogNormal(world.mu, world.spread);
    const double predicted = actual * random.LogNormal(0, world.sigma);
    raw.Observe(predicted, actual);
    calibrated.Observe(calibration.Expect(predicted, 0).mean, actual);
    calibration.Observe(predicted, 0, actual);
  }
  CHECK(raw.error().by_octave > 0.5);
  CHECK(calibrated.error().by_octave < 0.05);
  CHECK(std::abs(calibrated.error().bias) < 0.05);
}

}  // namespace
}  // namespace takt
