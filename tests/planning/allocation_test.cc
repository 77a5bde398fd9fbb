#include "takt/planning/allocation.h"

#include <limits>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double BruteForce(const LatencyTable& table, GpuUse use, std::size_t model = 0, std::int32_t used = 0,
                  double slowest = -kInf) {
  if (model == table.models()) {
    if (use == GpuUse::kExactly && used != table.gpus()) return kInf;
    return table.models() == 0 ? 0 : slowest;
  }
  double best = kInf;
  for (std::int32_t f = 0; used + f <= table.gpus(); ++f) {
    best = std::min(best, BruteForce(table, use, model + 1, used + f, std::max(slowest, table.at(model, f))));
  }
  return best;
}

double Slowest(const LatencyTable& table, const std::vector<std::int32_t>& gpus) {
  double slowest = -kInf;
  for (std::size_t i = 0; i < gpus.size(); ++i) slowest = std::max(slowest, table.at(i, gpus[i]));
  return slowest;
}

std::int32_t Sum(const std::vector<std::int32_t>& gpus) {
  std::int32_t sum = 0;
  for (const std::int32_t f : gpus) sum += f;
  return sum;
}

// Latencies from few values, so that ties are common. Some are infinite, and some models need no GPU.
LatencyTable RandomTable(Random& random, bool falling) {
  const std::size_t models = 1 + random.Below(4);
  LatencyTable table(models, static_cast<std::int32_t>(random.Below(11)));
  for (std::size_t i = 0; i < table.models(); ++i) {
    double least = kInf;
    for (std::int32_t f = 0; f <= table.gpus(); ++f) {
      double latency = random.Chance(0.25) ? kInf : static_cast<double>(random.Below(12));
      if (falling) latency = least = std::min(least, latency);
      table.Set(i, f, latency);
    }
  }
  return table;
}

TEST_CASE("threshold search, dynamic programming and brute force agree on random tables") {
  Random random(8);
  ThresholdSearch search;
  MinMaxDp dp;
  int solvable = 0;
  for (std::int64_t n = 0; n < std::max<std::int64_t>(Scaled(1000), 200); ++n) {
    const LatencyTable table = RandomTable(random, n % 2 == 0);
    std::vector<std::int32_t> a(table.models()), b(table.models()), c(table.models());
    const double by_search = search.Solve(table, a);
    const double by_dp = dp.Solve(table, b);
    const double exactly = dp.Solve(table, c, GpuUse::kExactly);
    REQUIRE(by_search == BruteForce(table, GpuUse::kAtMost));
    REQUIRE(by_dp == by_search);
    REQUIRE(exactly == BruteForce(table, GpuUse::kExactly));
    if (by_search < kInf) {
      ++solvable;
      REQUIRE(Slowest(table, a) <= by_search);
      REQUIRE(Slowest(table, b) == by_dp);
      REQUIRE(Sum(a) <= table.gpus());
      REQUIRE(Sum(b) <= table.gpus());
    }
    if (exactly < kInf) {
      REQUIRE(Slowest(table, c) == exactly);
      REQUIRE(Sum(c) == table.gpus());
    }
    // If more GPUs are never slower, both forms agree.
    if (n % 2 == 0) REQUIRE(exactly == by_search);
  }
  CHECK(solvable > 100);
}

TEST_CASE("threshold search uses the fewest GPUs for its latency") {
  Random random(3);
  ThresholdSearch search;
  for (int n = 0; n < 200; ++n) {
    const LatencyTable table = RandomTable(random, true);
    std::vector<std::int32_t> gpus(table.models());
    const double latency = search.Solve(table, gpus);
    if (!(latency < kInf) || Sum(gpus) == 0) continue;
    LatencyTable fewer(table.models(), Sum(gpus) - 1);
    for (std::size_t i = 0; i < table.models(); ++i) {
      for (std::int32_t f = 0; f <= fewer.gpus(); ++f) fewer.Set(i, f, table.at(i, f));
    }
    REQUIRE(BruteForce(fewer, GpuUse::kAtMost) > latency);
  }
}

TEST_CASE("unsolvable tables have no allocation, and empty ones a zero one") {
  ThresholdSearch search;
  MinMaxDp dp;
  std::vector<std::int32_t> gpus(2, 7);
  const LatencyTable nothing(2, 4);
  CHECK(search.Solve(nothing, gpus) == kInf);
  CHECK(dp.Solve(nothing, gpus) == kInf);

  LatencyTable idle(2, 0);  // no GPUs and no requests
  idle.Set(0, 0, 0);
  idle.Set(1, 0, 0);
  CHECK(search.Solve(idle, gpus) == 0);
  CHECK(dp.Solve(idle, gpus, GpuUse::kExactly) == 0);
  CHECK(gpus == std::vector<std::int32_t>{0, 0});

  LatencyTable nan(1, 1);
  nan.Set(0, 0, std::numeric_limits<double>::quiet_NaN());
  nan.Set(0, 1, 3);
  gpus.resize(1);
  CHECK(search.Solve(nan, gpus) == 3);
  CHECK(dp.Solve(nan, gpus) == 3);

  CHECK(search.Solve(LatencyTable(0, 3), {}) == 0);
  CHECK(dp.Solve(LatencyTable(0, 3), {}) == 0);
  CHECK(dp.Solve(LatencyTable(0, 3), {}, GpuUse::kExactly) == kInf);
  CHECK(LatencyTable(1, -5).gpus() == 0);
}

}  // namespace
}  // namespace takt
