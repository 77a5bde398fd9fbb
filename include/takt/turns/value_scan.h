// A heap of nodes by value, for a policy without lists.
#ifndef TAKT_TURNS_VALUE_SCAN_H_
#define TAKT_TURNS_VALUE_SCAN_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/slot_table.h"
#include "takt/turns/appraiser.h"
#include "takt/turns/prefix_node.h"

namespace takt::internal {

// The heap stays valid until an input of the policy changes (Forget). Evicting n blocks, together or one by one, then
// costs O(n log n).
//
// Invariant: in a valid heap, each node of the line has a candidate with its number (PrefixNode::scan) and value.
// Candidates with other numbers are ignored.
class ValueScan {
 public:
  std::size_t capacity() const { return heap_.capacity(); }
  void Reserve(std::size_t n) { heap_.reserve(n), popped_.reserve(n); }

  // Makes the next walk read all nodes again.
  void Forget() { holds_ = false; }

  // Begins a walk. `first`: the first node of the line.
  void Begin(CacheView cache, const Appraiser& appraiser, Slot first) {
    if (holds_) {
      for (const Candidate& c : popped_) {
        if (cache.nodes[c.node].scan == c.scan) heap_.push_back(c), std::ranges::push_heap(heap_, Later);
      }
      popped_.clear();
      return;
    }
    holds_ = true;
    heap_.clear(), popped_.clear();
    for (Slot n = first; n != kNoSlot; n = cache.nodes[n].age.newer) heap_.push_back(CandidateOf(cache, appraiser, n));
    std::ranges::make_heap(heap_, Later);
  }

  // Adds a node of the line that is new or has changed.
  void Offer(CacheView cache, const Appraiser& appraiser, Slot n) {
    if (!holds_) return;
    holds_ = heap_.size() + popped_.size() < heap_.capacity();  // without room, the next walk reads all nodes again
    if (!holds_) return;
    heap_.push_back(CandidateOf(cache, appraiser, n));
    std::ranges::push_heap(heap_, Later);
  }

  // Returns the node with the smallest value, oldest use first; kNoSlot if none is left.
  Slot Top(const PrefixNodes& nodes) {
    while (!heap_.empty() && nodes[heap_.front().node].scan != heap_.front().scan) {
      std::ranges::pop_heap(heap_, Later);
      heap_.pop_back();
    }
    return heap_.empty() ? kNoSlot : heap_.front().node;
  }
  double top_value() const { return heap_.front().value; }
  // Removes the top node for this walk. The next walk starts with this node again if it is still in the line.
  void Pop() {
    std::ranges::pop_heap(heap_, Later);
    popped_.push_back(heap_.back());
    heap_.pop_back();
  }

 private:
  struct Candidate {
    double value = 0;
    std::uint64_t stamp = 0;
    std::uint64_t scan = 0;
    Slot node = kNoSlot;
  };

  Candidate CandidateOf(CacheView cache, const Appraiser& appraiser, Slot n) {
    PrefixNode& node = cache.nodes[n];
    node.scan = ++scans_;
    return {appraiser.ValueOf(cache, node, node.end), node.stamp, node.scan, n};
  }
  static bool Later(const Candidate& a, const Candidate& b) {
    return a.value != b.value ? a.value > b.value : a.stamp > b.stamp;
  }

  bool holds_ = false;
  std::uint64_t scans_ = 0;
  std::vector<Candidate> heap_, popped_;  // candidates, and those that the last walk popped
};

}  // namespace takt::internal

#endif  // TAKT_TURNS_VALUE_SCAN_H_
