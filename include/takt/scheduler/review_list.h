// Tool calls that the pause policy will review.
#ifndef TAKT_SCHEDULER_REVIEW_LIST_H_
#define TAKT_SCHEDULER_REVIEW_LIST_H_

#include <cstddef>
#include <vector>

#include "takt/base/time_heap.h"
#include "takt/model/event.h"

namespace takt::internal {

struct PausedCall {
  ToolCalled call;
  TimePoint since{};
};

class ReviewList {
 public:
  void Reserve(std::size_t slots) { due_.Reserve(slots), calls_.reserve(slots); }

  std::size_t size() const { return due_.size(); }
  TimePoint next() const { return due_.next(); }

  // `slot` must have no review. Its request made this call.
  void Add(Slot slot, TimePoint at, const PausedCall& call) {
    if (slot >= calls_.size()) calls_.resize(std::size_t{slot} + 1);
    calls_[slot] = call;
    due_.Push(slot, at, {}, call.call.request);
  }
  void Erase(Slot slot) { due_.Erase(slot); }

  // Returns the first slot whose review is due; kNoSlot if none. Its call stays valid until the slot's next Add.
  Slot PopDue(TimePoint now) { return !due_.empty() && due_.next() <= now ? due_.Pop() : kNoSlot; }
  const PausedCall& call(Slot slot) const { return calls_[slot]; }

 private:
  TimeHeap due_;
  std::vector<PausedCall> calls_;  // by slot
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_REVIEW_LIST_H_
