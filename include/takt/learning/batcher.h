// Batches predictions between threads that receive requests, a thread that predicts, and the scheduling loop.
//
//   batcher.Add(request, model, input, now);                                        // any thread
//   if (batcher.Due(now)) batcher.Run(*lengths, scratch, now);                      // a thread of the host
//   batcher.Drain(now, [&](const auto& event) { scheduler.On(event, now); });       // the loop, before Plan
#ifndef TAKT_LEARNING_BATCHER_H_
#define TAKT_LEARNING_BATCHER_H_

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <list>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/slot_table.h"
#include "takt/base/time.h"
#include "takt/learning/length_forest.h"
#include "takt/model/event.h"

namespace takt {

struct BatcherOptions {
  std::size_t most = 64;  // maximum requests in a batch
  Duration longest = std::chrono::milliseconds(2);  // time that a request waits for others before its batch is due
  Duration bound =
      std::chrono::milliseconds(20);  // longest wait for a prediction; then the request's own estimate is used
  std::size_t capacity = 100'000;  // maximum held requests; further requests run with their own estimates
  std::uint64_t hash_seed = 0;  // seed of hashes of ids, as SchedulerOptions::hash_seed
};

// A batcher has no thread of its own and gets the time from its callers. Thread-safe. The lock is held only while a
// batch moves in or out, never during a prediction. So a stuck predictor delays no request beyond the longest wait.
//
// Drain returns each added request once, as Arrived. Its prediction is in workflow_tokens_left. If the prediction is
// late, the request keeps its own estimate, and a Revised event follows. A request can be cancelled here until Drain
// returns it.
//
// If memory runs out or the predictor throws, the call has no effect.
class Batcher {
 public:
  explicit Batcher(BatcherOptions options = {}) : options_(options) { held_.KeyHashes(options.hash_seed); }

  // Adds a request and copies the sketch of `input`. A request whose id is held is dropped and counted. If an id is
  // added again after Drain returned it, the former request's prediction is discarded.
  void Add(Request request, ModelId model, const LengthInput& input, TimePoint now) {
    const std::lock_guard lock(mutex_);
    const Held* former = held_.Get(request.id);
    const bool again = former != nullptr;
    if (again && !former->released) return void(++stats_.dropped);
    const Entry entry{request.id, ++serials_, now};
    const bool full = held_.size() - (again ? 1 : 0) >= options_.capacity;
    Held held = {.arrived = {std::move(request)}, .serial = entry.serial};
    std::list<Entry> ready, pending, bounds;
    if (full) {
      ready.push_back(entry);
    } else {
      held.query = {model, input, {-1}};
      held.sketch.assign(input.sketch.begin(), input.sketch.end());
      pending.push_back(entry);
      bounds.push_back(entry);
    }
    Keep(entry.id, std::move(held));  // the last allocation
    stats_.full += full;
    ready_.splice(ready_.end(), ready);
    pending_.splice(pending_.end(), pending);
    bounds_.splice(bounds_.end(), bounds);
    if (again) TrimAll();
  }

  // Returns true if a batch is full or its first request has waited long enough.
  bool Due(TimePoint now) const {
    const std::lock_guard lock(mutex_);
    return pending_.size() >= options_.most ||
           (!pending_.empty() && Between(pending_.front().since, now) >= options_.longest);
  }

  // Returns the next time at which Due or Drain may have work; kNever: none before the next Add or Run.
  TimePoint wake_at() const {
    const std::lock_guard lock(mutex_);
    TimePoint at = ready_.empty() ? kNever : TimePoint{};
    if (!pending_.empty()) at = std::min(at, After(pending_.front().since, options_.longest));
    if (!bounds_.empty()) at = std::min(at, After(bounds_.front().since, options_.bound));
    return at;
  }

  // Predicts for up to `most` requests, longest waiting first, and returns their number. Several threads may run at
  // once, each with its own scratch. `predict(queries, estimates)` is called without the lock.
  template <class F>
    requires std::invocable<F, std::span<const LengthForest::Query>, std::span<Estimate>>
  std::size_t Run(F&& predict) {
    Batch batch{*this};
    std::vector<LengthForest::Query> queries;
    std::vector<Estimate> predicted;
    {
      const std::lock_guard lock(mutex_);
      const std::size_t most = std::min(options_.most, pending_.size());
      queries.reserve(most), batch.sketches.reserve(most), predicted.reserve(most);
      while (!pending_.empty() && queries.size() < most) {
        Held* held = Find(pending_.front());
        if (held == nullptr) {  // the request was cancelled
          pending_.pop_front();
          continue;
        }
        batch.entries.splice(batch.entries.end(), pending_, pending_.begin());
        queries.push_back(held->query);
        batch.sketches.push_back(std::move(held->sketch));
      }
    }
    const std::size_t n = queries.size();
    for (std::size_t i = 0; i < n; ++i) queries[i].input.sketch = batch.sketches[i];
    predicted.resize(n);
    if (n > 0) predict(std::span<const LengthForest::Query>(queries), std::span<Estimate>(predicted));
    const std::lock_guard lock(mutex_);
    for (const Estimate& estimate : predicted) {
      Held* held = Find(batch.entries.front());
      if (held == nullptr) {  // cancelled meanwhile
        batch.entries.pop_front();
        continue;
      }
      held->predicted = true;
      if (held->released) ++stats_.late;
      if (held->released || estimate.known()) held->arrived.request.workflow_tokens_left = estimate;
      ready_.splice(ready_.end(), batch.entries, batch.entries.begin());
    }
    return n;
  }
  std::size_t Run(const LengthForest& lengths, LengthForest::Scratch& scratch) {
    return Run([&](auto queries, auto predicted) { lengths.Predict(queries, predicted, scratch); });
  }

