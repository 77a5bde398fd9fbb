// Heaps that are linked through records in slots.
#ifndef TAKT_BASE_SKEW_HEAP_H_
#define TAKT_BASE_SKEW_HEAP_H_

#include <utility>

#include "takt/base/slot.h"

namespace takt {

// Links of a record that may be in a heap.
struct HeapLink {
  Slot up = kNoSlot, left = kNoSlot, right = kNoSlot;
};

// Merges two heaps of `records`, whose member kLink is a HeapLink, and returns the root. `before(a, b)`: a precedes b.
// O(log n) amortized, without allocation. Sleator and Tarjan, Self-adjusting heaps, 1986.
template <auto kLink, class Records, class Before>
Slot MeldHeaps(Records& records, Slot a, Slot b, Before&& before) {
  Slot root = kNoSlot, up = kNoSlot;
  Slot* at = &root;
  while (a != kNoSlot && b != kNoSlot) {
    if (before(b, a)) std::swap(a, b);
    HeapLink& link = records[a].*kLink;
    link.up = up;
    up = *at = a;
    a = std::exchange(link.right, link.left);
    at = &link.left;
  }
  *at = a != kNoSlot ? a : b;
  if (*at != kNoSlot) (records[*at].*kLink).up = up;
  return root;
}

// Adds a record to the heap with this root. Returns the new root.
template <auto kLink, class Records, class Before>
Slot PushHeap(Records& records, Slot root, Slot i, Before&& before) {
  records[i].*kLink = {};
  return MeldHeaps<kLink>(records, root, i, before);
}

// Removes a record from the heap with this root. Returns the new root.
template <auto kLink, class Records, class Before>
Slot EraseFromHeap(Records& records, Slot root, Slot i, Before&& before) {
  const HeapLink link = std::exchange(records[i].*kLink, {});
  const Slot rest = MeldHeaps<kLink>(records, link.left, link.right, before);
  if (rest != kNoSlot) (records[rest].*kLink).up = link.up;
  if (link.up == kNoSlot) return rest;
  HeapLink& above = records[link.up].*kLink;
  (above.left == i ? above.left : above.right) = rest;
  return root;
}

}  // namespace takt

#endif  // TAKT_BASE_SKEW_HEAP_H_
