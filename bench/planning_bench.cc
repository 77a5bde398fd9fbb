// Planning: the inner problem both ways on one table, and whole plans with their tables.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "takt/base/random.h"
#include "takt/planning/allocation.h"

namespace takt {
namespace {

// Latencies that fall as GPUs are added, as tables of parallelism do.
LatencyTable TableOf(std::size_t models, std::int32_t gpus) {
  Random random(1);
  LatencyTable table(models, gpus);
  for (std::size_t i = 0; i < models; ++i) {
    const auto least = static_cast<std::int32_t>(i + 1);
    const double size = 20 * static_cast<double>(i + 1);
    for (std::int32_t f = least; f <= gpus; ++f) table.Set(i, f, size / f + 1e-3 * random.Uniform());
  }
  return table;
}

template <class Solver>
void BM_Inner(benchmark::State& state) {
  const auto models = static_cast<std::size_t>(state.range(0));
  const LatencyTable table = TableOf(models, static_cast<std::int32_t>(state.range(1)));
  std::vector<std::int32_t> gpus(models);
  Solver solver;
  for (auto _ : state) {
    benchmark::DoNotOptimize(solver.Solve(table, gpus));
    benchmark::DoNotOptimize(gpus.data());
  }
}
BENCHMARK(BM_Inner<MinMaxDp>)->ArgNames({"models", "gpus"})->Args({3, 32})->Args({3, 128})->Args({8, 256});
BENCHMARK(BM_Inner<ThresholdSearch>)->ArgNames({"models", "gpus"})->Args({3, 32})->Args({3, 128})->Args({8, 256});

}  // namespace
}  // namespace takt
