// The eviction order: the lines of victims, and a walk through them that changes nothing.
#ifndef TAKT_TURNS_VICTIM_ORDER_H_
#define TAKT_TURNS_VICTIM_ORDER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/skew_heap.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"
#include "takt/turns/appraiser.h"
#include "takt/turns/prefix_node.h"
#include "takt/turns/value_scan.h"
#include "takt/turns/victim_lines.h"

namespace takt::internal {

// Dead nodes are evicted first, then other nodes by value, then pinned nodes, then awaited nodes. Each line begins with
// its oldest node, so each step of a walk compares only the heads of the lines. A policy without lists has one line,
// searched by value.
//
// Invariant: every idle node is in the line of its last chunk (Relist). In a walk, the head of a line comes from its
// list, its candidates or its spares. Spares are strays, partly taken nodes, and parents that became leaves.
class VictimOrder {
 public:
  // The part of a node before chunk `end`.
  struct Part {
    Slot node = kNoSlot;
    std::int32_t end = 0;
  };
  // Chunks from `end` to `from` - 1 of a node. These would be evicted next, last chunk first.
  struct Run {
    Slot node = kNoSlot;
    std::int32_t from = 0, end = 0;
    double value = 0;  // value of the last block
  };

  VictimOrder(AnyRetention policy, Tokens block_tokens) : appraiser_(std::move(policy), block_tokens) {}

  const Appraiser& appraiser() const { return appraiser_; }
  void MakeRoom(std::size_t nodes) {
    if (taken_.capacity() < kMostParts * nodes) taken_.reserve(kMostParts * nodes);
    MakeRoomFor(appraiser_.policy(), nodes);
  }
  // After this call, SetPolicy with this policy allocates nothing.
  void MakeRoomFor(const AnyRetention& policy, std::size_t nodes) {
    if (!policy.listed() && scan_.capacity() < 2 * nodes) scan_.Reserve(2 * nodes);
  }
  // Sets the policy and sorts all idle nodes again. O(n log n). `all`: scratch memory with room for all nodes.
  void SetPolicy(CacheView cache, AnyRetention policy, std::vector<Slot>& all) {
    scan_.Forget();
    all.clear();
    lines_.CollectLists(cache.nodes, all);
    // each node becomes the newest of its line
    std::ranges::sort(all, {}, [&](Slot n) { return cache.nodes[n].stamp; });
    for (const Slot n : all) Unlist(cache.nodes, n);
    appraiser_.SetPolicy(std::move(policy));
    for (const Slot n : all) Relist(cache, n);
  }
  // Starts a call: inputs of the policy, such as times and curves, may have changed.
  void BeginCall() { scan_.Forget(); }
  void SetNow(TimePoint now) {
    if (appraiser_.SetNow(now)) scan_.Forget();
  }

  // --- Nodes. ---

  // Moves a node into its current line, or into none if it cannot be evicted.
  void Relist(CacheView cache, Slot n) {
    const PrefixNode& node = cache.nodes[n];
    const std::size_t line = node.CanGo() ? appraiser_.LineOf(cache, node, node.end) : kNoLine;
    if (line == node.line) {
      if (Scanned(line)) scan_.Offer(cache, appraiser_, n);
      return;
    }
    Unlist(cache.nodes, n);
    if (line != kNoLine) Enlist(cache, n, line);
  }
  void Enlist(CacheView cache, Slot n, std::size_t line) {
    if (Scanned(line)) scan_.Offer(cache, appraiser_, n);
    lines_.Enlist(cache.nodes, n, line, Scanned(line));
  }
  void Unlist(PrefixNodes& nodes, Slot n) { lines_.Unlist(nodes, n); }
  // Returns an idle node; kNoSlot if there is none.
  Slot Any() const { return lines_.Any(); }

  // --- Walks. ---

