// Requests that wait, are blocked or are paused: they can expire. Waiting requests that have never run can be shed.
#ifndef TAKT_SCHEDULER_FRESH_REQUESTS_H_
#define TAKT_SCHEDULER_FRESH_REQUESTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/indexed_heap.h"
#include "takt/base/time_heap.h"
#include "takt/scheduler/state.h"
#include "takt/state/waiting_book.h"

namespace takt::internal {

// Invariant: `waiting` counts the requests in the queue that have never run. If the newest are shed, a heap holds them.
class FreshRequests {
 public:
  explicit FreshRequests(EngineState& s) : s_(s), book_(QueueBounds(s.options)) {}

  void KeyHashes(std::uint64_t seed) { book_.KeyHashes(seed); }
  void Reserve(std::size_t slots) {
    expiries_.Reserve(slots);
    if (ParksUntil(s_.options)) parked_.Reserve(slots);
    if (ShedsNewest(s_.options)) newest_.Reserve(slots);
    book_.Reserve(slots);
  }
  std::int64_t waiting() const { return waiting_; }
  TimePoint next_expiry() const { return std::min(expiries_.next(), parked_.next()); }
  WaitingBook& book() { return book_; }

  // A request entered the queue.
  void Joined(Slot slot) {
    WatchExpiry(slot);
    const RequestState& state = s_.table[slot].state;
    parked_.Erase(slot);
    if (state.has_run) return Park(slot, s_.options.max_resume_wait);
    ++waiting_;
    book_.Join(slot, state.request, s_.now);
    if (ShedsNewest(s_.options)) newest_.Push(slot, NewestFirst(slot));
  }

  // A request left the queue. `served`: it gets a row.
  void Left(Slot slot, bool served) {
    waiting_ -= s_.table[slot].state.has_run ? 0 : 1;
    if (newest_.contains(slot)) newest_.Erase(slot);
    book_.Leave(slot, served, s_.now);
    Forget(slot);
  }

  // A request is blocked or paused.
  void Parked(Slot slot, RequestStatus status) {
    parked_.Erase(slot);
    if (status == RequestStatus::kBlocked) WatchExpiry(slot), Park(slot, s_.options.max_blocked);
    if (status == RequestStatus::kPaused) Park(slot, s_.options.max_paused);
  }

  // Makes a waiting or blocked request expire if it has not run by its expiry time, or by the limit of its class.
  void WatchExpiry(Slot slot) {
    const RequestState& state = s_.table[slot].state;
    if (state.has_run || expiries_.contains(slot)) return;
    const Request& r = state.request;
    const TimePoint at = std::min(r.expires_at, book_.bounds().WaitEnds(r, r.arrival));
    if (at != kNever) expiries_.Push(slot, at, r.arrival, r.id);
  }
  void ForgetExpiry(Slot slot) { expiries_.Erase(slot); }
  // A request left the queue, or is no longer blocked or paused.
  void Forget(Slot slot) { expiries_.Erase(slot), parked_.Erase(slot); }

  // Prepares OptionsChanged for these options.
  void ReserveFor(const SchedulerOptions& to, std::size_t slots) {
    if (ParksUntil(to)) parked_.Reserve(slots);
    if (ShedsNewest(to)) newest_.Reserve(slots);
    book_.ReserveFor(QueueBounds(to), slots);
  }
  // The options have changed from `before`.
  void OptionsChanged(const SchedulerOptions& before) {
    const SchedulerOptions& o = s_.options;
    std::vector<Slot>& order = s_.scratch;
    order.clear();
    for (Slot slot = 0; slot < s_.table.slots(); ++slot) {
      const Record& record = s_.table[slot];
      const RequestState& state = record.state;
      if (parked_.contains(slot)) {
        const TimePoint was = parked_.at(slot);
        parked_.Erase(slot);
        const double old = WaitLimit(before, record.status), limit = WaitLimit(o, record.status);
        ParkSince(slot, Before(was, FromSeconds(old)), limit);
      } else if (record.status != RequestStatus::kWaiting || state.has_run) {
        ParkSince(slot, s_.now, WaitLimit(o, record.status));
      }
      if (record.status == RequestStatus::kWaiting && !state.has_run) order.push_back(slot);
    }
    std::ranges::sort(order, {}, [this](Slot slot) {
      const Request& r = s_.table[slot].state.request;
      return std::pair(r.arrival, r.id);
    });
    newest_.Clear();
    if (ShedsNewest(o)) {
      for (const Slot slot : order) newest_.Push(slot, NewestFirst(slot));
    }
    if (const QueueBounds bounds(o); bounds != book_.bounds()) Rejoin(bounds, order);
    for (Slot slot = 0; slot < s_.table.slots(); ++slot) {
      const RequestStatus status = s_.table[slot].status;
      if (status != RequestStatus::kWaiting && status != RequestStatus::kBlocked) continue;
      expiries_.Erase(slot);
      WatchExpiry(slot);
    }
    order.clear();
  }

  // Returns a request whose expiry time has come, or kNoSlot.
  Slot Expired(TimePoint now) const {
    for (const TimeHeap* heap : {&expiries_, &parked_}) {
      if (!heap->empty() && heap->next() <= now) return heap->Top();
    }
    return kNoSlot;
  }

  // Returns true if more than `bound` requests wait, or too many tokens.
  bool Over(std::int64_t bound, bool tokens) const { return waiting_ > bound || (tokens && book_.TokensOver()); }
  // Returns the request to shed next, or kNoSlot if all are promoted. At least one waits.
  Slot ToShed() {
    return s_.options.shed == Shed::kNewest ? newest_.Top() : s_.queue.WorstNeverRun(s_.now, s_.StateOf());
  }

 private:
  void Rejoin(const QueueBounds& bounds, const std::vector<Slot>& order) {
    const auto request_of = [this](Slot slot) -> const Request& { return s_.table[slot].state.request; };
    book_.Change(bounds, order, request_of, s_.now);
  }
  static bool ShedsNewest(const SchedulerOptions& o) {
    return o.shed == Shed::kNewest && (o.max_waiting < INT64_MAX || o.max_waiting_tokens < INT64_MAX);
  }
  static bool ParksUntil(const SchedulerOptions& o) {
    return o.max_resume_wait > 0 || o.max_blocked > 0 || o.max_paused > 0;
  }
  // Returns the limit of a wait in this status by a request that has run or is not in the queue [s]; 0: none.
  static double WaitLimit(const SchedulerOptions& o, RequestStatus status) {
    switch (status) {
      case RequestStatus::kWaiting: return o.max_resume_wait;
      case RequestStatus::kBlocked: return o.max_blocked;
      case RequestStatus::kPaused: return o.max_paused;
      default: return 0;
    }
  }
  PackedKey NewestFirst(Slot slot) const {
    const Request& r = s_.table[slot].state.request;
    return PackedKey(0, r.arrival, r.id).Reversed();
  }
  // Makes the request expire after this time [s]; 0: never.
  void Park(Slot slot, double limit) { ParkSince(slot, s_.now, limit); }
  void ParkSince(Slot slot, TimePoint since, double limit) {
    if (!(limit > 0)) return;
    const Request& r = s_.table[slot].state.request;
    parked_.Push(slot, After(since, FromSeconds(limit)), r.arrival, r.id);
  }

  EngineState& s_;
  WaitingBook book_;
  TimeHeap expiries_;  // waiting and blocked requests that have never run
  TimeHeap parked_;  // requests with a limit on their present wait
  IndexedHeap newest_;  // waiting requests, newest first
  std::int64_t waiting_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_FRESH_REQUESTS_H_
