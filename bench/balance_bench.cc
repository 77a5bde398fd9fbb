// Cost of a placement decision among n instances of three profiles. Each instance has as many outstanding calls as it
// runs. After each decision the oldest placed call ends.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/least_loaded.h"
#include "takt/placement/workload_balance.h"
#include "takt/sim/profiles.h"

namespace takt {
namespace {

std::vector<InstanceState> InstancesOf(std::int64_t n) {
  static std::deque<InstanceProfile> profiles;
  profiles.clear();
  for (const char* id :
       {"aic/llama-3.1-70b/a100/bf16/tp4", "aic/llama-3.1-70b/l40s/bf16/tp4", "aic/llama-3.1-70b/h100/bf16/tp4"}) {
    profiles.push_back({id, std::make_shared<const PreparedCostModel>(FindProfile(id)->cost)});
  }
  std::vector<InstanceState> instances;
  for (std::uint32_t i = 0; i < n; ++i) {
    instances.push_back({.instance = {.id = {i + 1u}}, .profile = &profiles[i % 3], .slot = i});
  }
  return instances;
}

template <class Placer>
void Decide(benchmark::State& state, Placer placer) {
  const std::vector<InstanceState> instances = InstancesOf(state.range(0));
  for (const InstanceState& i : instances) placer.Up(i, {});
  const auto outstanding = static_cast<std::uint32_t>(32 * state.range(0));
  std::vector<std::uint32_t> place_of(outstanding);
  std::vector<RequestState> calls(outstanding);
  Random random(1);
  for (std::uint32_t s = 0; s < outstanding; ++s) {
    calls[s].slot = s;
    calls[s].request.prompt_tokens = {static_cast<std::int32_t>(200 + random.Below(12'000))};
    calls[s].request.output_tokens = Estimate::Exact(static_cast<double>(5 + random.Below(700)));
  }
  TimePoint now{};
  std::uint32_t next = 0;
  const auto decide = [&] {
    now += std::chrono::milliseconds(1);
    RequestState& r = calls[next];
    placer.Prepare(r, now);
    std::uint32_t best = 0;
    double best_score = -1e308;
    for (const InstanceState& i : instances) {
      const double score = placer.Score(r, i, now);
      if (score > best_score) best = i.slot, best_score = score;
    }
    placer.Placed(r, instances[best], now);
    placer.Started(r, instances[best], now);
    place_of[next] = best;
    next = next + 1 == outstanding ? 0 : next + 1;
  };
  for (std::uint32_t s = 0; s < 20 * outstanding; ++s) {
    if (s >= outstanding) placer.Released(calls[next], instances[place_of[next]], now);
    decide();
  }
  const std::size_t before = allocations;
  for (auto _ : state) {
    placer.Released(calls[next], instances[place_of[next]], now);
    decide();
  }
  state.counters["allocations"] = static_cast<double>(allocations - before);
}

AnyPlacement Balance() {
  WorkloadBalance balance;
  balance.alpha = 0.2;
  return balance;
}

void BM_Balance(benchmark::State& state) { Decide(state, Balance()); }
void BM_LeastLoaded(benchmark::State& state) { Decide(state, AnyPlacement(LeastLoaded{})); }
BENCHMARK(BM_Balance)->ArgName("instances")->Arg(4)->Arg(64)->Arg(1024);
BENCHMARK(BM_LeastLoaded)->ArgName("instances")->Arg(4)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace takt