  // Calls take(const Run&) in eviction order until `blocks` blocks were passed or take returns false. Returns the
  // number of blocks passed, which is smaller if too few can be evicted.
  template <class Take>
  std::int32_t Walk(CacheView cache, std::int32_t blocks, TimePoint now, Take&& take) {
    Begin(cache, now);
    std::int32_t found = 0;
    for (std::size_t i; found < blocks && (i = Best(cache.nodes)) != kNoLine;) {
      const Part part = heads_[i].part;
      const PrefixNode& node = cache.nodes[part.node];
      const std::int32_t enough = part.end - (blocks - found + node.blocks - 1) / node.blocks;
      std::int32_t end = std::max(EndInLine(cache, node, part.end, i), enough);
      if (node.copied < part.end) end = std::max(end, node.copied);  // copied chunks are worth less
      found += (part.end - end) * node.blocks;
      taken_.push_back({part.node, end});
      if (!take(Run{part.node, part.end, end, heads_[i].value})) break;
      if (found < blocks) Pass(cache, i, end);
    }
    return found;
  }
  // The remaining parts of nodes from which the last walk took blocks, in order.
  const std::vector<Part>& taken() const { return taken_; }

  HeldVictim VictimOf(CacheView cache, const Run& run) const {
    const PrefixNode& node = cache.nodes[run.node];
    const std::int32_t chunks = run.from - run.end, blocks = chunks * node.blocks;
    const double mean = (run.value + appraiser_.ValueOf(cache, node, run.end + 1)) / 2;
    return {appraiser_.HeldOf(cache, node, run.from), Appraiser::TierOf(node), chunks, blocks, mean * blocks};
  }

 private:
  static constexpr std::size_t kMostParts = 8;  // parts reserved per node, one per list that the node's end passes

  struct Head {
    Part part;
    double value = 0;
    bool spare = false;  // true: the head is the root of the line's spares
  };

  struct SpareBefore {
    const PrefixNodes& nodes;
    bool by_value;
    bool operator()(Slot a, Slot b) const {
      if (by_value && nodes[a].spare_value != nodes[b].spare_value) {
        return nodes[a].spare_value < nodes[b].spare_value;
      }
      return nodes[a].stamp < nodes[b].stamp;
    }
  };

  // Returns true if the line is searched by value.
  bool Scanned(std::size_t line) const { return line == kFirstList && !appraiser_.listed(); }

  void Begin(CacheView cache, TimePoint now) {
    SetNow(now);
    ++walk_;
    taken_.clear();
    shown_ = {};
    spares_.fill(kNoSlot);
    if (!appraiser_.listed() && lines_.Has(kFirstList)) scan_.Begin(cache, appraiser_, lines_.oldest(kFirstList));
    lines_.filled().ForEach([&](std::size_t i) {
      next_[i] = Scanned(i) ? kNoSlot : lines_.oldest(i);
      if (const Slot n = lines_.strays(i); n != kNoSlot) AddSpare(cache, i, {n, cache.nodes[n].end});
      FindHead(cache, i);
    });
  }

  void AddSpare(CacheView cache, std::size_t i, Part part) {
    PrefixNode& node = cache.nodes[part.node];
    node.spare_end = part.end;
    if (Scanned(i)) node.spare_value = appraiser_.ValueOf(cache, node, part.end);
    spares_[i] = PushHeap<&PrefixNode::spare>(cache.nodes, spares_[i], part.node, SpareBefore{cache.nodes, Scanned(i)});
  }
  void FindHead(CacheView cache, std::size_t i) {
    PrefixNodes& nodes = cache.nodes;
    if (!lines_.Has(i)) next_[i] = kNoSlot;
    const bool scanned = Scanned(i);
    Slot head = scanned && lines_.Has(i) ? scan_.Top(nodes) : next_[i];
    const Slot spare = spares_[i];
    shown_.Clear(i);
    if (head == kNoSlot && spare == kNoSlot) return;
    if (scanned && head != kNoSlot) nodes[head].spare_value = scan_.top_value();
    const bool from_spares = head == kNoSlot || (spare != kNoSlot && SpareBefore{nodes, Scanned(i)}(spare, head));
    if (from_spares) head = spare;
    const PrefixNode& node = nodes[head];
    const std::int32_t end = from_spares ? node.spare_end : node.end;
    heads_[i] = {{head, end}, scanned ? node.spare_value : appraiser_.ValueOf(cache, node, end), from_spares};
    shown_.Set(i);
    if (node.age.newer != kNoSlot) __builtin_prefetch(&nodes[node.age.newer]);
  }

