// Costs that a cascade adds to the path of a request, and costs of watching it and changing plans.
//
//   BM_Cascade/ALIVE      a request's three decisions (arrival, answer, score) while ALIVE others wait for their judge
//   BM_Router             one instance's share of the same: arrival, placement, end
//   BM_DriftSampler       arrival, end and score of a request, in the drift sampler
//   BM_DetectDrift        a window against a reference of 500 requests
//   BM_PlanRollout/GPUS   from one random plan to another
//
// allocs: per request, in the loop; it must be 0 for the first three.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "counting_new.h"
#include "fmt/format.h"
#include "takt/base/random.h"
#include "takt/cascade_router.h"
#include "takt/placement/least_loaded.h"
#include "takt/planning/drift.h"
#include "takt/planning/rollout.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace {

using namespace takt;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

void CountAllocations(benchmark::State& state, std::size_t before) {
  state.counters["allocs"] =
      benchmark::Counter(static_cast<double>(allocations - before), benchmark::Counter::kAvgIterations);
}

void BM_Cascade(benchmark::State& state) {
  const auto others = static_cast<std::uint64_t>(state.range(0));
  auto cascade = *CascadeRouter::Create(
      {.stages = {{.accept_at = 74}, {.accept_at = 64}, {}}, .reserve_requests = state.range(0) + 1});
  for (std::uint64_t id = 1; id <= others; ++id) cascade.OnArrival({id}), cascade.OnAnswered({id}, 0, At(0));
  std::uint64_t id = others;
  const std::size_t before = allocations;
  for (auto _ : state) {
    ++id;
    cascade.OnArrival({id});
    cascade.OnAnswered({id}, 0, At(1));
    benchmark::DoNotOptimize(cascade.OnJudged({id}, 0, 80, At(1)));
  }
  CountAllocations(state, before);
}

void BM_Router(benchmark::State& state) {
  auto router = *BasicRouter<Fcfs, LeastLoaded>::Create({}, Fcfs{}, LeastLoaded{});
  router.On(InstanceUp{{.id = {1}}}, At(0));
  std::uint64_t id = 0;
  const auto once = [&] {
    ++id;
    router.On(Arrived{{.id = {id}, .prompt_tokens = Tokens{100}}}, At(1));
    benchmark::DoNotOptimize(router.Place(At(1)));
    router.On(RequestEnded{{id}, {1}}, At(1));
  };
  once();
  const std::size_t before = allocations;
  for (auto _ : state) once();
  CountAllocations(state, before);
}

void BM_DriftSampler(benchmark::State& state) {
  DriftSampler sampler(3, {});
  std::uint64_t id = 0;
  double clock = 0;
  const std::size_t before = allocations;
  for (auto _ : state) {
    clock += 0.01;
    const bool chosen = sampler.OnArrival({++id}, Tokens{400}, At(clock));
    sampler.OnFinished({id}, Tokens{600});
    if (chosen) sampler.OnScore(0, 70);
  }
  CountAllocations(state, before);
}

WorkloadSample Draw(int requests, Random& random) {
  WorkloadSample sample;
  sample.scores.resize(3);
  for (int i = 0; i < requests; ++i) {
    sample.gaps.push_back(random.Exponential());
    sample.prompts.push_back(random.LogNormal(6, 0.8));
    sample.outputs.push_back(random.LogNormal(6, 0.8));
    for (auto& scores : sample.scores) scores.push_back(100 * random.Uniform());
  }
  return sample;
}

void BM_DetectDrift(benchmark::State& state) {
  Random random(1);
  const WorkloadSample reference = Draw(500, random);
  std::vector<WorkloadSample> recent;
  for (int i = 0; i < 8; ++i) recent.push_back(Draw(50, random));
  for (auto _ : state) benchmark::DoNotOptimize(DetectDrift(reference, recent, {}));
}

void BM_PlanRollout(benchmark::State& state) {
  const int gpus = static_cast<int>(state.range(0));
  Random random(2);
  RolloutProblem problem{.replicas = {}, .gpus = {gpus}, .needed = {0, 0, 0}};
  std::vector<double> rates(6);
  for (int turn = 0; turn < 2; ++turn) {  // fills all GPUs, with different plans
    int left = gpus;
    while (left > 0) {
      const int model = static_cast<int>(random.Below(3));
      const int size = 1 << random.Below(4);
      if (size > left) continue;
      left -= size;
      const auto same = std::ranges::find_if(
          problem.replicas, [&](const RolloutReplicas& r) { return r.model == model && r.gpus == size; });
      RolloutReplicas& r =
          same != problem.replicas.end()
              ? *same
              : problem.replicas.emplace_back(RolloutReplicas{.name = fmt::format("m{} x{}", model, size),
                                                              .model = model,
                                                              .gpus = size,
                                                              .rate = std::pow(size, 0.9)});
      ++(turn == 0 ? r.from : r.to);
      rates[static_cast<std::size_t>(3 * turn + model)] += r.rate;
    }
  }
  for (std::size_t i = 0; i < 3; ++i) problem.needed[i] = 0.8 * std::min(rates[i], rates[3 + i]);
  Rollout rollout;
  for (auto _ : state) rollout = *PlanRollout(problem);
  state.counters["steps"] = static_cast<double>(rollout.steps.size());
  state.counters["seconds"] = rollout.seconds;
  state.SetLabel(std::string(Name(rollout.status)));
}

BENCHMARK(BM_Cascade)->Arg(0)->Arg(1000)->Arg(100'000);
BENCHMARK(BM_Router);
BENCHMARK(BM_DriftSampler);
BENCHMARK(BM_DetectDrift)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_PlanRollout)->Arg(32)->Arg(80)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace
