// Heaps threaded through records that lie in slots.
#ifndef TAKT_BASE_SKEW_HEAP_H_
#define TAKT_BASE_SKEW_HEAP_H_

#include <utility>

#include "takt/base/slot.h"

namespace takt {

// Of a record that may be in a heap: its neighbours.
struct HeapLink {
  Slot up = kNoSlot, left = kNoSlot, right = kNoSlot;
};

// Melds two heaps of `records`, whose field kLink is a HeapLink, and returns the root. `before(a, b)`: a comes out
// before b. O(log n) amortised; nothing is allocated. Sleator and Tarjan, Self-adjusting heaps, 1986.
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

// Adds a record to the heap with this root; returns the new one.
template <auto kLink, class Records, class Before>
Slot PushHeap(Records& records, Slot root, Slot i, Before&& before) {
  records[i].*kLink = {};
  return MeldHeaps<kLink>(records, root, i, before);
}

// Takes a record out of the heap with this root; returns the new one.
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
