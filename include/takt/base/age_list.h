// A list by age, threaded through records that lie in slots.
#ifndef TAKT_BASE_AGE_LIST_H_
#define TAKT_BASE_AGE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/base/slot.h"

namespace takt {

// Of a record that may be in a list: its neighbours.
struct AgeLink {
  Slot older = kNoSlot, newer = kNoSlot;
};

// Names its members by their slots in `records`, each of which has a field `age`, an AgeLink. All in O(1).
class AgeList {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  Slot oldest() const { return oldest_; }  // kNoSlot where there is none
  Slot newest() const { return newest_; }

  // As the newest; must not be in the list.
  template <class Records>
  void Append(Records& records, Slot i) {
    const Slot before = std::exchange(newest_, i);
    records[i].age = {before, kNoSlot};
    (before == kNoSlot ? oldest_ : records[before].age.newer) = i;
    ++size_;
  }

  // Must be in the list.
  template <class Records>
  void Remove(Records& records, Slot i) {
    const AgeLink link = std::exchange(records[i].age, {});
    (link.older == kNoSlot ? oldest_ : records[link.older].age.newer) = link.newer;
    (link.newer == kNoSlot ? newest_ : records[link.newer].age.older) = link.older;
    --size_;
  }

  template <class Records>
  void MoveToEnd(Records& records, Slot i) {
    if (newest_ == i) return;
    Remove(records, i);
    Append(records, i);
  }

 private:
  Slot oldest_ = kNoSlot, newest_ = kNoSlot;
  std::size_t size_ = 0;
};

}  // namespace takt

#endif  // TAKT_BASE_AGE_LIST_H_
