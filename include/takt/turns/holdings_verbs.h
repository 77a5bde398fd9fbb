// Definitions of Holdings: the effect of each call on the tree, the holdings, the pins and the eviction order.
#ifndef TAKT_TURNS_HOLDINGS_VERBS_H_
#define TAKT_TURNS_HOLDINGS_VERBS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "takt/config.h"
#include "takt/turns/holdings.h"

namespace takt::internal {

// --- Prompts. ---

inline PrefixHit Holdings::Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
  const std::int32_t found = tree_.Search(hashes, blocks);
  PrefixHit hit{found, 0};
  if (found == 0) return hit;
  Slot n = tree_.NodeOf(tree_.FindChunk(hashes[static_cast<std::size_t>(found - 1)], blocks));
  std::int32_t end = found;
  for (; n != kNoSlot && nodes()[n].references == 0; n = nodes()[n].parent) {
    hit.idle += end - nodes()[n].first;
    end = nodes()[n].first;
  }
  return hit;
}

inline void Holdings::Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
  if (hashes.empty()) return;
  const Slot chunk = tree_.FindChunk(hashes.back(), blocks);
  Split(chunk);
  for (Slot n = tree_.NodeOf(chunk); n != kNoSlot; n = nodes()[n].parent) {
    PrefixNode& node = nodes()[n];
    if (node.references++ > 0) continue;
    Unlist(n);
    idle_ -= node.all_blocks();
    referenced_ += node.all_blocks();
    ++uses_;
  }
}

inline bool Holdings::Publish(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
  const auto depth = static_cast<std::int32_t>(hashes.size()) - 1;
  if (tree_.FindChunk(hashes.back(), blocks) != kNoSlot) return false;
  Slot before = kNoSlot, n = kNoSlot;
  if (depth > 0) {
    before = tree_.FindChunk(hashes[static_cast<std::size_t>(depth - 1)], blocks);
    if (before == kNoSlot || tree_.DepthOf(before) != depth - 1) return false;
    n = tree_.NodeOf(before);
    if (nodes()[n].spoiled || nodes()[n].references == 0) return false;
    Split(before);
    n = tree_.NodeOf(before);
  }
  if (n == kNoSlot || nodes()[n].blocks != blocks || !nodes()[n].Grows()) {
    n = tree_.AddNode(n, depth, blocks);
    nodes()[n].references = 1;
  }
  tree_.Append(n, before, hashes.back());
  referenced_ += blocks;
  ++uses_;
  return true;
}

inline void Holdings::Release(std::span<const std::uint64_t> hashes, std::int32_t blocks, const HeldTurn& turn,
                              TimePoint now, std::int32_t copied) {
  const Slot tip = hashes.empty() ? kNoSlot : tree_.NodeOf(tree_.FindChunk(hashes.back(), blocks));
  ++stamp_;
  const bool loose = !turn.workflow && !turn.over;
  for (Slot n = tip; n != kNoSlot; n = nodes()[n].parent) {
    PrefixNode& node = nodes()[n];
    node.used = now, node.stamp = stamp_, node.copied = copied;
    node.loose |= loose;
    if (--node.references > 0) continue;
    referenced_ -= node.all_blocks();
    idle_ += node.all_blocks();
  }
  if (turn.workflow && turn.over) End(turn.workflow, turn.branch);
  if (turn.workflow && !turn.over) Hold(turn, tip, now);
  Slot left = tip;
  while (left != kNoSlot && nodes()[left].spoiled && nodes()[left].CanGo()) left = Shrink(left, 0);
  if (left != tip || tip == kNoSlot) return;  // Shrink listed the rest
  Relist(left);
  while (left != kNoSlot && tree_.Merges(left)) left = MergeUp(left);
}

