// A list in order of age, linked through records in slots.
#ifndef TAKT_BASE_AGE_LIST_H_
#define TAKT_BASE_AGE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/base/slot.h"

namespace takt {

// Links of a record that may be in a list.
struct AgeLink {
  Slot older = kNoSlot, newer = kNoSlot;
};

// A list whose members are slots of `records`. Each record has a field `age`, an AgeLink. All operations are O(1).
class AgeList {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  Slot oldest() const { return oldest_; }  // kNoSlot if the list is empty
  Slot newest() const { return newest_; }

  // Adds a record as the newest member. The record must not be in the list.
  template <class Records>
  void Append(Records& records, Slot i) {
    const Slot before = std::exchange(newest_, i);
    records[i].age = {before, kNoSlot};
    (before == kNoSlot ? oldest_ : records[before].age.newer) = i;
    ++size_;
  }

  // The record must be in the list.
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
