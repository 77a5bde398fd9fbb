// The remaining work of running requests, which shrinks with time.
#ifndef TAKT_PLACEMENT_BOOKS_DUE_WORK_H_
#define TAKT_PLACEMENT_BOOKS_DUE_WORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/time.h"

namespace takt {

// A request that began at s and takes c has c - (now - s) left, at least 0. Each instance keeps the sum of ends of its
// running requests, so that remaining work = sum - count * now. Requests whose end has passed are removed once, so a
// request costs O(log running) in total. Slots are those of WorkInFlight.
class DueWork {
 public:
  // `amount` is in [0, WorkInFlight::kMost] ns.
  void Began(std::uint32_t request, std::uint32_t instance, Duration amount, TimePoint now) {
    Ended(request);
    if (request >= runs_.size()) runs_.resize(request + std::size_t{1});
    if (instance >= instances_.size()) instances_.resize(instance + std::size_t{1});
    Run& run = runs_[request];
    run = {After(now, amount), instance, run.turn + 1, true};
    Instance& i = instances_[instance];
    i.ends += Ns(run.end);
    ++i.count;
    if (i.heap.size() == i.heap.capacity()) MakeRoom(i);
    i.heap.push_back({run.end, request, run.turn});
    std::push_heap(i.heap.begin(), i.heap.end());
  }

  void Ended(std::uint32_t request) {
    if (request >= runs_.size() || !runs_[request].counts) return;
    TakeOut(instances_[runs_[request].instance], runs_[request]);
  }

  // Call this before Left(..., now). Time must not go back.
  void Advance(TimePoint now) {
    for (Instance& i : instances_) {
      while (!i.heap.empty() && i.heap.front().end <= now) {
        if (Counts(i.heap.front())) TakeOut(i, runs_[i.heap.front().request]);
        std::pop_heap(i.heap.begin(), i.heap.end());
        i.heap.pop_back();
      }
    }
  }

  // Returns the remaining work on the instance [ns]; 0 if the instance is unknown.
  std::int64_t Left(std::uint32_t instance, TimePoint now) const {
    if (instance >= instances_.size()) return 0;
    const Instance& i = instances_[instance];
    return static_cast<std::int64_t>(i.ends - static_cast<std::uint64_t>(i.count) * Ns(now));
  }

 private:
  struct Run {
    TimePoint end{};
    std::uint32_t instance = 0;
    std::uint32_t turn = 0;  // number of requests that have run in this slot
    bool counts = false;
  };
  struct Due {
    TimePoint end{};
    std::uint32_t request = 0;
    std::uint32_t turn = 0;
    friend bool operator<(const Due& a, const Due& b) { return a.end > b.end; }  // heap with the soonest end first
  };
  struct Instance {
    std::vector<Due> heap;
    std::uint64_t ends = 0;  // sum of ends modulo 2^64, of which only small differences are used
    std::int64_t count = 0;
  };

  static std::uint64_t Ns(TimePoint t) { return static_cast<std::uint64_t>(t.time_since_epoch().count()); }

  bool Counts(const Due& due) const { return runs_[due.request].counts && runs_[due.request].turn == due.turn; }

  // Removes departed requests from the heap when room is short. The heap thus has at most twice the peak number of
  // running requests.
  void MakeRoom(Instance& i) {
    std::erase_if(i.heap, [this](const Due& due) { return !Counts(due); });
    std::make_heap(i.heap.begin(), i.heap.end());
    constexpr std::size_t kLeast = 128;
    if (2 * i.heap.size() >= i.heap.capacity()) i.heap.reserve(std::max(kLeast, 2 * i.heap.capacity()));
  }

  static void TakeOut(Instance& i, Run& run) {
    run.counts = false;
    i.ends -= Ns(run.end);
    --i.count;
  }

  std::vector<Run> runs_;            // by request's slot
  std::vector<Instance> instances_;  // by instance's slot
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_BOOKS_DUE_WORK_H_
