// Nodes of a policy without lists, in a heap by value.
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

// Holds as long as nothing that the policy reads has changed (Forget), so that a call that evicts n blocks, together or
// one by one, costs O(n log n).
//
// Invariant: if it holds, each node of the line has a candidate with its number (PrefixNode::scan) and its value. A
// candidate with another number counts for nothing.
class ValueScan {
 public:
  std::size_t capacity() const { return heap_.capacity(); }
  void Reserve(std::size_t n) { heap_.reserve(n), popped_.reserve(n); }

  // All nodes must be looked at anew.
  void Forget() { holds_ = false; }

  // A walk begins: `first` is the first node of the line.
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

  // A node of the line is new, or has changed.
  void Offer(CacheView cache, const Appraiser& appraiser, Slot n) {
    if (!holds_) return;
    holds_ = heap_.size() + popped_.size() < heap_.capacity();  // else all are looked at anew, before the next walk
    if (!holds_) return;
    heap_.push_back(CandidateOf(cache, appraiser, n));
    std::ranges::push_heap(heap_, Later);
  }

  // The node of the smallest value, the longest unused among equals; kNoSlot: none is left.
  Slot Top(const PrefixNodes& nodes) {
    while (!heap_.empty() && nodes[heap_.front().node].scan != heap_.front().scan) {
      std::ranges::pop_heap(heap_, Later);
      heap_.pop_back();
    }
    return heap_.empty() ? kNoSlot : heap_.front().node;
  }
  double top_value() const { return heap_.front().value; }
  // The walk takes the top. The next walk begins with it again, if it is still there.
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
  std::vector<Candidate> heap_, popped_;  // popped: by the last walk
};

}  // namespace takt::internal

#endif  // TAKT_TURNS_VALUE_SCAN_H_
