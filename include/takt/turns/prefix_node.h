// The node of a tree of prompts, and its place in each structure that is threaded through such nodes.
#ifndef TAKT_TURNS_PREFIX_NODE_H_
#define TAKT_TURNS_PREFIX_NODE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/base/age_list.h"
#include "takt/base/skew_heap.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"

namespace takt::internal {

inline constexpr std::size_t kNoLine = SIZE_MAX;  // of a node that is in no line of victims

// Chunks `first` .. `end` - 1 of a prompt, which the same requests and the same workflows use.
struct PrefixNode {
  // Of PrefixTree:
  Slot parent = kNoSlot, child = kNoSlot;  // the node before it; the first of those that follow
  AgeLink siblings = {};
  Slot last = kNoSlot;  // chunk
  std::int32_t first = 0, end = 0;
  std::int32_t blocks = 0;  // of a chunk
  std::int32_t children = 0;
  // Of Holdings:
  std::int32_t references = 0;  // requests that go through it or end with it
  std::int32_t copied = 0;  // of the prompt's chunks, so many from the first on have a copy in the next tier
  bool loose = false;  // a request without a workflow has left it behind
  bool spoiled = false;
  TimePoint used = {};
  std::uint64_t stamp = 0;  // of the release that was the last to use it
  // Of HoldingTable:
  Slot tips = kNoSlot;  // the holdings that end with it
  std::int32_t holders = 0;  // holdings that go through it or end with it
  std::int32_t awaited = 0;  // of these, whose next turn waits
  std::int32_t pinned = 0;  // of these, that are pinned
  std::uint32_t holder = 0;  // the exclusive or of their slots: of a single holder, its slot
  // Of VictimLines:
  bool astray = false;  // it is among its line's strays
  std::size_t line = kNoLine;
  AgeLink age = {};  // in its line
  HeapLink stray = {};
  // Of ValueScan:
  std::uint64_t scan = 0;  // the number of its candidate; 0: none
  // Of VictimOrder, in the walk of this number:
  std::uint64_t walk = 0;
  std::int32_t children_left = 0;
  std::int32_t spare_end = 0;
  HeapLink spare = {};
  double spare_value = 0;  // if nodes of its line are found by value

  std::int32_t chunks() const { return end - first; }
  std::int32_t all_blocks() const { return chunks() * blocks; }
  // One request uses it, and nobody else has: its next chunk becomes part of it.
  bool Grows() const { return references == 1 && holders == 0 && !loose && children == 0; }
  bool CanGo() const { return children == 0 && references == 0 && chunks() > 0; }
};

using PrefixNodes = SlotTable<PrefixNode>;

// Lists threaded through records, by their first one.
template <auto kLink, class Records>
void LinkFirst(Records& records, Slot& list, Slot i) {
  records[i].*kLink = {kNoSlot, list};
  if (list != kNoSlot) (records[list].*kLink).older = i;
  list = i;
}
template <auto kLink, class Records>
void Unlink(Records& records, Slot& list, Slot i) {
  const AgeLink link = std::exchange(records[i].*kLink, {});
  (link.older == kNoSlot ? list : (records[link.older].*kLink).newer) = link.newer;
  if (link.newer != kNoSlot) (records[link.newer].*kLink).older = link.older;
}

}  // namespace takt::internal

#endif  // TAKT_TURNS_PREFIX_NODE_H_
