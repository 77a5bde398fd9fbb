// A heap of slots by time, for the next event.
#ifndef TAKT_BASE_TIME_HEAP_H_
#define TAKT_BASE_TIME_HEAP_H_

#include <cstddef>

#include "takt/base/full_key.h"
#include "takt/base/id.h"
#include "takt/base/indexed_heap.h"
#include "takt/base/time.h"

namespace takt {

// Times are compared exactly; ties are broken by arrival, then by id.
class TimeHeap {
 public:
  void Reserve(std::size_t slots) { heap_.Reserve(slots); }  // reserves storage for slots 0..n-1

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  bool contains(Slot slot) const { return heap_.contains(slot); }

  Slot Top() const { return heap_.Top(); }  // first slot; kNoSlot if the heap is empty
  TimePoint next() const { return heap_.empty() ? kNever : heap_.TopKey().time(); }

  TimePoint at(Slot slot) const { return heap_.KeyOf(slot).time(); }  // `slot` must be a member

  // `slot` must not be a member.
  void Push(Slot slot, TimePoint at, TimePoint arrival, RequestId id) {
    heap_.Push(slot, internal::PackedKey::OfTime(at, arrival, id));
  }
  Slot Pop() { return heap_.Pop(); }
  void Erase(Slot slot) {  // no effect if the slot is not a member
    if (heap_.contains(slot)) heap_.Erase(slot);
  }
  void Clear() { heap_.Clear(); }
  // Calls f(slot) in order of time until it returns false. k visits cost O(k log k).
  template <class F>
  void VisitInOrder(F&& f) const {
    heap_.VisitInOrder(f);
  }

 private:
  IndexedHeap heap_;
};

}  // namespace takt

#endif  // TAKT_BASE_TIME_HEAP_H_
