// The waiting queue at a constant length, against std::priority_queue and the heaps of Boost with the same keys.
#include <benchmark/benchmark.h>

#if __has_include(<boost/heap/d_ary_heap.hpp>)  // Debian's libboost-dev
#define TAKT_BOOST 1
#include <boost/heap/d_ary_heap.hpp>
#include <boost/heap/fibonacci_heap.hpp>
#include <boost/heap/pairing_heap.hpp>
#endif

#include <algorithm>
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

// An entry of the rivals' heaps. A request whose key changes has a new `version`; only LazyQueue reads it.
struct StdEntry {
  double key;
  TimePoint arrival;
  std::uint64_t id;
  Slot slot;
  std::uint32_t version = 0;

  friend bool operator>(const StdEntry& a, const StdEntry& b) {
    return std::tie(a.key, a.arrival, a.id) > std::tie(b.key, b.arrival, b.id);
  }
};

StdEntry EntryOf(Slot slot, const internal::FullKey& key, std::uint32_t version = 0) {
  return {key.key, key.arrival, key.id.value, slot, version};
}

class StdQueue {
 public:
  void Reserve(std::size_t) {}
  void Push(Slot slot, const internal::FullKey& key) { heap_.push(EntryOf(slot, key)); }
  Slot Pop() {
    const Slot slot = heap_.top().slot;
    heap_.pop();
    return slot;
  }

 private:
  std::priority_queue<StdEntry, std::vector<StdEntry>, std::greater<>> heap_;
};

// std::priority_queue with cancelled entries that stay until they are at the top, or are more than the valid ones.
class LazyQueue {
 public:
  void Reserve(std::size_t n) { versions_.assign(n, 0); }
  void Push(Slot slot, const internal::FullKey& key) { heap_.push(EntryOf(slot, key, versions_[slot])); }
  Slot Pop() {
    while (!Valid(heap_.top())) heap_.pop();
    const Slot slot = heap_.top().slot;
    heap_.pop();
    ++versions_[slot];
    return slot;
  }
  void Erase(Slot slot) {
    ++versions_[slot];
    if (heap_.size() > 2 * versions_.size()) heap_.Keep([this](const StdEntry& entry) { return Valid(entry); });
  }
  void Update(Slot slot, const internal::FullKey& key) { Erase(slot), Push(slot, key); }

 private:
  struct Heap : std::priority_queue<StdEntry, std::vector<StdEntry>, std::greater<>> {
    template <class F>
    void Keep(F&& valid) {
      std::erase_if(c, [&](const StdEntry& entry) { return !valid(entry); });
      std::ranges::make_heap(c, comp);
    }
  };
  bool Valid(const StdEntry& entry) const { return entry.version == versions_[entry.slot]; }

  Heap heap_;
  std::vector<std::uint32_t> versions_;
};

// The scheduler's whole queue, including calls of the policy.
template <class P>
class RankedQueue {
 public:
  void Reserve(std::size_t n) { queue_.Reserve(n); }
  void Push(Slot slot, const internal::FullKey& key) { queue_.Push(slot, Set(key), {}); }
  Slot Pop() {
    const Slot slot = queue_.Top();
    queue_.Erase(slot);
    return slot;
  }
  void Erase(Slot slot) { queue_.Erase(slot); }
  void Update(Slot slot, const internal::FullKey& key) { queue_.Update(slot, Set(key), {}); }

 private:
  const RequestState& Set(const internal::FullKey& key) {
    request_.request.id = key.id;
    request_.request.arrival = key.arrival;
    request_.request.output_tokens.mean = key.key;
    return request_;
  }

  internal::RankQueue<P> queue_{P(Sjf{})};
  RequestState request_;
};

#if TAKT_BOOST
template <class Heap>
class BoostQueue {
 public:
  void Reserve(std::size_t n) { handles_.resize(n); }
  void Push(Slot slot, const internal::FullKey& key) { handles_[slot] = heap_.push(EntryOf(slot, key)); }
  Slot Pop() {
    const Slot slot = heap_.top().slot;
    heap_.pop();
    return slot;
  }
  void Erase(Slot slot) { heap_.erase(handles_[slot]); }
  void Update(Slot slot, const internal::FullKey& key) { heap_.update(handles_[slot], EntryOf(slot, key)); }

