// The waiting queue: one push and one pop at a constant length, against std::priority_queue of the same keys.
#include <benchmark/benchmark.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "takt/base/id_map.h"
#include "takt/base/random.h"
#include "takt/base/indexed_heap.h"
#include "takt/policy/aged.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/fcfs.h"
#include "takt/rivals/policy/justitia.h"
#include "takt/policy/sjf.h"
#include "takt/queue/rank_queue.h"
#include "takt/queue/waiting_queue.h"

namespace takt {
namespace {

// Keys like SJF's: log-normal lengths, arrivals in order.
class Keys {
 public:
  internal::FullKey Next() {
    ++last_;
    return {random_.LogNormal(5, 1), TimePoint(Duration(static_cast<std::int64_t>(last_ * 1000))), {last_}};
  }

 private:
  Random random_{7};
  std::uint64_t last_ = 0;
};

// Drawn in advance, so that no queue is charged for random numbers.
std::vector<internal::FullKey> Draw(std::size_t n) {
  Keys keys;
  std::vector<internal::FullKey> drawn(n);
  for (internal::FullKey& key : drawn) key = keys.Next();
  return drawn;
}

constexpr std::size_t kDrawn = 1 << 16;

struct StdEntry {
  double key;
  TimePoint arrival;
  std::uint64_t id;
  Slot slot;

