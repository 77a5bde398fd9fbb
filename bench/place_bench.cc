// Time to choose an instance for a request, over 40 slots of time (Kairos, section 7.7: 4.1 ms a request, and 3.6 ms to
// order it).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "counting_new.h"
#include "takt/base/random.h"
#include "takt/placement/books/kv_index.h"
#include "takt/placement/cached_cost.h"
#include "takt/placement/least_loaded.h"
#include "takt/rivals/placement/preble.h"
#include "takt/placement/time_slot_packer.h"
#include "takt/policy/agent_priority.h"
#include "takt/policy/fcfs.h"
#include "takt/router.h"

namespace takt {
namespace {

constexpr double kSpan = 20;  // seconds: 40 slots
constexpr std::size_t kPerInstance = 32;

TimePoint At(double seconds) { return TimePoint(FromSeconds(seconds)); }

Epoch Table() {
  std::vector<AgentRank> ranks;
  for (std::uint64_t a = 0; a < 100; ++a) ranks.push_back({{a}, static_cast<double>(a), kSpan});
  return {.agent_ranks = std::make_shared<const AgentRanks>(AgentRanks{ranks, {{}, 50, kSpan}})};
}

Instance InstanceOf(std::uint64_t id) { return {.id = {id}, .kv_tokens = {200'000}}; }

RequestState Call(Random& random, std::uint32_t slot) {
  RequestState r;
  r.request.id = {slot + 1u};
  r.request.agent = {random.Below(100)};
  r.request.prompt_tokens = {100 + static_cast<int>(random.Below(1000))};
  r.slot = slot;
  return r;
}

// One decision: the scores of all instances and the chosen instance's bookkeeping; then the request's end.
template <class Placer>
void BM_Place(benchmark::State& state) {
  const auto n = static_cast<std::uint32_t>(state.range(0));
  Random random(1);
  Placer placer;
  std::vector<InstanceState> instances;
  for (std::uint32_t i = 0; i < n; ++i) {
    instances.push_back({.instance = InstanceOf(i + 1), .slot = i, .outstanding = 1});
    if constexpr (InstancePlacement<Placer>) placer.Up(instances[i], At(0));
  }
  if constexpr (ObservingPlacement<Placer>) placer.Observe(Table(), At(0));
  std::vector<RequestState> calls;
  for (std::uint32_t slot = 0; slot < n * kPerInstance; ++slot) {
    calls.push_back(Call(random, slot));
    if constexpr (AccountingPlacement<Placer>) placer.Placed(calls[slot], instances[slot % n], At(0));
  }
  std::vector<RequestState> next;
  for (std::uint32_t i = 0; i < 1024; ++i) next.push_back(Call(random, n * kPerInstance));
  std::size_t turn = 0;
  const auto place = [&] {
    const RequestState& r = next[++turn % next.size()];
    if constexpr (PreparingPlacement<Placer>) placer.Prepare(r, At(1));
    const InstanceState* best = &instances[0];
    double best_score = -1e300;
    for (const InstanceState& i : instances) {
      if (const double score = placer.Score(r, i, At(1)); score > best_score) best = &i, best_score = score;
    }
    if constexpr (AccountingPlacement<Placer>) {
      placer.Placed(r, *best, At(1));
      placer.Released(r, *best, At(1));
    }
    benchmark::DoNotOptimize(best);
  };
  place();
  const std::size_t before = allocations;
  for (auto _ : state) place();
  state.counters["allocations"] = static_cast<double>(allocations - before);
}
BENCHMARK_TEMPLATE(BM_Place, TimeSlotPacker)->ArgName("instances")->Arg(4)->Arg(64)->Arg(1024);
BENCHMARK_TEMPLATE(BM_Place, LeastLoaded)->ArgName("instances")->Arg(4)->Arg(64)->Arg(1024);

// Places a prompt that would displace the contexts of 16 full instances, each with a given number of small ones.
template <class Placer>
void BM_PlaceDisplacing(benchmark::State& state) {
  constexpr std::uint32_t kInstances = 16, kTokens = 16;
  const auto copies = static_cast<std::int32_t>(state.range(0));
  Placer placer;
  std::vector<InstanceState> instances;
  RequestState r;
  r.request.id = {1};
  r.request.prompt_tokens = {kTokens};
  for (std::uint32_t i = 0; i < kInstances; ++i) {
    const auto kv_tokens = static_cast<std::int32_t>(kTokens) * copies;
    instances.push_back({.instance = {.id = {i + 1}, .kv_tokens = {kv_tokens}}, .slot = i});
    placer.Up(instances[i], At(0));
  }
  for (std::int32_t c = 0; c < copies; ++c) {
    for (const InstanceState& i : instances) {
      r.request.workflow = {++r.request.workflow.value};
      placer.Prepare(r, At(0));
      placer.Placed(r, i, At(0));
      placer.Released(r, i, At(0));
    }
  }
  r.request.workflow = {};
  r.request.prompt_tokens = {static_cast<std::int32_t>(kTokens) * copies};
  for (auto _ : state) {
    placer.Prepare(r, At(1));
    for (const InstanceState& i : instances) benchmark::DoNotOptimize(placer.Score(r, i, At(1)));
  }
}
BENCHMARK_TEMPLATE(BM_PlaceDisplacing, PreblePlacement)->ArgName("copies")->Arg(1'000)->Arg(8'000)->Arg(64'000);
BENCHMARK_TEMPLATE(BM_PlaceDisplacing, CachedCost)->ArgName("copies")->Arg(1'000)->Arg(8'000)->Arg(64'000);

// The full path through the router, with policies chosen at run time: a request arrives, is ordered and placed, and
// ends. `waiting` others wait for an instance that never has room.
void BM_RouterPlace(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0)), waiting = static_cast<std::uint64_t>(state.range(1));
  RouterOptions options{.window = 0};
  options.reserve_requests = static_cast<std::int64_t>(waiting + n * kPerInstance + 16);
  Router router = *Router::Create(options, AnyPolicy(AgentPriority{}), AnyPlacement(TimeSlotPacker{}));
  Random random(1);
  std::uint64_t id = 0;
  const auto arrive = [&](std::uint64_t agent) {
    Request r = Call(random, 0).request;
    r.id = {++id}, r.agent = {agent};
    router.On(Arrived{r}, At(1));
  };
  for (std::uint64_t i = 1; i <= n; ++i) router.On(InstanceUp{InstanceOf(i)}, At(0));
  router.On(Table(), At(0));
  for (std::uint64_t i = 0; i < n * kPerInstance; ++i) arrive(0);
  router.Place(At(1));
  for (std::uint64_t i = 1; i <= n; ++i) {
    Instance full = InstanceOf(i);
    full.capacity = kPerInstance;
    router.On(InstanceUp{full}, At(1));
  }
  for (std::uint64_t i = 0; i < waiting; ++i) arrive(1 + i % 99);
  Instance open = InstanceOf(n);
  open.capacity = kPerInstance + 1;
  router.On(InstanceUp{open}, At(1));
  // From here on one request ends and the next, of the first agent in the order, takes its place.
  const auto turn = [&] {
    arrive(0);
    const auto placed = router.Place(At(1));
    if (!placed.empty()) router.On(RequestEnded{placed[0].request, placed[0].instance}, At(1));
  };
  turn();
  const std::size_t before = allocations;
  for (auto _ : state) turn();
  state.counters["allocations"] = static_cast<double>(allocations - before);
}
BENCHMARK(BM_RouterPlace)->ArgNames({"instances", "waiting"})->Args({4, 100})->Args({4, 10'000})->Args({64, 10'000});

// A turn of one of 32 sessions per instance, of 108,000 tokens: it arrives, is placed by cached tokens and cost, starts
// and ends.
void BM_RouterTurns(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  Router router = *Router::Create({.window = 0}, AnyPolicy(Fcfs{}), AnyPlacement(CachedCost{}));
  for (std::uint64_t i = 1; i <= n; ++i) router.On(InstanceUp{{.id = {i}, .kv_tokens = {2'000'000}}}, At(0));
  Random random(1);
  std::uint64_t id = 0;
  const auto turn = [&](std::uint64_t workflow) {
    const TimePoint now = At(static_cast<double>(++id) * 1e-3);
    router.On(Arrived{{.id = {id}, .workflow = {workflow}, .prompt_tokens = {108'000}}}, now);
    for (const Placement& placed : router.Place(now)) {
      router.On(RequestStarted{placed.request, placed.instance}, now);
      router.On(RequestEnded{placed.request, placed.instance}, now);
    }
  };
  const std::uint64_t sessions = n * kPerInstance;
  for (std::uint64_t w = 1; w <= sessions; ++w) turn(w);
  for (std::uint64_t i = 0; i < sessions; ++i) turn(1 + random.Below(sessions));
  const std::size_t before = allocations;
  for (auto _ : state) turn(1 + random.Below(sessions));
  state.counters["allocations"] = static_cast<double>(allocations - before);
}
BENCHMARK(BM_RouterTurns)->ArgName("instances")->Arg(4)->Arg(64)->Arg(1024);

// A full index of reported KV blocks of 64 instances.
struct FullIndex {
  FullIndex() {
    const std::size_t before = allocated_bytes;
    for (std::uint32_t prompt = 0; prompt < 1024; ++prompt) Store(prompt % 64, prompt, 1024);
    bytes = allocated_bytes - before;
  }
  void Store(std::uint32_t slot, std::uint64_t prompt, std::uint64_t n) {
    hashes.clear();
    for (std::uint64_t block = 0; block < n; ++block) hashes.push_back(Mix64(prompt << 20 | block));
    index.Store(slot, hashes);
  }
  KvIndex index;
  std::vector<std::uint64_t> hashes;
  std::size_t bytes = 0;
};

// A report of new blocks, each of which replaces another.
void BM_KvStored(benchmark::State& state) {
  FullIndex full;
  std::uint64_t prompt = 1024;
  for (auto _ : state) {
    full.Store(static_cast<std::uint32_t>(prompt % 64), prompt, static_cast<std::uint64_t>(state.range(0)));
    ++prompt;
  }
  state.counters["allocated"] = static_cast<double>(full.bytes);  // in total while the index grew
}
BENCHMARK(BM_KvStored)->ArgName("blocks")->Arg(1)->Arg(64);

// The search for a prompt that one instance has as a whole, and the use of its blocks.
void BM_KvMatch(benchmark::State& state) {
  FullIndex full;
  std::vector<std::vector<std::uint64_t>> prompts;
  for (std::uint64_t prompt = 0; prompt < 64; ++prompt) {
    full.Store(static_cast<std::uint32_t>(prompt), prompt, static_cast<std::uint64_t>(state.range(0)));
    prompts.push_back(full.hashes);
  }
  std::size_t turn = 0, found = 0;
  for (auto _ : state) {
    const std::vector<std::uint64_t>& prompt = prompts[++turn % prompts.size()];
    full.index.Match(prompt, 0, [&](std::uint32_t, std::size_t run) { found += run; });
    full.index.Use(prompt, 0);
  }
  benchmark::DoNotOptimize(found);
}
BENCHMARK(BM_KvMatch)->ArgName("blocks")->Arg(64)->Arg(1'024)->Arg(8'192);

}  // namespace
}  // namespace takt
