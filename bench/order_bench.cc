// From sketches of latencies to the order of agents (Kairos, section 7.7: 0.1 s at 10 agents, 4.3 s at 5,000). Also
// with one agent whose latencies have changed.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "takt/base/random.h"
#include "takt/learning/agent_order.h"
#include "takt/learning/latency_profile.h"

namespace takt {
namespace {

// Each agent's sketch holds 200 log-normal latencies, of medians from 1 to 150 s and sigmas from 0.2 to 1.2.
std::vector<LatencyDistribution> Sketches(std::size_t agents) {
  Random random(1);
  std::vector<LatencyDistribution> sketches(agents);
  for (LatencyDistribution& sketch : sketches) {
    const double mu = 5 * random.Uniform(), sigma = 0.2 + random.Uniform();
    for (int i = 0; i < 200; ++i) sketch.Observe(random.LogNormal(mu, sigma));
  }
  return sketches;
}

std::vector<AgentCurve> CurvesOf(const std::vector<LatencyDistribution>& sketches) {
  std::vector<AgentCurve> curves;
  for (const LatencyDistribution& sketch : sketches) curves.push_back({{curves.size() + 1}, sketch.curve()});
  return curves;
}

void BM_AgentOrder(benchmark::State& state, AgentOrderBy by) {
  const std::vector<LatencyDistribution> sketches = Sketches(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    AgentOrder order;
    order.Fit(CurvesOf(sketches), {.by = by});
    benchmark::DoNotOptimize(order.ranked().data());
  }
  state.counters["sketch_bytes"] = sizeof(LatencyDistribution) + 256 * sizeof(std::int64_t);
}
BENCHMARK_CAPTURE(BM_AgentOrder, classical, AgentOrderBy::kClassical)
    ->ArgName("agents")
    ->ArgsProduct({{10, 100, 1000, 5000}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AgentOrder, smacof, AgentOrderBy::kSmacof)
    ->ArgName("agents")
    ->ArgsProduct({{10, 100, 1000, 5000}})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AgentOrder, mean, AgentOrderBy::kMean)
    ->ArgName("agents")
    ->ArgsProduct({{10, 100, 1000, 5000}})
    ->Unit(benchmark::kMillisecond);

void BM_AgentOrderOneChanged(benchmark::State& state) {
  const std::vector<AgentCurve> curves = CurvesOf(Sketches(static_cast<std::size_t>(state.range(0))));
  AgentOrder order;
  order.Fit(curves);
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(order.Place({curves[i].agent, curves[(i + 1) % curves.size()].remaining}));
    i = (i + 1) % curves.size();
  }
}
BENCHMARK(BM_AgentOrderOneChanged)
    ->ArgName("agents")
    ->Arg(10)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(5000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace takt