  friend bool operator>(const StdEntry& a, const StdEntry& b) {
    return std::tie(a.key, a.arrival, a.id) > std::tie(b.key, b.arrival, b.id);
  }
};

void BM_QueuePushPop_std_priority_queue(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::vector<internal::FullKey> keys = Draw(n + kDrawn);
  const auto entry = [&](std::size_t i, Slot slot) {
    return StdEntry{keys[i].key, keys[i].arrival, keys[i].id.value, slot};
  };
  std::priority_queue<StdEntry, std::vector<StdEntry>, std::greater<>> queue;
  for (Slot slot = 0; slot < n; ++slot) queue.push(entry(slot, slot));
  std::size_t next = 0;
  for (auto _ : state) {
    const Slot slot = queue.top().slot;
    queue.pop();
    queue.push(entry(n + next, slot));
    next = (next + 1) % kDrawn;
    benchmark::DoNotOptimize(slot);
  }
}

void BM_QueuePushPop_indexed_heap(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::vector<internal::FullKey> keys = Draw(n + kDrawn);
  IndexedHeap heap;
  heap.Reserve(n);
  for (Slot slot = 0; slot < n; ++slot) heap.Push(slot, keys[slot]);
  std::size_t next = 0;
  for (auto _ : state) {
    const Slot slot = heap.Pop();
    heap.Push(slot, keys[n + next]);
    next = (next + 1) % kDrawn;
    benchmark::DoNotOptimize(slot);
  }
}

// The scheduler's whole queue, including calls of the policy.
template <class P>
void BM_QueuePushPop_rank_queue(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::vector<internal::FullKey> keys = Draw(n + kDrawn);
  internal::RankQueue<P> queue{P(Sjf{})};
  queue.Reserve(n);
  RequestState request;
  const auto set = [&](std::size_t i) {
    request.request.id = keys[i].id;
    request.request.arrival = keys[i].arrival;
    request.request.output_tokens.mean = keys[i].key;
  };
  for (Slot slot = 0; slot < n; ++slot) set(slot), queue.Push(slot, request, {});
  std::size_t next = 0;
  for (auto _ : state) {
    const Slot slot = queue.Top();
    queue.Erase(slot);
    set(n + next);
    queue.Push(slot, request, {});
    next = (next + 1) % kDrawn;
    benchmark::DoNotOptimize(slot);
  }
}

// A new workflow's call arrives, and the oldest one's ends; `workflows` have a call each.
void BM_Workflows_justitia(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  internal::RankQueue<Justitia> queue{Justitia{}};
  queue.Reserve(n + 1);
  std::vector<RequestState> calls(n);
  std::uint64_t next = 0;
  const auto come = [&](Slot slot) {
    RequestState& call = calls[slot];
    call.slot = slot;
    call.request.id = {++next}, call.request.workflow = {next};
    call.request.prompt_tokens = {100}, call.request.output_tokens.mean = 100;
    queue.Push(slot, call, {});
  };
  for (Slot slot = 0; slot < n; ++slot) come(slot);
  Slot oldest = 0;
  for (auto _ : state) {
    queue.Erase(oldest);
    queue.Forget(oldest, calls[oldest], {});
    come(oldest);
    oldest = oldest + 1 == n ? 0 : oldest + 1;
  }
}

// A request is held and returns after an iteration in which another ran; all others wait, and age.
void BM_HoldRequeue_aged(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  WaitingQueue<Aged<Fcfs>> queue(Aged(Fcfs{}, {.threshold = kForever}), n + 1);
  for (std::uint64_t id = 1; id <= n + 1; ++id) queue.Push({.id = {id}}, {});
  const std::vector<WaitingQueue<Aged<Fcfs>>::Ran> ran = {{{n + 1}}};
  Random random(7);
  for (auto _ : state) {
    queue.Begin({});
    queue.End(ran, {});
    const RequestId id{1 + random.Below(n)};
    queue.Hold(id);
    queue.Requeue(id, {});
  }
}

void Lengths(benchmark::internal::Benchmark* b) { b->RangeMultiplier(10)->Range(1'000, 1'000'000); }

// Names from a counter; and names that all had one slot under Mix64, the hash of IdMap without a key.
std::vector<std::uint64_t> Names(std::size_t n, bool hostile) {
  std::vector<std::uint64_t> names;
  const std::uint64_t places = std::bit_ceil(n) / 8;
  for (std::uint64_t run = 0; names.size() < n; ++run) {
    if (!hostile) {
      names.push_back(run + 1);
    } else if (Mix64(run) % places == 0) {
      names.push_back(run << 4);
    }
  }
  return names;
}

// Inserts, finds and erases each name while all others are present.
void BM_IdMap(benchmark::State& state, bool hostile) {
  const std::vector<std::uint64_t> names = Names(static_cast<std::size_t>(state.range(0)), hostile);
  IdMap map(names.size());
  for (auto _ : state) {
    for (std::uint32_t i = 0; i < names.size(); ++i) map.Insert(names[i], i);
    for (std::uint64_t name : names) benchmark::DoNotOptimize(map.Find(name));
    for (std::uint64_t name : names) map.Erase(name);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK(BM_QueuePushPop_std_priority_queue)->Name("BM_QueuePushPop/std_priority_queue")->Apply(Lengths);
BENCHMARK(BM_QueuePushPop_indexed_heap)->Name("BM_QueuePushPop/indexed_heap")->Apply(Lengths);
BENCHMARK(BM_QueuePushPop_rank_queue<Sjf>)->Name("BM_QueuePushPop/rank_queue_sjf")->Apply(Lengths);
BENCHMARK(BM_QueuePushPop_rank_queue<AnyPolicy>)->Name("BM_QueuePushPop/rank_queue_any")->Apply(Lengths);
BENCHMARK(BM_Workflows_justitia)->Name("BM_Workflows/justitia")->Arg(1'000)->Arg(65'536)->Arg(100'000)->Arg(300'000);
BENCHMARK(BM_HoldRequeue_aged)->Name("BM_HoldRequeue/aged")->Arg(1'000)->Arg(10'000)->Arg(100'000)->Arg(300'000);
BENCHMARK_CAPTURE(BM_IdMap, counted, false)->RangeMultiplier(4)->Range(1 << 10, 1 << 16);
BENCHMARK_CAPTURE(BM_IdMap, hostile, true)->RangeMultiplier(4)->Range(1 << 10, 1 << 16);

}  // namespace
}  // namespace takt