inline void Holdings::Spoil(std::span<const std::uint64_t> hashes, std::int32_t first, std::int32_t blocks) {
  if (first >= static_cast<std::int32_t>(hashes.size())) return;
  const auto at = static_cast<std::size_t>(first);
  if (first > 0) Split(tree_.FindChunk(hashes[at - 1], blocks));
  stack_.assign(1, tree_.NodeOf(tree_.FindChunk(hashes[at], blocks)));
  for (std::size_t i = 0; i < stack_.size(); ++i) {  // parents precede children
    nodes()[stack_[i]].spoiled = true;
    for (Slot c = nodes()[stack_[i]].child; c != kNoSlot; c = nodes()[c].siblings.newer) stack_.push_back(c);
  }
  for (std::size_t i = stack_.size(); i-- > 0;) {
    if (nodes()[stack_[i]].CanGo()) Shrink(stack_[i], 0);
  }
}

inline void Holdings::SpoilAll() {
  // A parent that becomes a leaf may enter any line.
  for (Slot n; (n = order_.Any()) != kNoSlot;) Shrink(n, 0);
  for (Slot n = 0; n < nodes().slots(); ++n) nodes()[n].spoiled |= nodes()[n].chunks() > 0;
}

inline void Holdings::Uncopy(std::uint64_t hash, std::int32_t blocks) {
  const Slot c = tree_.FindChunk(hash, blocks);
  if (c == kNoSlot) return;
  PrefixNode& node = nodes()[tree_.NodeOf(c)];
  if (node.copied <= tree_.DepthOf(c)) return;
  node.copied = tree_.DepthOf(c);
  if (node.CanGo()) Relist(tree_.NodeOf(c));
}

// --- Workflows. ---

inline void Holdings::SetClass(WorkflowId workflow, std::uint64_t branch, std::uint32_t return_class) {
  const Slot h = table_.Find(workflow, branch);
  if (h == kNoSlot) return;
  table_[h].return_class = return_class;
  Relist(table_.TipOf(h));
}

inline void Holdings::Await(WorkflowId workflow, std::uint64_t branch, bool awaited, TimePoint now) {
  const Slot h = table_.Find(workflow, branch);
  if (h == kNoSlot || table_[h].awaited == awaited) return;
  Unpin(h);
  table_.Await(nodes(), h, awaited, now);
  Relist(table_.TipOf(h));
}

inline void Holdings::Touch(WorkflowId workflow, std::uint64_t branch, std::uint32_t return_class, TimePoint now) {
  const Slot h = table_.Find(workflow, branch);
  if (h == kNoSlot) return;
  table_[h].return_class = return_class;
  ++stamp_;
  const Slot tip = table_.TipOf(h);
  for (Slot n = tip; n != kNoSlot; n = nodes()[n].parent) nodes()[n].used = now, nodes()[n].stamp = stamp_;
  Unlist(tip);
  Relist(tip);
}

inline Holding Holdings::Find(WorkflowId workflow, std::uint64_t branch) const {
  const Slot h = table_.Find(workflow, branch);
  if (h == kNoSlot) return {};
  Holding holding = HoldingOf(h);
  holding.own_from = holding.tokens;
  for (Slot n = table_.TipOf(h); n != kNoSlot && nodes()[n].holders == 1; n = nodes()[n].parent) {
    holding.own_from = order_.appraiser().TokensOf(nodes()[n], nodes()[n].first);
  }
  return holding;
}

inline Holding Holdings::HoldingOf(Slot h) const {
  const HoldingRecord& r = table_[h];
  const PrefixNode& tip = nodes()[table_.TipOf(h)];
  return {order_.appraiser().TokensOf(tip, tip.end),
          0,
          r.return_class,
          r.uses,
          r.since,
          r.awaited,
          tip.references > 0,
          r.pinned_until != kUnset};
}

// Makes the branch's holding end with `tip`.
inline void Holdings::Hold(const HeldTurn& turn, Slot tip, TimePoint now) {
  Slot h = table_.Find(turn.workflow, turn.branch);
  if (tip == kNoSlot) {
    if (h != kNoSlot) EndHolding(h);
    return;
  }
  const BranchName name = {turn.workflow, turn.branch, turn.tenant};
  Slot before = kNoSlot;
  if (h == kNoSlot) {
    for (; table_.size() >= most_holdings_; ++crowded_out_) {
      pins_crowded_out_ += table_[table_.Crowded()].pinned_until != kUnset ? 1u : 0u;
      EndHolding(table_.Crowded());
    }
    h = table_.Insert(name);
  } else {
    Unpin(h);
    table_.Returned(h, name);
    before = table_.TipOf(h);
  }
  table_.EndAt(nodes(), h, tip);
  HoldingRecord& record = table_[h];
  record.return_class = turn.return_class;
  record.tokens = order_.appraiser().TokensOf(nodes()[tip], nodes()[tip].end);
  record.since = now;
  ++record.uses;
  if (before != kNoSlot && before != tip) Relist(before);
  if (turn.pinned_until > now) Pin(h, turn.pinned_until);
}

