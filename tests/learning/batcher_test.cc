// Batches of predictions: their due times, the bound on each wait, and many threads at once.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <set>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "catch.h"
#include "fire/ids.h"
#include "scale.h"
#include "takt/learning/batcher.h"
#include "takt/policy/sjf.h"
#include "takt/scheduler.h"

namespace takt {
namespace {

TimePoint At(int ms) { return TimePoint(std::chrono::milliseconds(ms)); }

Request Of(std::uint64_t id, double fallback = 100) {
  return {.id = {id}, .workflow_tokens_left = Estimate::Exact(fallback)};
}

void Tell42(std::span<const LengthForest::Query> queries, std::span<Estimate> out) {
  for (std::size_t i = 0; i < queries.size(); ++i) out[i] = Estimate::Exact(42);
}

// Ids of Arrived, with their estimates; negative ids: Revised.
std::vector<std::pair<int, double>> Drained(Batcher& batcher, TimePoint now) {
  std::vector<std::pair<int, double>> out;
  batcher.Drain(now, [&](const Event& event) {
    if (const auto* arrived = std::get_if<Arrived>(&event)) {
      out.emplace_back(static_cast<int>(arrived->request.id.value), arrived->request.workflow_tokens_left.mean);
    } else {
      const auto& revised = std::get<Revised>(event);
      out.emplace_back(-static_cast<int>(revised.request.value), revised.workflow_tokens_left->mean);
    }
  });
  return out;
}

using Out = std::vector<std::pair<int, double>>;

TEST_CASE("a batch is due when full or when its first has waited") {
  Batcher batcher({.most = 3, .longest = std::chrono::milliseconds(5)});
  CHECK_FALSE(batcher.Due(At(100)));
  CHECK(batcher.wake_at() == kNever);
  batcher.Add(Of(1), {}, {}, At(0));
  batcher.Add(Of(2), {}, {}, At(4));
  CHECK_FALSE(batcher.Due(At(4)));
  CHECK(batcher.wake_at() == At(5));
  CHECK(batcher.Due(At(5)));
  batcher.Add(Of(3), {}, {}, At(4));
  batcher.Add(Of(4), {}, {}, At(4));
  CHECK(batcher.Due(At(4)));
  CHECK(batcher.Run(Tell42) == 3);
  CHECK(Drained(batcher, At(4)) == Out{{1, 42}, {2, 42}, {3, 42}});
  CHECK(batcher.Run(Tell42) == 1);
  CHECK(batcher.Run(Tell42) == 0);
  CHECK(Drained(batcher, At(4)) == Out{{4, 42}});
  CHECK(Drained(batcher, At(999)).empty());
  CHECK(batcher.wake_at() == kNever);
}

TEST_CASE("a request past its bound runs, and its prediction is a revision") {
  Batcher batcher({.bound = std::chrono::milliseconds(20)});
  batcher.Add(Of(1), {}, {}, At(0));
  batcher.Add(Of(2), {}, {}, At(10));
  Out during;
  batcher.Run([&](auto queries, auto out) {  // a predictor that is stuck for 25 ms
    CHECK(Drained(batcher, At(19)).empty());
    during = Drained(batcher, At(20));
    batcher.Add(Of(3), {}, {}, At(21));
    Tell42(queries, out);
  });
  CHECK(during == Out{{1, 100}});
  CHECK(Drained(batcher, At(25)) == Out{{-1, 42}, {2, 42}});
  CHECK(Drained(batcher, At(41)) == Out{{3, 100}});  // no predictor runs any more, and the request runs
  CHECK(batcher.stats().fallbacks == 2);
  CHECK(batcher.stats().late == 1);
}

TEST_CASE("without a prediction the request keeps the host's estimate") {
  Batcher batcher;
  LengthForest none;
  LengthForest::Scratch scratch;
  batcher.Add(Of(1, 7), {3}, {}, At(0));
  CHECK(batcher.Run(none, scratch) == 1);
  CHECK(Drained(batcher, At(0)) == Out{{1, 7}});
}

TEST_CASE("cancelled, repeated and surplus requests come out at most once") {
  Batcher batcher({.capacity = 2});
  batcher.Add(Of(1), {}, {}, At(0));
  batcher.Add(Of(1), {}, {}, At(0));
  batcher.Add(Of(2), {}, {}, At(0));
  batcher.Add(Of(3), {}, {}, At(0));
  CHECK(Drained(batcher, At(0)) == Out{{3, 100}});
  CHECK(batcher.Cancel({1}));
  CHECK_FALSE(batcher.Cancel({1}));
  batcher.Add(Of(1, 5), {}, {}, At(1));  // the id again
  batcher.Run([&](auto queries, auto out) {
    CHECK(queries.size() == 2);
    CHECK(batcher.Cancel({2}));
    Tell42(queries, out);
  });
  CHECK(Drained(batcher, At(1)) == Out{{1, 42}});
  CHECK(Drained(batcher, At(999)).empty());
  CHECK(batcher.stats().dropped == 1);
  CHECK(batcher.stats().full == 1);

  Batcher bound({.bound = std::chrono::milliseconds(1)});
  bound.Add(Of(1), {}, {}, At(0));
  CHECK(Drained(bound, At(1)) == Out{{1, 100}});
  CHECK_FALSE(bound.Cancel({1}));  // it is out: the host must notify the scheduler
  CHECK(bound.Run(Tell42) == 0);
}

TEST_CASE("a request cancelled at any point never runs") {
  // Events for the host's scheduler: those from Drain, and cancellations that Cancel no longer finds here.
  for (const std::size_t capacity : {std::size_t{0}, std::size_t{8}}) {  // held for a prediction, or only passed on
    for (const int point : {0, 1, 2, 3, 4}) {
      INFO("point " << point << ", capacity " << capacity);
      Batcher batcher({.capacity = capacity});
      auto scheduler = *BasicScheduler<Sjf>::Create({.kv_blocks = {1000}}, Sjf{});
      const auto cancel_at = [&](int here) {
        if (here == point && !batcher.Cancel({1})) scheduler.On(Cancelled{{1}}, At(0));
      };
      Request request = Of(1);
      request.prompt_tokens = {20};
      batcher.Add(request, {}, {}, At(0));
      cancel_at(0);
      batcher.Run([&](auto queries, auto out) {
        cancel_at(1);
        Tell42(queries, out);
      });
      if (capacity == 0) cancel_at(1);  // no request was predicted
      cancel_at(2);
      batcher.Drain(At(0), [&](const Event& event) { scheduler.On(event, At(0)); });
      cancel_at(3);
      batcher.Drain(At(100), [&](const Event& event) { scheduler.On(event, At(100)); });
      cancel_at(4);
      CHECK(scheduler.Plan(At(100), {.tokens = {512}, .max_seqs = 4}).run.empty());
      CHECK(scheduler.alive() == 0);
      CHECK(batcher.wake_at() == kNever);
    }
  }
}

TEST_CASE("a request cancelled after it ran unpredicted is not revised") {
  Batcher batcher({.bound = std::chrono::milliseconds(20)});
  batcher.Add(Of(1), {}, {}, At(0));
  CHECK(Drained(batcher, At(20)) == Out{{1, 100}});
  batcher.Run(Tell42);
  CHECK_FALSE(batcher.Cancel({1}));  // it is running
  batcher.Add(Of(1, 7), {}, {}, At(20));
  CHECK(Drained(batcher, At(20)).empty());
  CHECK(Drained(batcher, At(40)) == Out{{1, 7}});
}

TEST_CASE("an id that waits for a drain is held, repeats are dropped") {
  Batcher batcher;
  batcher.Add(Of(1), {}, {}, At(0));
  batcher.Run(Tell42);
  batcher.Add(Of(1), {}, {}, At(0));
  CHECK(batcher.stats().dropped == 1);
  CHECK(Drained(batcher, At(0)) == Out{{1, 42}});
  CHECK(batcher.stats().in_time == 1);
}

TEST_CASE("an id that came out unpredicted may return without a predictor") {
  Batcher batcher({.bound = std::chrono::milliseconds(20), .capacity = 1});
  for (int now = 0; now < 20'000; now += 20) {
    batcher.Add(Of(1), {}, {}, At(now));
    CHECK(batcher.wake_at() == At(now + 2));  // when its batch is due: the earlier request left no trace
    REQUIRE(Drained(batcher, At(now + 20)) == Out{{1, 100}});
  }
  CHECK(batcher.stats().dropped == 0);
  CHECK(batcher.stats().full == 0);
  batcher.Add(Of(1), {}, {}, At(20'000));
  CHECK(batcher.Run(Tell42) == 1);
  CHECK(Drained(batcher, At(20'000)) == Out{{1, 42}});  // and none is revised
}

TEST_CASE("a loop that throws in a drain gets the remaining events again") {
  Batcher batcher;
  for (std::uint64_t id = 1; id <= 3; ++id) batcher.Add(Of(id), {}, {}, At(0));
  batcher.Run(Tell42);
  const auto refuse = [](const Event& event) {
    if (std::get<Arrived>(event).request.id == RequestId{2}) throw 2;
  };
  CHECK_THROWS_AS(batcher.Drain(At(0), refuse), int);
  CHECK(Drained(batcher, At(0)) == Out{{2, 42}, {3, 42}});
  CHECK(Drained(batcher, At(0)).empty());
}

TEST_CASE("requests of a throwing predictor are predicted by the next") {
  Batcher batcher;
  const std::vector<float> sketch = {1, 2, 3};
  for (std::uint64_t id = 1; id <= 3; ++id) batcher.Add(Of(id), {}, {.sketch = sketch}, At(0));
  const auto refuse = [&](auto, auto) {
    batcher.Cancel({2});
    throw 2;
  };
  CHECK_THROWS_AS(batcher.Run(refuse), int);
  CHECK(batcher.wake_at() == At(2));
  batcher.Run([](auto queries, auto out) {
    CHECK(queries[0].input.sketch.size() == 3);
    Tell42(queries, out);
  });
  CHECK(Drained(batcher, At(0)) == Out{{1, 42}, {3, 42}});
}

TEST_CASE("with keyed hashes, colliding ids are found as fast as others") {
  constexpr std::size_t kIds = 1024;
  const fire::Ids hostile(fire::Ids::Kind::kColliding);
  const auto looks = [&](std::uint64_t seed) {
    Batcher batcher({.hash_seed = seed});
    std::size_t sum = 0;
    for (std::uint64_t i = 1; i <= kIds; ++i) batcher.Add({.id = hostile.Of(i)}, {}, {}, At(0));
    for (std::uint64_t i = 1; i <= kIds; ++i) sum += batcher.Looks(hostile.Of(i));
    return sum;
  };
  CHECK(looks(0) > kIds * kIds / 4);
  for (const std::uint64_t seed : {1u, 77u}) CHECK(looks(seed) < 8 * kIds);
}

TEST_CASE("a stuck predictor keeps no trace of cancelled requests") {
  Batcher batcher({.most = 200, .longest = std::chrono::hours(1), .bound = std::chrono::milliseconds(20)});
  batcher.Add(Of(1), {}, {}, At(0));
  batcher.Run([&](auto queries, auto out) {
    batcher.Add(Of(2), {}, {}, At(0));  // before all others, and it stays
    int now = 0;
    for (std::uint64_t id = 3; id < 5000; ++id) {
      batcher.Add(Of(id), {}, {}, At(now));
      if (id % 2 == 0) now += 20;
      Drained(batcher, At(now));  // every second request runs without a prediction
      batcher.Cancel({id});
    }
    CHECK_FALSE(batcher.Due(At(0)));  // far fewer than 200
    batcher.Cancel({2});
    CHECK(batcher.wake_at() == kNever);
    Tell42(queries, out);
  });
  CHECK(Drained(batcher, At(999)) == Out{{-1, 42}});
  CHECK(batcher.Run(Tell42) == 0);
}

TEST_CASE("a sketch outlives the buffer that it was made from") {
  Batcher batcher;
  {
    std::vector<float> sketch = {1, 2, 3};
    batcher.Add(Of(1), {}, {.sketch = sketch}, At(0));
    sketch.assign(3, -1);
  }
  batcher.Run([](auto queries, auto) {
    CHECK(std::vector<float>(queries[0].input.sketch.begin(), queries[0].input.sketch.end()) ==
          std::vector<float>{1, 2, 3});
  });
}

TEST_CASE("a stuck predictor thread delays no request") {
  constexpr int kRequests = 50;
  Batcher batcher({.most = 4, .longest = std::chrono::milliseconds(1), .bound = std::chrono::milliseconds(5)});
  std::atomic<bool> stuck{false}, freed{false}, over{false};
  std::atomic<int> clock{0};
  std::thread predictor([&] {
    while (!over) {
      if (!batcher.Due(At(clock))) {
        std::this_thread::yield();
        continue;
      }
      batcher.Run([&](auto queries, auto out) {
        stuck = true;
        while (!freed) std::this_thread::yield();
        Tell42(queries, out);
      });
    }
  });
  const auto request = [](int id) {
    Request r = Of(static_cast<std::uint64_t>(id));
    r.prompt_tokens = {20};
    return r;
  };
  batcher.Add(request(1), {}, {}, At(0));
  for (clock = 1; !stuck;) std::this_thread::yield();

  auto scheduler = *BasicScheduler<Sjf>::Create({.kv_blocks = {1000}}, Sjf{});
  int added = 1, finished = 0, longest = 0;
  std::vector<int> added_at(kRequests + 1), output(kRequests + 1);
  const auto drain = [&] {
    batcher.Drain(At(clock), [&](const Event& event) {
      if (const auto* arrived = std::get_if<Arrived>(&event)) {
        const auto id = static_cast<std::size_t>(arrived->request.id.value);
        longest = std::max(longest, clock - added_at[id]);
      }
      scheduler.On(event, At(clock));
    });
  };
  for (; finished < kRequests && clock < 10'000; ++clock) {
    if (added < kRequests) {
      added_at[static_cast<std::size_t>(++added)] = clock;
      batcher.Add(request(added), {}, {}, At(clock));
    }
    drain();
    const StepPlan& plan = scheduler.Plan(At(clock), {.tokens = {512}, .max_seqs = 4});
    std::vector<RowResult> rows;
    for (const PlanEntry& e : plan.run) {
      const bool token = e.samples(), last = token && ++output[e.request.value] == 3;
      finished += last ? 1 : 0;
      rows.push_back({e.request, e.lane, static_cast<std::uint16_t>(token), 0,
                      static_cast<std::uint8_t>(last ? RowResult::kFinished : 0)});
    }
    if (!plan.run.empty()) scheduler.Commit({plan.id, rows}, At(clock));
  }
  CHECK(finished == kRequests);
  CHECK(longest <= 5);
  CHECK(batcher.stats().fallbacks == kRequests);
  freed = true;
  while (batcher.stats().late == 0) std::this_thread::yield();
  over = true;
  predictor.join();
  drain();  // its events now name dead requests
  CHECK(scheduler.alive() == 0);
}

TEST_CASE("three threads add and two predict, and each request arrives once") {
  const auto each = static_cast<std::uint64_t>(Scaled(3000));
  Batcher batcher({.most = 16, .bound = std::chrono::milliseconds(3)});
  std::atomic<int> clock{0}, adding{3};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < each; ++i) {
        batcher.Add(Of(1 + t * each + i), {}, {}, At(clock++ / 100));
      }
      --adding;
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!over) {
        if (batcher.Due(At(clock / 100))) batcher.Run(Tell42);
        else std::this_thread::yield();
      }
    });
  }
  std::set<std::uint64_t> arrived;
  std::uint64_t doubled = 0, revised_before = 0;
  while (adding > 0 || arrived.size() < 3 * each) {
    const int now = adding > 0 ? clock.load() : clock += 100;
    batcher.Drain(At(now / 100), [&](const Event& event) {
      if (const auto* a = std::get_if<Arrived>(&event)) {
        doubled += arrived.insert(a->request.id.value).second ? 0u : 1u;
      } else if (!arrived.contains(std::get<Revised>(event).request.value)) {
        ++revised_before;
      }
    });
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(arrived.size() == 3 * each);
  CHECK(doubled == 0);
  CHECK(revised_before == 0);
}

}  // namespace
}  // namespace takt
