// Waiting and blocked requests that have never run: they can expire or be shed.
#ifndef TAKT_SCHEDULER_FRESH_REQUESTS_H_
#define TAKT_SCHEDULER_FRESH_REQUESTS_H_

#include <cstddef>
#include <cstdint>

#include "takt/base/indexed_heap.h"
#include "takt/base/time_heap.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Invariant: `waiting` counts the requests in the queue that have never run. If the newest are shed, a heap holds them.
class FreshRequests {
 public:
  explicit FreshRequests(EngineState& s) : s_(s) {}

  void Reserve(std::size_t slots) {
    expiries_.Reserve(slots);
    if (ShedsNewest()) newest_.Reserve(slots);
  }
  std::int64_t waiting() const { return waiting_; }
  TimePoint next_expiry() const { return expiries_.next(); }

  // A request entered the queue.
  void Joined(Slot slot) {
    WatchExpiry(slot);
    const RequestState& state = s_.table[slot].state;
    if (state.has_run) return;
    ++waiting_;
    if (ShedsNewest()) newest_.Push(slot, PackedKey(0, state.request.arrival, state.request.id).Reversed());
  }

  // A request left the queue.
  void Left(Slot slot) {
    waiting_ -= s_.table[slot].state.has_run ? 0 : 1;
    if (newest_.contains(slot)) newest_.Erase(slot);
    expiries_.Erase(slot);
  }

  // Makes a waiting or blocked request expire if it has not run by its expiry time.
  void WatchExpiry(Slot slot) {
    const RequestState& state = s_.table[slot].state;
    if (state.has_run || state.request.expires_at == kNever || expiries_.contains(slot)) return;
    expiries_.Push(slot, state.request.expires_at, state.request.arrival, state.request.id);
  }
  void ForgetExpiry(Slot slot) { expiries_.Erase(slot); }

  // Returns a request whose expiry time has come, or kNoSlot.
  Slot Expired(TimePoint now) const {
    return !expiries_.empty() && expiries_.next() <= now ? expiries_.Top() : kNoSlot;
  }

  // Returns the request to shed next, or kNoSlot if all are promoted. At least one waits.
  Slot ToShed() {
    return s_.options.shed == Shed::kNewest ? newest_.Top() : s_.queue.WorstNeverRun(s_.now, s_.StateOf());
  }

 private:
  bool ShedsNewest() const { return s_.options.shed == Shed::kNewest && s_.options.max_waiting < INT64_MAX; }

  EngineState& s_;
  TimeHeap expiries_;  // waiting and blocked requests
  IndexedHeap newest_;  // waiting requests, newest first
  std::int64_t waiting_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_FRESH_REQUESTS_H_