inline void Holdings::EndHolding(Slot h) {
  Unpin(h);
  const Slot tip = table_.TipOf(h);
  table_.Leave(nodes(), h);
  table_.Erase(h);
  Relist(tip);
}

// --- Pins. ---

inline bool Holdings::Pin(Slot h, TimePoint until) {
  Unpin(h);
  bool granted = true;
  if (until != kUnset && !table_[h].awaited) {
    const PrefixNode& tip = nodes()[table_.TipOf(h)];
    const std::int32_t blocks = tip.end * tip.blocks;
    granted = pins_.Grant(h, table_[h].name.tenant, blocks, until);
    if (granted) table_.Pin(nodes(), h, until, blocks);
  }
  Relist(table_.TipOf(h));
  return granted;
}

inline void Holdings::EndPins(TimePoint now) {
  while (pins_.size() > 0 && pins_.next() <= now) {
    const Slot h = pins_.Top();
    Unpin(h);
    Relist(table_.TipOf(h));
  }
}

// The caller must list the blocks again.
inline void Holdings::Unpin(Slot h) {
  if (table_[h].pinned_until == kUnset) return;
  table_.Unpin(nodes(), h);
  pins_.End(h, table_[h].name.tenant, table_[h].pinned_blocks);
}

// --- Nodes. ---

// Splits a node so that the chunk becomes the last of its node.
inline void Holdings::Split(Slot chunk) {
  if (tree_.EndsNode(chunk)) return;
  const Slot n = tree_.NodeOf(chunk);
  const std::size_t line = nodes()[n].line;
  Unlist(n);
  const Slot back = tree_.Split(chunk);
  table_.Split(nodes(), back);
  if (line != kNoLine) order_.Enlist(view(), back, line);
}

inline Slot Holdings::MergeUp(Slot n) {
  Unlist(n);
  PrefixNode& before = nodes()[nodes()[n].parent];
  if (before.copied >= before.end) before.copied = nodes()[n].copied;
  table_.Merge(nodes(), n);
  const Slot p = tree_.Merge(n);
  Relist(p);
  return p;
}

// Evicts the chunks of an idle leaf from `end` on; all of them if `end` precedes its first. Returns the node, or its
// parent if no chunk is left.
inline Slot Holdings::Shrink(Slot n, std::int32_t end) {
  PrefixNode& node = nodes()[n];
  TAKT_ASSERT(node.CanGo());
  end = std::max(end, node.first);
  idle_ -= (node.end - end) * node.blocks;
  awaited_lost_ += node.awaited > 0 ? 1u : 0u;
  pins_broken_ += node.pinned > 0 ? 1u : 0u;
  tree_.Truncate(n, end, dropped_);
  if (node.chunks() > 0) {
    Relist(n);
    return n;
  }
  Unlist(n);
  const Slot p = node.parent;
  if (p != kNoSlot) table_.MoveTips(nodes(), n, p);
  for (Slot h; (h = table_.EndingWith(node)) != kNoSlot;) {
    table_.LeaveTip(nodes(), h);
    Unpin(h);
    table_.Erase(h);
  }
  tree_.Remove(n);
  if (p != kNoSlot) Relist(p);
  return p;
}

// --- Eviction. ---

inline std::int32_t Holdings::Evict(std::int32_t blocks, TimePoint now) {
  const std::int32_t found = order_.Walk(view(), blocks, now, [](const VictimOrder::Run&) { return true; });
  for (const VictimOrder::Part& part : order_.taken()) Shrink(part.node, part.end);
  return found;
}

}  // namespace takt::internal

#endif  // TAKT_TURNS_HOLDINGS_VERBS_H_
