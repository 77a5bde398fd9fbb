// Ten thousand holdings: look-up of a long prompt, eviction, the gate's walk, a whole turn. Curves: cost of one victim,
// pin or turn event among n; `ratio` is relative to the smallest n.
// Use --benchmark_enable_random_interleaving=true and --benchmark_repetitions=9 to interleave policies and report the
// spread.
#include "takt/turns/holdings.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/turns/return_times.h"
#include "takt/rivals/retention/continuum.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/retention/lfu.h"
#include "takt/turns/retention/lru.h"
#include "takt/turns/retention/shortest.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

using Hashes = std::vector<std::uint64_t>;

constexpr std::uint64_t kShort = 10'000, kLong = 100;  // workflows
constexpr std::int32_t kVictims = 4'096;
constexpr std::size_t kShortChunks = 20, kLongChunks = 2'200;

// Processor time: other programs may share the machine.
double SecondsSince(std::clock_t start) { return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC; }

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

void GoOn(Hashes& prompt, std::size_t more, std::uint64_t seed) {
  for (std::size_t i = 0; i < more; ++i) prompt.push_back(Mix64((prompt.empty() ? 0 : prompt.back()) ^ Mix64(seed)));
}

const ReturnTimes& Times() {
  static const ReturnTimes times;
  return times;
}

std::vector<Hashes> Prompts() {
  std::vector<Hashes> prompts(kShort + kLong);
  for (std::uint64_t w = 0; w < prompts.size(); ++w) {
    prompts[w].reserve(4 * kLongChunks);
    GoOn(prompts[w], w < kShort ? kShortChunks : kLongChunks, w);
  }
  return prompts;
}