  // Calls f(event) for each request whose prediction is ready or whose wait has reached the bound. The event is
  // Arrived, or Revised for a late prediction. Returns the number of events. f is called without the lock, by one
  // thread. If f throws, the next Drain repeats that event.
  template <class F>
  std::size_t Drain(TimePoint now, F&& f) {
    const std::size_t left = HandOver(f);
    {
      const std::lock_guard lock(mutex_);
      const auto waits = [&](const Entry& entry) { return Between(entry.since, now) < options_.bound; };
      const auto due = std::distance(bounds_.begin(), std::ranges::find_if(bounds_, waits));
      taken_.reserve(ready_.size() + static_cast<std::size_t>(due));  // no allocation after this
      for (; !ready_.empty(); ready_.pop_front()) {
        Held* held = Find(ready_.front());
        if (held == nullptr) continue;  // cancelled
        Request& request = held->arrived.request;
        if (!held->released) {
          if (held->predicted) ++stats_.in_time;
          taken_.push_back(std::move(held->arrived));
        } else if (request.workflow_tokens_left.known()) {
          taken_.push_back(Revised{.request = ready_.front().id, .workflow_tokens_left = request.workflow_tokens_left});
        }
        Forget(ready_.front().id);
      }
      while (!bounds_.empty() && !waits(bounds_.front())) {
        Held* held = Find(bounds_.front());
        bounds_.pop_front();
        if (held == nullptr || held->released) continue;
        held->released = true;
        taken_.push_back(std::move(held->arrived));
        ++stats_.fallbacks;
      }
      Trim(bounds_);
    }
    return left + HandOver(f);
  }

  // Removes a request. Returns false if it is unknown or taken by Drain. After that Drain, the scheduler can cancel it.
  bool Cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    const Held* held = held_.Get(id);
    if (held == nullptr) return false;
    const bool released = held->released;
    Forget(id);
    TrimAll();
    return !released;
  }

  struct Stats {
    std::uint64_t in_time = 0;  // requests returned with a prediction
    std::uint64_t fallbacks = 0;  // requests returned without a prediction
    std::uint64_t late = 0;  // requests returned without a prediction whose prediction came later
    std::uint64_t full = 0;  // requests that were not held because the capacity was reached
    std::uint64_t dropped = 0;  // requests whose id was already held
  };
  Stats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

  // Returns the table entries visited by a look-up; for tests.
  std::size_t Looks(RequestId id) const {
    const std::lock_guard lock(mutex_);
    return held_.Looks(id);
  }

 private:
  struct Entry {
    RequestId id;
    std::uint64_t serial;
    TimePoint since;
  };
  struct Held {
    Arrived arrived = {};
    LengthForest::Query query = {};
    std::vector<float> sketch = {};
    std::uint64_t serial = 0;  // distinguishes uses of the same id
    bool released = false;  // true: Drain has returned the request without a prediction
    bool predicted = false;  // the prediction is in `arrived`
  };

  // Returns unpredicted entries to the queue when Run ends.
  struct Batch {
    Batcher& from;
    std::list<Entry> entries = {};
    std::vector<std::vector<float>> sketches = {};

    ~Batch() {
      if (entries.empty()) return;
      const std::lock_guard lock(from.mutex_);
      std::size_t i = 0;
      for (const Entry& entry : entries) {
        if (Held* held = from.Find(entry)) held->sketch = std::move(sketches[i]);
        ++i;
      }
      from.pending_.splice(from.pending_.begin(), entries);
      from.Trim(from.pending_);
    }
  };

  template <class F>
  std::size_t HandOver(F& f) {
    const std::size_t first = done_;
    for (; done_ < taken_.size(); ++done_) f(std::as_const(taken_[done_]));
    taken_.clear();
    return std::exchange(done_, 0) - first;
  }

  // Returns the held request; null if it is not held.
  Held* Find(const Entry& entry) {
    Held* held = held_.Get(entry.id);
    return held == nullptr || held->serial != entry.serial ? nullptr : held;
  }

  void Keep(RequestId id, Held held) {
    if (Held* former = held_.Get(id)) *former = std::move(held);
    else held_.Insert(id, std::move(held));
  }
  void Forget(RequestId id) {
    const Slot slot = held_.Find(id);
    held_[slot] = {};
    held_.Erase(slot, id);
  }

  // Removes the entries of departed requests: at the front at once, elsewhere when such entries are the majority. This
  // bounds memory even if no batch runs.
  void TrimAll() { Trim(pending_), Trim(bounds_), Trim(ready_); }
  void Trim(std::list<Entry>& entries) {
    constexpr std::size_t kFew = 64;
    while (!entries.empty() && Find(entries.front()) == nullptr) entries.pop_front();
    if (entries.size() <= 2 * held_.size() + kFew) return;
    std::erase_if(entries, [this](const Entry& entry) { return Find(entry) == nullptr; });
  }

  const BatcherOptions options_;
  mutable std::mutex mutex_;  // guards the members below
  IdTable<RequestId, Held, std::deque<Held>> held_;  // grows without moving elements
  std::list<Entry> pending_, bounds_;  // in order of Add
  std::list<Entry> ready_;  // entries for the next Drain, in order
  std::uint64_t serials_ = 0;
  Stats stats_;

  // State of the draining thread.
  std::vector<Event> taken_;
  std::size_t done_ = 0;  // number of elements of taken_ that f has received
};

}  // namespace takt

#endif  // TAKT_LEARNING_BATCHER_H_