  // Returns the line whose head is evicted next.
  std::size_t Best(const PrefixNodes& nodes) const {
    if (shown_.Has(kDeadLine)) return kDeadLine;
    std::size_t best = kNoLine;
    const auto stamp_of = [&](std::size_t line) { return nodes[heads_[line].part.node].stamp; };
    shown_.ForEach([&](std::size_t i) {
      if (i >= kPinnedLine) return;
      if (best != kNoLine && heads_[i].value > heads_[best].value) return;
      if (best != kNoLine && heads_[i].value == heads_[best].value && stamp_of(best) <= stamp_of(i)) return;
      best = i;
    });
    if (best != kNoLine) return best;
    return shown_.Has(kPinnedLine) ? kPinnedLine : shown_.Has(kAwaitedLine) ? kAwaitedLine : kNoLine;
  }

  // Chunks are taken from the end of a node. Returns the chunk at which the rest belongs to another line.
  std::int32_t EndInLine(CacheView cache, const PrefixNode& node, std::int32_t end, std::size_t line) const {
    if (!appraiser_.listed() || line == kDeadLine || line >= kPinnedLine ||
        appraiser_.LineOf(cache, node, node.first + 1) == line) {
      return node.first;
    }
    std::int32_t out = node.first + 1;  // a chunk outside the line, while `end` is inside
    while (end - out > 1) {
      const std::int32_t middle = out + (end - out) / 2;
      (appraiser_.LineOf(cache, node, middle) == line ? end : out) = middle;
    }
    return out;
  }

  // Takes the line's head from `end` on in this walk.
  void Pass(CacheView cache, std::size_t i, std::int32_t end) {
    PrefixNodes& nodes = cache.nodes;
    const Part left = {heads_[i].part.node, end};
    PrefixNode& node = nodes[left.node];
    if (heads_[i].spare) {
      spares_[i] = EraseFromHeap<&PrefixNode::spare>(nodes, left.node, left.node, SpareBefore{nodes, Scanned(i)});
      if (node.walk != walk_ && node.astray) {
        for (const Slot n : {node.stray.left, node.stray.right}) {
          if (n != kNoSlot) AddSpare(cache, i, {n, nodes[n].end});
        }
      }
    } else if (Scanned(i)) {
      scan_.Pop();
    } else {
      next_[i] = node.age.newer;
    }
    node.walk = walk_;
    std::size_t other = i;
    if (left.end > node.first) {
      other = appraiser_.LineOf(cache, node, left.end);
      AddSpare(cache, other, left);
    } else if (node.parent != kNoSlot) {
      PrefixNode& before = nodes[node.parent];
      if (before.walk != walk_) before.walk = walk_, before.children_left = before.children;
      if (--before.children_left == 0 && before.references == 0) {
        other = appraiser_.LineOf(cache, before, before.end);
        AddSpare(cache, other, {node.parent, before.end});
      }
    }
    FindHead(cache, i);
    if (other != i) FindHead(cache, other);
  }

  Appraiser appraiser_;
  VictimLines lines_;
  ValueScan scan_;
  // State of a walk:
  std::uint64_t walk_ = 0;
  std::array<Slot, kLines> next_;  // next node of each line's list
  std::array<Head, kLines> heads_;
  LineSet shown_;  // lines with a head
  std::array<Slot, kLines> spares_;  // roots of the heaps of spares
  std::vector<Part> taken_;
};

}  // namespace takt::internal

#endif  // TAKT_TURNS_VICTIM_ORDER_H_
