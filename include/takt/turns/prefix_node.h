// The node of a tree of prompts, and its links in each structure that contains nodes.
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

inline constexpr std::size_t kNoLine = SIZE_MAX;  // value of `line` for a node that is in no line

// Chunks from `first` to `end` - 1 of a prompt, which all have the same users.
struct PrefixNode {
  // For PrefixTree:
  Slot parent = kNoSlot, child = kNoSlot;  // preceding node, and first of the following nodes
  AgeLink siblings = {};
  Slot last = kNoSlot;  // last chunk of the node
  std::int32_t first = 0, end = 0;
  std::int32_t blocks = 0;  // number of blocks per chunk
  std::int32_t children = 0;
  // For Holdings:
  std::int32_t references = 0;  // number of requests whose prompts contain or end with the node
  std::int32_t copied = 0;  // number of the prompt's first chunks that have a copy in the next tier
  bool loose = false;  // true: a request without a workflow left the node
  bool spoiled = false;
  TimePoint used = {};
  std::uint64_t stamp = 0;  // number of the last release that included the node
  // For HoldingTable:
  Slot tips = kNoSlot;  // group of the holdings that end with the node
  std::int32_t holders = 0;  // number of holdings whose paths contain or end with the node
  std::int32_t awaited = 0;  // number of these whose next turn waits
  std::int32_t pinned = 0;  // number of these that are pinned
  std::uint32_t holder = 0;  // exclusive or of the holders' slots: the slot of the only holder, if there is one
  // For VictimLines:
  bool astray = false;  // true: the node is a stray of its line
  std::size_t line = kNoLine;
  AgeLink age = {};  // links in the node's line
  HeapLink stray = {};
  // For ValueScan:
  std::uint64_t scan = 0;  // number of the node's candidate; 0: none
  // For VictimOrder, valid in the walk with the number `walk`:
  std::uint64_t walk = 0;
  std::int32_t children_left = 0;
  std::int32_t spare_end = 0;
  HeapLink spare = {};
  double spare_value = 0;  // value of a spare, used only if nodes of the line are ranked by value

  std::int32_t chunks() const { return end - first; }
  std::int32_t all_blocks() const { return chunks() * blocks; }
  // Returns true if only one running request uses the node, so that the request's next chunk can extend the node.
  bool Grows() const { return references == 1 && holders == 0 && !loose && children == 0; }
  bool CanGo() const { return children == 0 && references == 0 && chunks() > 0; }
};

using PrefixNodes = SlotTable<PrefixNode>;

// Linked lists of records, by their first record.
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
