// Ten thousand holdings: look-up of a long prompt, eviction, the gate's walk, a whole turn. With
// --benchmark_enable_random_interleaving=true and --benchmark_repetitions=9 policies are interleaved, and the spread is
// told.
#include "takt/kv/holdings.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <span>
#include <vector>

#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/learning/return_times.h"
#include "takt/retention/hold_value.h"
#include "takt/retention/lru.h"

namespace takt {
namespace {

using Hashes = std::vector<std::uint64_t>;

constexpr std::uint64_t kShort = 10'000, kLong = 100;  // workflows
constexpr std::int32_t kVictims = 4'096;
constexpr std::size_t kShortChunks = 20, kLongChunks = 2'200;

// Of the processor: others may have it meanwhile.
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

// Both caches take turns alike.
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

  internal::BasicHoldings<Policy> cache;
};
template <class Cache>
Cache Made() {
  if constexpr (requires { Cache(Lru{}); }) return Cache(Lru{});
  else if constexpr (requires { Cache(HoldValue{}); }) return Cache(HoldValue{.curves = &Times().curves()});
  else return Cache();
}

// Full, each workflow's last turn up to an hour ago.
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
  for (Hashes& prompt : asked) prompt.resize(kLongChunks - 12), GoOn(prompt, 12, 1'000'000);  // what is new
  std::size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(cache.cache.Find(asked[i++ % kLong], 1));
}

// So many blocks a call; per block. Two hundred holdings go in a row, so that the first ones, which are in no processor
// cache, weigh as much as they do.
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

// What taking so many blocks would lose.
void BM_Gate(benchmark::State& state) {
  const std::vector<Hashes> prompts = Prompts();
  double clock = 0;
  auto cache = Filled<ByHolding<HoldValue>>(prompts, clock);
  const auto lack = static_cast<std::int32_t>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(cache.cache.LossOf(lack, At(clock += 1e-6)));
}

// A turn of 2,200 chunks, 12 of them new, for which 12 go.
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

BENCHMARK(BM_LookUp<ByHolding<HoldValue>>);
BENCHMARK(BM_Evict<ByHolding<HoldValue>>)->Arg(1)->Arg(12)->Arg(256)->UseManualTime();
BENCHMARK(BM_Evict<ByHolding<Lru>>)->Arg(1)->Arg(12)->Arg(256)->UseManualTime();
BENCHMARK(BM_Gate)->ArgName("lack")->Arg(12)->Arg(256)->Arg(1'700);
BENCHMARK(BM_Turn<ByHolding<HoldValue>>)->UseManualTime();

}  // namespace
}  // namespace takt
