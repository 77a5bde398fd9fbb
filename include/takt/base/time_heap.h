// Slots by a time: what happens next, and to which.
#ifndef TAKT_BASE_TIME_HEAP_H_
#define TAKT_BASE_TIME_HEAP_H_

#include <cstddef>

#include "takt/base/full_key.h"
#include "takt/base/id.h"
#include "takt/base/indexed_heap.h"
#include "takt/base/time.h"

namespace takt {

// Times are compared exactly. Of equal ones the smaller arrival is first, then the smaller id.
class TimeHeap {
 public:
  void Reserve(std::size_t slots) { heap_.Reserve(slots); }  // slots 0..n-1 can all be members without allocation

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  bool contains(Slot slot) const { return heap_.contains(slot); }

  Slot Top() const { return heap_.Top(); }  // kNoSlot where there is none
  TimePoint next() const { return heap_.empty() ? kNever : heap_.TopKey().time(); }

  // `slot` must not be a member.
  void Push(Slot slot, TimePoint at, TimePoint arrival, RequestId id) {
    heap_.Push(slot, internal::PackedKey::OfTime(at, arrival, id));
  }
  Slot Pop() { return heap_.Pop(); }
  void Erase(Slot slot) {  // nothing where it is no member
    if (heap_.contains(slot)) heap_.Erase(slot);
  }
  void Clear() { heap_.Clear(); }
  // f(slot) from the next on until it returns false. k visits cost O(k log k).
  template <class F>
  void VisitInOrder(F&& f) const {
    heap_.VisitInOrder(f);
  }

 private:
  IndexedHeap heap_;
};

}  // namespace takt

#endif  // TAKT_BASE_TIME_HEAP_H_
