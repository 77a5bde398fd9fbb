// Planning: the inner problem by both methods on one table, and whole plans with their tables.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "takt/base/random.h"
#include "takt/planning/allocation.h"
#include "takt/planning/cascade.h"

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

// Two threads of the host.
void OnTwoThreads(std::size_t n, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < n; i = next++) body(i);
  };
  std::thread other(work);
  work();
  other.join();
}

// Three models with 12 shapes each, 1,000 profiled requests, thresholds 0 to 101 for two judges.
CascadeProblem ThreeModels(std::int32_t gpus) {
  constexpr std::int32_t kTp[] = {1, 2, 4, 8}, kPp[] = {1, 2, 4};
  CascadeProblem problem;
  for (const char* name : {"llama-3.1-8b", "qwen3-32b", "llama-3.1-70b"}) {
    problem.models.push_back(
        {.name = name, .shapes = *FindShapes(std::string("aic/") + name + "/h100/bf16", kTp, kPp)});
  }
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    CascadeSample s;
    s.prompt = 1 + static_cast<std::int32_t>(random.LogNormal(std::log(400), 0.8));
    const double z = random.Normal();
    for (const double mean : {55.0, 75.0, 92.0}) {
      s.outputs.push_back(1 + static_cast<std::int32_t>(random.LogNormal(std::log(600), 0.8)));
      s.scores.push_back(std::clamp(mean + 12 * (0.8 * z + 0.6 * random.Normal()), 0.0, 100.0));
    }
    problem.sample.push_back(s);
  }
  problem.gpus = gpus;
  problem.rate = 0.3 * gpus;
  return problem;
}

// The whole plan: rate curves, the table, all routings, the plan, and its simulation.
void BM_PlanCascade(benchmark::State& state) {
  const CascadeProblem problem = ThreeModels(static_cast<std::int32_t>(state.range(0)));
  double routings = 0;
  for (auto _ : state) {
    const auto planner = CascadePlanner::Create(problem, {}, OnTwoThreads);
    if (!planner.ok()) return state.SkipWithError(std::string(planner.status().message()).c_str());
    const auto plan = planner->Plan({.quality_floor = 80});
    if (!plan.ok()) return state.SkipWithError(std::string(plan.status().message()).c_str());
    benchmark::DoNotOptimize(plan->latency);
    routings = static_cast<double>(planner->routings());
  }
  state.counters["routings"] = routings;
}
BENCHMARK(BM_PlanCascade)
    ->ArgName("gpus")
    ->Arg(32)
    ->Arg(80)
    ->Arg(1024)
    ->Unit(benchmark::kMillisecond)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

// Reuses the tables: another goal or rate needs no new ones.
void BM_PlanAgain(benchmark::State& state) {
  CascadeOptions options;
  options.simulated = 0;
  const auto planner = CascadePlanner::Create(ThreeModels(32), options, OnTwoThreads);
  if (!planner.ok()) return state.SkipWithError(std::string(planner.status().message()).c_str());
  for (auto _ : state) benchmark::DoNotOptimize(planner->Plan({.quality_floor = 80}));
}
BENCHMARK(BM_PlanAgain)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace takt
