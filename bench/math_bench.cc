// takt's own logarithms and powers compared with the C library's (docs/project/determinism.md).
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/random.h"

namespace takt {
namespace {

// Arguments of every size from 2^-8 to 2^8, one call after another.
template <class F>
void Run(benchmark::State& state, F f) {
  Random random(1);
  std::vector<double> xs(1024);
  for (double& x : xs) x = exact::Exp2(16 * random.Uniform() - 8);
  for (auto _ : state) {
    for (const double x : xs) benchmark::DoNotOptimize(f(x));
  }
  state.SetItemsProcessed(state.iterations() * 1024);
}

BENCHMARK_CAPTURE(Run, exact_log, [](double x) { return exact::Log(x); });
BENCHMARK_CAPTURE(Run, std_log, [](double x) { return std::log(x); });
BENCHMARK_CAPTURE(Run, exact_log1p, [](double x) { return exact::Log1p(x); });
BENCHMARK_CAPTURE(Run, std_log1p, [](double x) { return std::log1p(x); });
BENCHMARK_CAPTURE(Run, exact_exp, [](double x) { return exact::Exp(x); });
BENCHMARK_CAPTURE(Run, std_exp, [](double x) { return std::exp(x); });
BENCHMARK_CAPTURE(Run, exact_pow, [](double x) { return exact::Pow(x, 0.37); });
BENCHMARK_CAPTURE(Run, std_pow, [](double x) { return std::pow(x, 0.37); });

}  // namespace
}  // namespace takt