// Both caches alternate.
template <class Policy>
struct ByHolding {
  explicit ByHolding(const Policy& policy) : cache(policy, {64}) {
    cache.MakeRoom(800'000);
    cache.MakeRoomToHold(2 * kShort);
    cache.dropped().reserve(1'000'000);
  }
  void Turn(const Hashes& prompt, std::uint64_t w, double now) {
    auto found = static_cast<std::size_t>(cache.Find(prompt, 1).chunks);
    cache.Acquire(std::span(prompt).first(found), 1);
    while (found < prompt.size()) cache.Publish(std::span(prompt).first(++found), 1);
    cache.Release(prompt, 1, {{w + 1}, 0, static_cast<std::uint32_t>(w % 4)}, At(now));
  }
  std::int32_t Evict(std::int32_t blocks, double now) { return cache.Evict(blocks, At(now)); }

  internal::Holdings cache;
};
template <class Cache>
Cache Made() {
  if constexpr (requires { Cache(Lru{}); }) return Cache(Lru{});
  else if constexpr (requires { Cache(HoldValue{}); }) return Cache(HoldValue{.curves = &Times().curves()});
  else return Cache();
}

// A full cache; each workflow's last turn is up to an hour ago.
template <class Cache>
Cache Filled(const std::vector<Hashes>& prompts, double& clock) {
  Cache cache = Made<Cache>();
  for (std::uint64_t i = 0; i < prompts.size(); ++i) {
    const std::uint64_t w = i * 7919 % prompts.size();
    cache.Turn(prompts[w], w, clock += 0.36);
  }
  return cache;
}

template <class Cache>
void BM_LookUp(benchmark::State& state) {
  const std::vector<Hashes> prompts = Prompts();
  double clock = 0;
  Cache cache = Filled<Cache>(prompts, clock);
  std::vector<Hashes> asked(prompts.begin() + kShort, prompts.end());
  for (Hashes& prompt : asked) prompt.resize(kLongChunks - 12), GoOn(prompt, 12, 1'000'000);  // new blocks
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(cache.cache.Find(asked[i++ % kLong], 1));
}

// Evicts this many blocks a call; reports time per block. Two hundred holdings are evicted in a row, so that the first
// ones, which are in no processor cache, get their usual weight.
template <class Cache>
void BM_Evict(benchmark::State& state) {
  const auto blocks = static_cast<std::int32_t>(state.range(0));
  const std::vector<Hashes> prompts = Prompts();
  double clock = 0;
  Cache cache = Filled<Cache>(prompts, clock);
  std::int64_t victims = 0;
  std::size_t allocated = 0;
  std::uint64_t next = 0;
  for (auto _ : state) {
    const std::size_t before = allocations;
    const std::clock_t start = std::clock();
    std::int32_t gone = 0;
    for (std::int32_t calls = kVictims / blocks; calls > 0; --calls) gone += cache.Evict(blocks, clock += 0.01);
    state.SetIterationTime(SecondsSince(start));
    victims += gone;
    for (cache.cache.dropped().clear(); gone > 0; gone -= static_cast<std::int32_t>(kShortChunks)) {
      const std::uint64_t w = next++ * 7919 % prompts.size();
      cache.Turn(prompts[w], w, clock += 0.36);
    }
    allocated += allocations - before;
  }
  state.counters["ns_per_victim"] = benchmark::Counter(static_cast<double>(victims) * 1e-9,
                                                       benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["allocations"] = static_cast<double>(allocated);
}

// Value lost by evicting this many blocks.
void BM_Gate(benchmark::State& state) {
  const std::vector<Hashes> prompts = Prompts();
  double clock = 0;
  auto cache = Filled<ByHolding<HoldValue>>(prompts, clock);
  const auto lack = static_cast<std::int32_t>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(cache.cache.LossOf(lack, At(clock += 1e-6)));
}

// A turn of 2,200 chunks, 12 of them new, for which 12 are evicted.
template <class Cache>
void BM_Turn(benchmark::State& state) {
  std::vector<Hashes> prompts = Prompts();
  double clock = 0;
  Cache cache = Filled<Cache>(prompts, clock);
  std::uint64_t turn = 0;
  std::size_t allocated = 0;
  for (auto _ : state) {
    for (std::uint64_t w = kShort; w < prompts.size(); ++w) {
      if (prompts[w].size() > 2 * kLongChunks) prompts[w].resize(kLongChunks);
      GoOn(prompts[w], 12, ++turn);
    }
    const std::size_t before = allocations;
    const std::clock_t start = std::clock();
    for (std::uint64_t w = kShort; w < prompts.size(); ++w) {
      cache.Evict(12, clock += 0.1);
      cache.Turn(prompts[w], w, clock);
    }
    state.SetIterationTime(SecondsSince(start) / static_cast<double>(kLong));
    allocated += allocations - before;
    cache.cache.dropped().clear();
  }
  state.counters["allocations"] = static_cast<double>(allocated);
}

// --- Curves. ---

// `seconds` for n of them.
void Report(benchmark::State& state, const std::string& curve, double seconds) {
  static std::map<std::string, double> least;
  state.SetIterationTime(seconds);
  const double each = seconds / static_cast<double>(state.range(0));
  const double first = least.try_emplace(curve, each).first->second;
  state.counters["ns_each"] = each * 1e9;
  state.counters["ratio"] = each / first;
}

constexpr std::uint64_t kPrime = 7919;

// n pairs of holdings, of two blocks each, the first of which both share.
template <class Policy>
internal::Holdings Pairs(std::uint64_t n) {
  Policy policy;
  if constexpr (requires { policy.curves; }) policy.curves = &Times().curves();
  internal::Holdings holdings(policy, {64});
  holdings.MakeRoom(3 * n + 2);
  holdings.MakeRoomToHold(2 * n);
  holdings.MakeRoomToDrop();
  for (std::uint64_t i = 0; i < 2 * n; ++i) {
    const Hashes prompt = {Mix64(i / 2), Mix64(~i)};
    auto found = static_cast<std::size_t>(holdings.Find(prompt, 1).chunks);
    holdings.Acquire(std::span(prompt).first(found), 1);
    while (found < prompt.size()) holdings.Publish(std::span(prompt).first(++found), 1);
    holdings.Release(prompt, 1, {{i + 1}, 0, static_cast<std::uint32_t>(i % 4)}, At(1e-3 * static_cast<double>(i)));
  }
  return holdings;
}

// One call of the host evicts all of them, together or one by one.
template <class Policy>
void BM_EvictAll(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  const bool one_by_one = state.range(1) != 0;
  for (auto _ : state) {
    auto holdings = Pairs<Policy>(n);
    const std::clock_t start = std::clock();
    if (!one_by_one) holdings.Evict(holdings.idle(), At(1e6));
    while (holdings.idle() > 0) holdings.Evict(1, At(1e6));
    Report(state, std::string(Policy::kName) + (one_by_one ? " by one" : ""), SecondsSince(start));
  }
}

// Every other holding is pinned, in mixed order, and all pins end together.
void BM_PinsEnd(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    auto holdings = Pairs<Lru>(n);
    holdings.BoundPins(1 << 30, 1 << 30);
    for (std::uint64_t i = 0; i < n; ++i) holdings.Pin({2 * (i * kPrime % n) + 1}, 0, At(1e6));
    const std::clock_t start = std::clock();
    holdings.EndPins(At(1e6));
    Report(state, "pins", SecondsSince(start));
  }
}

// Turn ends that are reported late, in mixed order.
void BM_SetClass(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  for (auto _ : state) {
    auto holdings = Pairs<HoldValue>(n);
    const std::clock_t start = std::clock();
    for (std::uint64_t i = 0; i < n; ++i) holdings.SetClass({2 * (i * kPrime % n) + 1}, 0, 5);
    Report(state, "classes", SecondsSince(start));
  }
}

// n branches share one prompt, or each extends it differently. Turns use ever longer parts of it, and all are evicted.
void BM_OnePrompt(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  const bool goes_on = state.range(1) != 0;
  for (auto _ : state) {
    internal::Holdings holdings;
    holdings.MakeRoom(2 * n), holdings.MakeRoomToHold(n + 1), holdings.dropped().reserve(2 * n);
    const auto turn = [&](std::span<const std::uint64_t> prompt, std::uint64_t branch) {
      auto found = static_cast<std::size_t>(holdings.Find(prompt, 1).chunks);
      holdings.Acquire(prompt.first(found), 1);
      while (found < prompt.size()) holdings.Publish(prompt.first(++found), 1);
      holdings.Release(prompt, 1, {.workflow = {1}, .branch = branch}, At(0));
    };
    Hashes prompt;
    GoOn(prompt, 256, 1);
    for (std::uint64_t i = 1; i <= n; ++i) {
      Hashes own = prompt;
      if (goes_on) GoOn(own, 1, i);
      turn(own, i);
    }
    const std::clock_t start = std::clock();
    for (std::size_t i = 1; i < prompt.size(); ++i) turn(std::span(prompt).first(i), 0);
    holdings.Evict(holdings.idle(), At(1));
    Report(state, goes_on ? "goes on" : "one prompt", SecondsSince(start));
  }
}

// Turns of a workflow without requests, while n requests wait.
void BM_TurnEvents(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  const auto why = static_cast<TurnWhy>(state.range(1));
  for (auto _ : state) {
    SchedulerOptions options;
    options.kv_blocks = {1 << 20};
    options.prefix_cache = true;
    options.reserve_requests = state.range(0);
    Scheduler scheduler = *Scheduler::Create(options, AnyPolicy(Fcfs{}));
    scheduler.On(TurnEnded{.workflow = {1}, .pin = std::chrono::seconds(1)}, At(0));
    for (std::uint64_t i = 1; i <= n; ++i) {
      Request r;
      r.id = {i}, r.workflow = {i}, r.prompt_tokens = {100};
      scheduler.On(Arrived{r}, At(0));
    }
    const std::clock_t start = std::clock();
    for (std::uint64_t i = 1; i <= n; ++i) {
      scheduler.On(TurnEnded{.workflow = {n + i}, .why = why}, At(1));
      scheduler.On(WorkflowEnded{{n + i}}, At(1));
    }
    Report(state, "events " + std::to_string(state.range(1)), SecondsSince(start));
  }
}

void Curve(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t n : {2'000, 20'000, 100'000}) benchmark->Arg(n);
  benchmark->UseManualTime()->Iterations(1);
}
void CurveOfTwo(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t n : {2'000, 20'000, 100'000}) benchmark->Args({n, 0})->Args({n, 1});
  benchmark->UseManualTime()->Iterations(1);
}
void CurveOfTurns(benchmark::internal::Benchmark* benchmark) {
  for (const TurnWhy why : {TurnWhy::kTool, TurnWhy::kOver}) {
    for (const std::int64_t n : {2'000, 20'000, 100'000}) benchmark->Args({n, static_cast<std::int64_t>(why)});
  }
  benchmark->UseManualTime()->Iterations(1);
}

BENCHMARK(BM_EvictAll<Lru>)->Apply(CurveOfTwo);
BENCHMARK(BM_EvictAll<Lfu>)->Apply(CurveOfTwo);
BENCHMARK(BM_EvictAll<HoldValue>)->Apply(CurveOfTwo);
BENCHMARK(BM_EvictAll<Continuum>)->Apply(CurveOfTwo);
BENCHMARK(BM_EvictAll<Shortest>)->Apply(CurveOfTwo);
BENCHMARK(BM_PinsEnd)->Apply(Curve);
BENCHMARK(BM_SetClass)->Apply(Curve);
BENCHMARK(BM_OnePrompt)->Apply(CurveOfTwo);
BENCHMARK(BM_TurnEvents)->Apply(CurveOfTurns);

BENCHMARK(BM_LookUp<ByHolding<HoldValue>>);
BENCHMARK(BM_Evict<ByHolding<HoldValue>>)->Arg(1)->Arg(12)->Arg(256)->UseManualTime();
BENCHMARK(BM_Evict<ByHolding<Lru>>)->Arg(1)->Arg(12)->Arg(256)->UseManualTime();
BENCHMARK(BM_Gate)->ArgName("lack")->Arg(12)->Arg(256)->Arg(1'700);
BENCHMARK(BM_Turn<ByHolding<HoldValue>>)->UseManualTime();

}  // namespace
}  // namespace takt
