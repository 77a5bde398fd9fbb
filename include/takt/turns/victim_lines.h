// Idle nodes in lines, each in order of last use.
#ifndef TAKT_TURNS_VICTIM_LINES_H_
#define TAKT_TURNS_VICTIM_LINES_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/skew_heap.h"
#include "takt/base/slot_table.h"
#include "takt/turns/appraiser.h"
#include "takt/turns/prefix_node.h"

namespace takt::internal {

// A set of lines.
class LineSet {
 public:
  void Set(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << i % 64; }
  void Clear(std::size_t i) { words_[i / 64] &= ~(std::uint64_t{1} << i % 64); }
  bool Has(std::size_t i) const { return (words_[i / 64] >> i % 64 & 1) != 0; }
  // Calls each(line) in ascending order.
  template <class Each>
  void ForEach(Each&& each) const {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) {
        each(64 * word + static_cast<std::size_t>(std::countr_zero(bits)));
      }
    }
  }
  // Returns kNoLine if the set is empty.
  std::size_t first() const {
    for (std::size_t word = 0; word < words_.size(); ++word) {
      if (words_[word] != 0) return 64 * word + static_cast<std::size_t>(std::countr_zero(words_[word]));
    }
    return kNoLine;
  }

 private:
  std::array<std::uint64_t, (kLines + 63) / 64> words_ = {};
};

// Invariant: a node is in the line PrefixNode::line, or in none. A line is a list in ascending order of stamps, oldest
// first, plus a heap of strays. Strays are nodes whose place in the list is far from both ends. A line searched by
// value is unordered and has no strays.
class VictimLines {
 public:
  bool Has(std::size_t line) const { return filled_.Has(line); }
  const LineSet& filled() const { return filled_; }  // lines that are not empty
  Slot oldest(std::size_t line) const { return lines_[line].oldest; }  // oldest node of the list; kNoSlot: none
  Slot strays(std::size_t line) const { return lines_[line].strays; }  // oldest stray: the root of the heap
  // Returns a node of the first nonempty line; kNoSlot if there is none.
  Slot Any() const {
    const std::size_t i = filled_.first();
    if (i == kNoLine) return kNoSlot;
    return lines_[i].oldest != kNoSlot ? lines_[i].oldest : lines_[i].strays;
  }

  // Adds a node that is in no line to a line, by its stamp, from the nearer end. A node that was just used is the
  // newest node. A parent whose children were evicted is nearly the oldest node.
  void Enlist(PrefixNodes& nodes, Slot n, std::size_t i, bool in_any_order) {
    Line& line = lines_[i];
    PrefixNode& node = nodes[n];
    node.line = i;
    filled_.Set(i);
    Slot older = line.newest, newer = line.oldest;  // candidate neighbours
    if (in_any_order) newer = kNoSlot;
    for (int steps = 0; !in_any_order; ++steps) {
      if (steps == kNear) {
        node.astray = true;
        line.strays = PushHeap<&PrefixNode::stray>(nodes, line.strays, n, Older{nodes});
        return;
      }
      if (older == kNoSlot || nodes[older].stamp <= node.stamp) {
        newer = older == kNoSlot ? line.oldest : nodes[older].age.newer;
        break;
      }
      if (nodes[newer].stamp > node.stamp) {
        older = nodes[newer].age.older;
        break;
      }
      older = nodes[older].age.older;
      newer = nodes[newer].age.newer;
    }
    node.age = {older, newer};
    (older == kNoSlot ? line.oldest : nodes[older].age.newer) = n;
    (newer == kNoSlot ? line.newest : nodes[newer].age.older) = n;
  }

  // Has no effect if the node is in no line.
  void Unlist(PrefixNodes& nodes, Slot n) {
    PrefixNode& node = nodes[n];
    if (node.line == kNoLine) return;
    Line& line = lines_[node.line];
    if (node.astray) {
      line.strays = EraseFromHeap<&PrefixNode::stray>(nodes, line.strays, n, Older{nodes});
    } else {
      const AgeLink link = std::exchange(node.age, {});
      (link.older == kNoSlot ? line.oldest : nodes[link.older].age.newer) = link.newer;
      (link.newer == kNoSlot ? line.newest : nodes[link.newer].age.older) = link.older;
    }
    if (line.oldest == kNoSlot && line.strays == kNoSlot) filled_.Clear(node.line);
    node.line = kNoLine, node.astray = false, node.scan = 0;
  }

  // Adds all nodes of the policy's lists to `found`, which must be empty and have room.
  void CollectLists(const PrefixNodes& nodes, std::vector<Slot>& found) const {
    for (std::size_t i = kFirstList; i < kPinnedLine; ++i) {
      for (Slot n = lines_[i].oldest; n != kNoSlot; n = nodes[n].age.newer) found.push_back(n);
      std::size_t next = found.size();
      if (lines_[i].strays != kNoSlot) found.push_back(lines_[i].strays);
      for (; next < found.size(); ++next) {
        const HeapLink link = nodes[found[next]].stray;
        for (const Slot n : {link.left, link.right}) {
          if (n != kNoSlot) found.push_back(n);
        }
      }
    }
  }

 private:
  static constexpr int kNear = 32;

  struct Line {
    Slot oldest = kNoSlot, newest = kNoSlot;
    Slot strays = kNoSlot;
  };

  struct Older {
    const PrefixNodes& nodes;
    bool operator()(Slot a, Slot b) const { return nodes[a].stamp < nodes[b].stamp; }
  };

  std::array<Line, kLines> lines_;
  LineSet filled_;
};

}  // namespace takt::internal

#endif  // TAKT_TURNS_VICTIM_LINES_H_
