// Queues in which no request fits, and memory with very many holders. The cost of one arrival or holder must not depend
// on their number.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/policy/fcfs.h"
#include "takt/policy/priority.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

TimePoint At(std::int64_t ns) { return TimePoint(Duration(ns)); }

Arrived Prompt(std::uint64_t id, std::int32_t tokens) {
  Arrived event;
  event.request.id = {id};
  event.request.prompt_tokens = {tokens};
  return event;
}

// Arrivals while many requests wait for memory that is being swapped to the host, with a plan after each. Argument: 0
// nothing else, 1 the gate, 2 a host tier of the prefix cache.
void BM_ArrivalsWhileStuck(benchmark::State& state) {
  const std::int64_t waiting = state.range(0);
  const StepLimits limits = {.tokens = {8192}};
  const bool gate = state.range(1) == 1, tier = state.range(1) == 2;
  auto made = BasicScheduler<Fcfs, SwapAll>::Create({.reserve_requests = 2 * waiting,
                                                     .kv_blocks = {10},
                                                     .cpu_blocks = {20},
                                                     .kv_watermark = 0,
                                                     .prefix_cache = gate || tier,
                                                     .prefix_cpu_blocks = {tier ? 10 : 0}});
  BasicScheduler<Fcfs, SwapAll>& scheduler = *made;
  if (gate) scheduler.On(TurnEnded{.workflow = {7}}, At(0));
  scheduler.On(Prompt(1, 144), At(0));
  const StepPlan& first = scheduler.Plan(At(0), limits);
  const RowResult row = {{1}, first.run[0].lane, 1, 0, 0};
  scheduler.Commit({first.id, std::span(&row, 1)}, At(0));
  scheduler.On(ToolCalled{.request = {1}}, At(0));
  std::uint64_t id = 1;
  for (std::int64_t i = 0; i < waiting; ++i) scheduler.On(Prompt(++id, 32), At(0));
  benchmark::DoNotOptimize(scheduler.Plan(At(0), limits));
  for (auto _ : state) {
    scheduler.On(Prompt(++id, 32), At(0));
    benchmark::DoNotOptimize(scheduler.Plan(At(0), limits));
  }
}
BENCHMARK(BM_ArrivalsWhileStuck)
    ->ArgNames({"waiting", "beside"})
    ->ArgsProduct({{1'000, 10'000, 100'000, 300'000}, {0, 1, 2}})
    ->Iterations(1'000);

// One plan that drops the KV of many holders for the first in line. Their tools have answered, or not yet.
void BM_Holders(benchmark::State& state) {
  const auto holders = static_cast<std::int32_t>(state.range(0));
  const bool answered = state.range(1) != 0;
  const StepLimits limits = {.tokens = {16 * holders}, .max_seqs = holders};
  for (auto _ : state) {
    auto made = BasicScheduler<Priority>::Create(
        {.max_running = holders, .reserve_requests = holders + 1, .kv_blocks = {holders}, .kv_watermark = 0});
    BasicScheduler<Priority>& scheduler = *made;
    for (std::int32_t i = 1; i <= holders; ++i) scheduler.On(Prompt(static_cast<std::uint64_t>(i), 15), At(0));
    const StepPlan& plan = scheduler.Plan(At(0), limits);
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) rows.push_back({e.request, e.lane, 1, 0, 0});
    scheduler.Commit({plan.id, rows}, At(0));
    for (std::int32_t i = 1; i <= holders; ++i) {
      const RequestId id = {static_cast<std::uint64_t>(i)};
      scheduler.On(ToolCalled{.request = id}, At(0));
      if (answered) scheduler.On(ToolReturned{id, {16}}, At(0));
    }
    Arrived all = Prompt(1'000'000, 16 * holders);
    all.request.priority = -1;
    scheduler.On(all, At(1));
    const auto start = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(scheduler.Plan(At(1), limits));
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  state.counters["ns_per_holder"] = benchmark::Counter(static_cast<double>(state.iterations()) * holders * 1e-9,
                                                       benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_Holders)
    ->ArgNames({"holders", "answered"})
    ->ArgsProduct({{1'000, 4'000, 16'000, 64'000}, {0, 1}})
    ->UseManualTime()
    ->Iterations(2);

}  // namespace
}  // namespace takt