 private:
  Heap heap_;
  std::vector<typename Heap::handle_type> handles_;
};

using BoostLess = boost::heap::compare<std::greater<>>;
using BoostDAry =
    BoostQueue<boost::heap::d_ary_heap<StdEntry, boost::heap::arity<4>, boost::heap::mutable_<true>, BoostLess>>;
using BoostFibonacci = BoostQueue<boost::heap::fibonacci_heap<StdEntry, BoostLess>>;
using BoostPairing = BoostQueue<boost::heap::pairing_heap<StdEntry, BoostLess>>;
#endif

template <class Queue>
void BM_QueuePushPop(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::vector<internal::FullKey> keys = Draw(n + kDrawn);
  Queue queue;
  queue.Reserve(n);
  for (Slot slot = 0; slot < n; ++slot) queue.Push(slot, keys[slot]);
  std::size_t next = 0;
  for (auto _ : state) {
    const Slot slot = queue.Pop();
    queue.Push(slot, keys[n + next]);
    next = (next + 1) % kDrawn;
    benchmark::DoNotOptimize(slot);
  }
}

// The best request starts, a random one is cancelled, two arrive, and a random one gets another key.
template <class Queue>
void BM_QueueChanges(benchmark::State& state) {
  const auto n = static_cast<std::size_t>(state.range(0));
  const std::vector<internal::FullKey> keys = Draw(n + kDrawn + 2);
  Random random(11);
  std::vector<Slot> picked(kDrawn + 1);
  for (Slot& slot : picked) slot = static_cast<Slot>(random.Below(n));
  Queue queue;
  queue.Reserve(n);
  for (Slot slot = 0; slot < n; ++slot) queue.Push(slot, keys[slot]);
  std::size_t next = 0;
  for (auto _ : state) {
    const Slot best = queue.Pop();
    queue.Push(best, keys[n + next]);
    queue.Erase(picked[next]);
    queue.Push(picked[next], keys[n + next + 1]);
    queue.Update(picked[next + 1], keys[n + next + 2]);
    next = (next + 1) % kDrawn;
    benchmark::DoNotOptimize(best);
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

#define TAKT_QUEUES(bench)                                                            \
  BENCHMARK(bench<IndexedHeap>)->Name(#bench "/indexed_heap")->Apply(Lengths);        \
  BENCHMARK(bench<RankedQueue<Sjf>>)->Name(#bench "/rank_queue_sjf")->Apply(Lengths); \
  BENCHMARK(bench<RankedQueue<AnyPolicy>>)->Name(#bench "/rank_queue_any")->Apply(Lengths)
BENCHMARK(BM_QueuePushPop<StdQueue>)->Name("BM_QueuePushPop/std_priority_queue")->Apply(Lengths);
BENCHMARK(BM_QueueChanges<LazyQueue>)->Name("BM_QueueChanges/std_priority_queue")->Apply(Lengths);
TAKT_QUEUES(BM_QueuePushPop);
TAKT_QUEUES(BM_QueueChanges);
#if TAKT_BOOST
#define TAKT_BOOST_QUEUES(bench)                                                      \
  BENCHMARK(bench<BoostDAry>)->Name(#bench "/boost_d_ary_heap")->Apply(Lengths);      \
  BENCHMARK(bench<BoostPairing>)->Name(#bench "/boost_pairing_heap")->Apply(Lengths); \
  BENCHMARK(bench<BoostFibonacci>)->Name(#bench "/boost_fibonacci_heap")->Apply(Lengths)
TAKT_BOOST_QUEUES(BM_QueuePushPop);
TAKT_BOOST_QUEUES(BM_QueueChanges);
#endif
BENCHMARK(BM_Workflows_justitia)->Name("BM_Workflows/justitia")->Arg(1'000)->Arg(65'536)->Arg(100'000)->Arg(300'000);
BENCHMARK(BM_HoldRequeue_aged)->Name("BM_HoldRequeue/aged")->Arg(1'000)->Arg(10'000)->Arg(100'000)->Arg(300'000);
BENCHMARK_CAPTURE(BM_IdMap, counted, false)->RangeMultiplier(4)->Range(1 << 10, 1 << 16);
BENCHMARK_CAPTURE(BM_IdMap, hostile, true)->RangeMultiplier(4)->Range(1 << 10, 1 << 16);

}  // namespace
}  // namespace takt
