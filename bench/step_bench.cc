// One step of a busy engine: Plan and Commit at 256 running, with churn, against the least cost of such a step.
//
// Read the two as a ratio: absolute times depend on the machine.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "counting_new.h"
#include "step_hosts.h"
#include "takt/base/random.h"
#include "takt/metrics/request_metrics.h"
#include "takt/policy/fair_share.h"
#include "takt/policy/fcfs.h"
#include "takt/policy/metered.h"
#include "takt/policy/priority.h"
#include "takt/policy/room_to_pass.h"
#include "takt/policy/sjf.h"
#include "takt/policy/urgency.h"
#include "takt/rivals/policy/mlfq.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

template <class SchedulerT, class Policy>
void Steps(benchmark::State& state, Policy policy, bool by_exception = false, KvOracle* oracle = nullptr,
           RequestMetrics* metrics = nullptr, bool governed = false) {
  const auto running = static_cast<int>(state.range(0));
  const std::int64_t waiting = state.range(1);
  SchedulerOptions options = {.max_running = running, .reserve_requests = running + waiting + 64};
  if (oracle == nullptr) options.kv_blocks = {1 << 20};
  else options.kv = KvMode::kOracle;
  if (governed) {
    options.max_waiting_tokens = options.tenant_max_waiting_tokens = std::int64_t{1} << 40;
    options.max_waiting = options.tenant_max_waiting = std::int64_t{1} << 30;
    options.class_limits = {{.priority = 0, .max_wait = 1e9}, {.priority = 1, .max_wait = 1e9}, {.priority = 2}};
  }
  auto scheduler = SchedulerT::Create(options, std::move(policy), {}, oracle);
  ChurnHost host(*std::move(scheduler), running, waiting, by_exception, governed || metrics != nullptr);
  if (metrics != nullptr) host.scheduler().Watch(metrics->observer());
  for (int i = 0; i < 2000; ++i) host.Step();
  const std::size_t before = allocations;
  std::uint64_t in_bench = 0;
  for (auto _ : state) {
    state.SetIterationTime(host.Step().count());
    ++in_bench;
  }
  state.counters["allocs_per_step"] = static_cast<double>(allocations - before) / static_cast<double>(in_bench);
  state.counters["ns_per_row"] = benchmark::Counter(static_cast<double>(running) * static_cast<double>(in_bench) * 1e-9,
                                                    benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void BM_Step(benchmark::State& state) { Steps<BasicScheduler<Sjf>>(state, Sjf{}); }
BENCHMARK(BM_Step)
    ->ArgNames({"running", "waiting"})
    ->ArgsProduct({{256}, {1'000, 10'000, 100'000, 1'000'000}})
    ->Args({4096, 10'000})
    ->UseManualTime();

// The same with histograms by class.
void BM_StepMeasured(benchmark::State& state) {
  const auto metrics = *RequestMetrics::Create({.max_requests = 1 << 20});
  Steps<BasicScheduler<Sjf>>(state, Sjf{}, false, nullptr, metrics.get());
}
BENCHMARK(BM_StepMeasured)
    ->ArgNames({"running", "waiting"})
    ->Args({256, 1'000})
    ->Args({256, 10'000})
    ->Args({256, 100'000})
    ->UseManualTime();

// The same with bounds of tenants and time limits of classes.
void BM_StepBounded(benchmark::State& state) {
  const auto metrics = *RequestMetrics::Create({.max_requests = 1 << 20});
  Steps<BasicScheduler<Sjf>>(state, Sjf{}, false, nullptr, metrics.get(), true);
}
// The same with quotas of tokens per second.
void BM_StepGoverned(benchmark::State& state) {
  const auto metrics = *RequestMetrics::Create({.max_requests = 1 << 20});
  Steps<BasicScheduler<Metered<Sjf>>>(state, Metered(Sjf{}, {.rate = 1e6}), false, nullptr, metrics.get(), true);
}
BENCHMARK(BM_StepBounded)->ArgNames({"running", "waiting"})->Args({256, 1'000})->Args({256, 10'000})->UseManualTime();
BENCHMARK(BM_StepGoverned)->ArgNames({"running", "waiting"})->Args({256, 1'000})->Args({256, 10'000})->UseManualTime();

// The host reports only the rows that differed from the plan.
void BM_StepByException(benchmark::State& state) { Steps<BasicScheduler<Sjf>>(state, Sjf{}, true); }
BENCHMARK(BM_StepByException)
    ->ArgNames({"running", "waiting"})
    ->Args({256, 10'000})
    ->Args({4096, 10'000})
    ->UseManualTime();

// A host that counts KV itself, in blocks of 16 tokens.
void BM_StepOracle(benchmark::State& state) {
  EndlessMemory memory({16});
  Steps<BasicScheduler<Sjf>>(state, Sjf{}, false, &memory);
}
void BM_StepOracleByException(benchmark::State& state) {
  EndlessMemory memory({16});
  Steps<BasicScheduler<Sjf>>(state, Sjf{}, true, &memory);
}
BENCHMARK(BM_StepOracle)->ArgNames({"running", "waiting"})->Args({256, 10'000})->Args({4096, 10'000})->UseManualTime();
BENCHMARK(BM_StepOracleByException)
    ->ArgNames({"running", "waiting"})
    ->Args({256, 10'000})
    ->Args({4096, 10'000})
    ->UseManualTime();

// Policies that charge for the tokens of each step.
void BM_StepCharging(benchmark::State& state) { Steps<BasicScheduler<FairShare>>(state, FairShare{}); }
void BM_StepChargingByException(benchmark::State& state) { Steps<BasicScheduler<FairShare>>(state, FairShare{}, true); }
void BM_StepLevelsByException(benchmark::State& state) { Steps<BasicScheduler<Mlfq>>(state, Mlfq{}, true); }
BENCHMARK(BM_StepCharging)->ArgNames({"running", "waiting"})->Args({256, 10'000})->UseManualTime();
BENCHMARK(BM_StepChargingByException)
    ->ArgNames({"running", "waiting"})
    ->Args({256, 10'000})
    ->Args({4096, 10'000})
    ->UseManualTime();
BENCHMARK(BM_StepLevelsByException)
    ->ArgNames({"running", "waiting"})
    ->Args({256, 10'000})
    ->Args({4096, 10'000})
    ->UseManualTime();

void BM_StepErased(benchmark::State& state) { Steps<Scheduler>(state, AnyPolicy(Sjf{})); }
BENCHMARK(BM_StepErased)->ArgNames({"running", "waiting"})->Args({256, 10'000})->UseManualTime();

// takt's default, with a workflow for each three calls, against an order by the same prediction.
void BM_DefaultSjf(benchmark::State& state) { Steps<BasicScheduler<Sjf>>(state, Sjf{}); }
void BM_DefaultRoom(benchmark::State& state) { Steps<BasicScheduler<RoomToPass>>(state, RoomToPass{}); }
BENCHMARK(BM_DefaultSjf)
    ->Name("BM_Default/sjf")
    ->ArgNames({"running", "waiting"})
    ->ArgsProduct({{256}, {1'000, 100'000, 1'000'000}})
    ->UseManualTime();
BENCHMARK(BM_DefaultRoom)
    ->Name("BM_Default/room_to_pass")
    ->ArgNames({"running", "waiting"})
    ->ArgsProduct({{256}, {1'000, 100'000, 1'000'000}})
    ->UseManualTime();

// Urgency against arrival order, with the same requests.
void BM_UrgencyFcfs(benchmark::State& state) { Steps<BasicScheduler<Fcfs>>(state, Fcfs{}); }
void BM_Urgency(benchmark::State& state) { Steps<BasicScheduler<Urgency>>(state, Urgency{}); }
BENCHMARK(BM_UrgencyFcfs)
    ->Name("BM_Urgency/fcfs")
    ->ArgNames({"running", "waiting"})
    ->Args({256, 1'000})
    ->Args({256, 100'000})
    ->UseManualTime();
BENCHMARK(BM_Urgency)
    ->Name("BM_Urgency/urgency")
    ->ArgNames({"running", "waiting"})
    ->Args({256, 1'000})
    ->Args({256, 100'000})
    ->UseManualTime();

// A step next to waiting requests that a ceiling keeps out. 64 urgent requests run, and as many of the others as the
// ceiling allows. `held_end`: requests of the held class end and arrive; otherwise urgent ones do. `by_kv`: KV blocks
// reach the ceiling, not rows.
template <class Policy>
void HeldOut(benchmark::State& state, Policy policy) {
  const auto held = state.range(0);
  const bool held_end = state.range(1) != 0, by_kv = state.range(2) != 0;
  auto scheduler = BasicScheduler<Policy>::Create({.max_running = by_kv ? 512 : 256,
                                                   .reserve_requests = held + 1024,
                                                   .kv_blocks = {by_kv ? 2 * 128 * 5'632 : 1 << 20},
                                                   .class_limits = {{.priority = 0}, {.priority = 5, .ceiling = 0.5}}},
                                                  std::move(policy));
  const StepLimits limits{.tokens = Tokens::Max(), .max_seqs = by_kv ? 512 : 256};
  Random random(1);
  std::int64_t now = 0;
  std::uint64_t last_id = 0;
  const auto arrive = [&](bool urgent) {
    Request r{.id = {++last_id}, .prompt_tokens = {!urgent && by_kv ? 90'000 : 32}, .priority = urgent ? 0 : 5};
    r.output_tokens = Estimate::Exact(static_cast<double>(1 + random.Below(1000)));
    scheduler->On(Arrived{r}, TimePoint(Duration(now)));
    return r.id.value;
  };
  std::vector<bool> urgent(1 << 26);
  for (std::int64_t i = 0; i < held + 128; ++i) arrive(false);
  for (int i = 0; i < 64; ++i) urgent[arrive(true)] = true;
  std::vector<RowResult> rows;
  std::vector<std::size_t> may_end;
  using Clock = std::chrono::steady_clock;
  const auto step = [&] {
    const auto start = Clock::now();
    const StepPlan& plan = scheduler->Plan(TimePoint(Duration(now += 1'000'000)), limits);
    const auto planned = Clock::now();
    rows.clear(), may_end.clear();
    for (const PlanEntry& e : plan.run) {
      if (e.samples() && urgent[e.request.value] != held_end) may_end.push_back(rows.size());
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples() ? 1 : 0), 0, 0});
    }
    int ended = 0;
    for (int ends = random.Chance(0.2) ? 2 : 1; ends > 0 && !may_end.empty(); --ends) {
      RowResult& row = rows[may_end[random.Below(may_end.size())]];
      ended += row.flags == 0 ? 1 : 0;
      row.flags = RowResult::kFinished;
    }
    const auto computed = Clock::now();
    scheduler->Commit({plan.id, rows}, TimePoint(Duration(now)));
    for (; ended > 0; --ended) {
      const std::uint64_t id = arrive(!held_end);
      if (!held_end) urgent[id] = true;
    }
    return std::chrono::duration<double>((planned - start) + (Clock::now() - computed)).count();
  };
  for (int i = 0; i < 500; ++i) step();
  const std::size_t before = allocations;
  std::uint64_t in_bench = 0;
  for (auto _ : state) state.SetIterationTime(step()), ++in_bench;
  state.counters["allocs_per_step"] = static_cast<double>(allocations - before) / static_cast<double>(in_bench);
}
void BM_HeldOutFcfs(benchmark::State& state) { HeldOut(state, Fcfs{}); }
void BM_HeldOutPriority(benchmark::State& state) { HeldOut(state, Priority{}); }
BENCHMARK(BM_HeldOutFcfs)
    ->ArgNames({"held", "held_end", "by_kv"})
    ->ArgsProduct({{100, 10'000}, {0, 1}, {0, 1}})
    ->Iterations(2'000)
    ->UseManualTime();
BENCHMARK(BM_HeldOutPriority)
    ->ArgNames({"held", "held_end", "by_kv"})
    ->ArgsProduct({{100, 10'000}, {0, 1}, {0, 1}})
    ->Iterations(2'000)
    ->UseManualTime();

// ---- exceptional steps: linear in the rows, or nearly ---------------------------------------------------------

// Time of a plan in which all rows ask an oracle for a block.
void BM_OracleGrowth(benchmark::State& state) {
  const auto rows = static_cast<std::int32_t>(state.range(0));
  EndlessMemory memory;
  auto scheduler = BasicScheduler<Fcfs>::Create(
      {.max_running = rows, .reserve_requests = 2 * rows, .kv = KvMode::kOracle}, Fcfs{}, {}, &memory);
  GrowthHost host(*std::move(scheduler), rows);
  for (auto _ : state) state.SetIterationTime(host.Step().count());
}
BENCHMARK(BM_OracleGrowth)->ArgName("rows")->RangeMultiplier(4)->Range(256, 16'384)->UseManualTime();

// Time of a plan in which better requests displace all rows, one for each; `full`: memory is full, too.
void BM_BetterRanks(benchmark::State& state) {
  const auto rows = static_cast<std::int32_t>(state.range(0));
  const bool full = state.range(1) != 0;
  SchedulerOptions options = {.max_running = rows,
                              .reserve_requests = 3 * rows,
                              .preempt = PreemptMode::kByRank,
                              .kv_blocks = {full ? 2 * rows : 1 << 20},
                              .kv_watermark = 0};
  auto scheduler = BasicScheduler<Priority>::Create(options, Priority{});
  const StepLimits limits{.tokens = Tokens::Max(), .max_seqs = rows};
  TimePoint now{};
  std::int32_t wave = 0;
  std::vector<RowResult> results;
  const auto arrive = [&] {
    ++wave;
    for (std::int32_t i = 1; i <= rows; ++i) {
      const auto id = static_cast<std::uint64_t>(wave) << 32 | static_cast<std::uint64_t>(i);
      scheduler->On(Arrived{{.id = {id}, .prompt_tokens = {16}, .priority = -wave}}, now);
    }
  };
  const auto commit = [&](const StepPlan& plan) {
    results.clear();
    for (const PlanEntry& e : plan.run) results.push_back({e.request, e.lane, 1});
    scheduler->Commit({plan.id, results}, now);
  };
  arrive();
  commit(scheduler->Plan(now, limits));
  for (auto _ : state) {
    arrive();
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const StepPlan& plan = scheduler->Plan(now += Duration(1'000'000), limits);
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
    if (plan.preempted.size() != static_cast<std::size_t>(rows)) state.SkipWithError("not all gave way");
    commit(plan);
    for (const Preemption& p : plan.preempted) scheduler->On(Cancelled{p.request}, now);
    scheduler->Plan(now, {.tokens = {0}});  // forgets those
  }
}
BENCHMARK(BM_BetterRanks)
    ->ArgNames({"rows", "full"})
    ->ArgsProduct({{256, 1'024, 4'096, 16'384}, {0, 1}})
    ->UseManualTime();

// Time of a step, over as many steps as blocks are missing: in each step the newest request is preempted and returns.
void BM_ShortOfMemory(benchmark::State& state) {
  const auto rows = static_cast<std::int32_t>(state.range(0));
  auto scheduler = BasicScheduler<Fcfs>::Create({.max_running = rows,
                                                 .reserve_requests = 3 * rows,
                                                 .kv_block_tokens = {1},
                                                 .kv_blocks = {48 * rows},
                                                 .kv_watermark = 0},
                                                Fcfs{});
  const StepLimits limits{.tokens = Tokens::Max(), .max_seqs = rows};
  TimePoint now{};
  std::uint64_t last_id = 0;
  for (std::int32_t i = 1; i <= rows; ++i) {
    scheduler->On(Arrived{{.id = {++last_id}, .prompt_tokens = {1 + i % 48}}}, now);
  }
  std::vector<RowResult> results;
  for (auto _ : state) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const StepPlan& plan = scheduler->Plan(now += Duration(1'000'000), limits);
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - start).count());
    results.clear();
    for (const PlanEntry& e : plan.run) {
      const bool ends = e.position > 96;
      results.push_back({e.request, e.lane, static_cast<std::uint16_t>(e.samples()), 0,
                         static_cast<std::uint8_t>(ends ? RowResult::kFinished : 0)});
      if (ends) scheduler->On(Arrived{{.id = {++last_id}, .prompt_tokens = {1 + static_cast<int>(last_id % 48)}}}, now);
    }
    scheduler->Commit({plan.id, results}, now);
  }
  state.counters["preempted"] = benchmark::Counter(static_cast<double>(scheduler->stats().preempted_recompute),
                                                   benchmark::Counter::kAvgIterations);
}
BENCHMARK(BM_ShortOfMemory)->ArgName("rows")->Arg(256)->UseManualTime();

// The lower bound: one cache line a row read and written, one entry written, and a second pass that reads the results.
void BM_StepFloor(benchmark::State& state) {
  struct alignas(64) FloorRow {
    std::uint64_t id = 0;
    std::int32_t known = 0, computed = 0, scheduled = 0, ceiling = 1 << 30;
    std::int32_t rest[10] = {};
  };
  const auto running = static_cast<std::size_t>(state.range(0));
  std::vector<FloorRow> rows(running);
  std::vector<PlanEntry> entries(running);
  std::vector<RowResult> results(running);
  std::uint64_t in_bench = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < running; ++i) {
      FloorRow& row = rows[i];
      entries[i] = {{row.id}, static_cast<std::uint32_t>(i), 1, row.scheduled, 0, PlanEntry::kSamples};
      row.scheduled += row.scheduled < row.ceiling ? 1 : 0;
    }
    benchmark::DoNotOptimize(entries.data());
    benchmark::ClobberMemory();
    for (std::size_t i = 0; i < running; ++i) {
      FloorRow& row = rows[entries[i].lane];
      row.computed += entries[i].tokens;
      row.known += results[i].tokens;
    }
    benchmark::ClobberMemory();
    ++in_bench;
  }
  state.counters["ns_per_row"] = benchmark::Counter(static_cast<double>(running) * static_cast<double>(in_bench) * 1e-9,
                                                    benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(BM_StepFloor)->ArgName("running")->Arg(256);

}  // namespace
}  // namespace takt
