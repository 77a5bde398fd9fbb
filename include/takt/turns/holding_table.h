// Holdings of workflows' branches, by name and by last node.
#ifndef TAKT_TURNS_HOLDING_TABLE_H_
#define TAKT_TURNS_HOLDING_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/base/age_list.h"
#include "takt/base/branch_table.h"
#include "takt/base/id.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"
#include "takt/turns/prefix_node.h"

namespace takt::internal {

// The cached KV of a branch's last turn: the path from the root of the prefix tree to a last node, the tip.
struct HoldingRecord : BranchRecord {
  Slot tips = kNoSlot;  // group of holdings that end with the same node
  std::uint32_t return_class = 0;
  std::int32_t uses = 0;
  std::int32_t tokens = 0;  // context tokens at the end of the branch's last turn
  TimePoint since = {};
  bool awaited = false;
  TimePoint awaited_since = {};
  TimePoint pinned_until = kUnset;
  std::int32_t pinned_blocks = 0;  // number of blocks at the time of the pin
  AgeLink fellows = {};  // links in the list of holdings with the same last node
};

// Invariant: each node counts the holdings whose paths contain it, and counts awaited and pinned holdings separately.
// `PrefixNode::tips` links a node and the holdings that end with it. The newest record of a share is the record whose
// turn ended last.
class HoldingTable {
 public:
  void KeyHashes(std::uint64_t seed) { records_.KeyHashes(seed); }
  void MakeRoom(std::size_t n) {
    records_.MakeRoom(n);
    if (tips_.capacity() < records_.capacity()) tips_.Reserve(records_.capacity());
  }

  std::size_t size() const { return records_.size(); }
  std::size_t capacity() const { return records_.capacity(); }
  HoldingRecord& operator[](Slot h) { return records_[h]; }
  const HoldingRecord& operator[](Slot h) const { return records_[h]; }
  // Returns the branch's holding; kNoSlot if the branch holds nothing.
  Slot Find(WorkflowId workflow, std::uint64_t branch) const { return records_.Find(workflow, branch); }
  // Calls each(slot) for each holding of the workflow. The call may erase that holding.
  template <class Each>
  void ForEachBranch(WorkflowId workflow, Each&& each) const {
    records_.ForEachBranch(workflow, each);
  }
  template <class Each>
  void ForEach(Each&& each) const {
    for (Slot h = 0; h < records_.slots(); ++h) {
      if (records_.Has(h)) each(h);
    }
  }
  // Returns the holding that must end if there are too many holdings.
  Slot Crowded() const { return records_.Crowded(); }

  Slot TipOf(Slot h) const { return records_[h].tips == kNoSlot ? kNoSlot : tips_[records_[h].tips].node; }
  // Returns a holding that ends with the node; kNoSlot if there is none.
  Slot EndingWith(const PrefixNode& node) const { return node.tips == kNoSlot ? kNoSlot : tips_[node.tips].newest; }

  // --- One holding. ---

  // Adds a holding without a path.
  Slot Insert(const BranchName& name) { return records_.Insert({{name}}); }
  // Records that the branch of this holding has returned.
  void Returned(Slot h, const BranchName& name) {
    records_.Returned(name);
    records_.Use(h, name.tenant);
  }
  // Makes the holding end with `tip`.
  void EndAt(PrefixNodes& nodes, Slot h, Slot tip) {
    if (records_[h].tips != kNoSlot) Leave(nodes, h);
    records_[h].awaited = false;
    AddTip(nodes, tip, h);
    CountPath(nodes, h, 1);
  }
  // Removes the holding from its path.
  void Leave(PrefixNodes& nodes, Slot h) {
    CountPath(nodes, h, -1);
    LeaveTip(nodes, h);
  }
  // Detaches the holding from its last node. The other nodes of its path must no longer count it.
  void LeaveTip(PrefixNodes& nodes, Slot h) {
    const Slot t = std::exchange(records_[h].tips, kNoSlot);
    Unlink<&HoldingRecord::fellows>(records_, tips_[t].newest, h);
    if (--tips_[t].size > 0) return;
    nodes[tips_[t].node].tips = kNoSlot;
    tips_.Give(t);
  }
  void Erase(Slot h) { records_.Erase(h); }

  void Await(PrefixNodes& nodes, Slot h, bool awaited, TimePoint now) {
    records_[h].awaited = awaited;
    records_[h].awaited_since = now;
    for (Slot n = TipOf(h); n != kNoSlot; n = nodes[n].parent) nodes[n].awaited += awaited ? 1 : -1;
  }
  void Pin(PrefixNodes& nodes, Slot h, TimePoint until, std::int32_t blocks) {
    records_[h].pinned_until = until, records_[h].pinned_blocks = blocks;
    records_.Keep(h, true);
    for (Slot n = TipOf(h); n != kNoSlot; n = nodes[n].parent) ++nodes[n].pinned;
  }
  void Unpin(PrefixNodes& nodes, Slot h) {
    for (Slot n = TipOf(h); n != kNoSlot; n = nodes[n].parent) --nodes[n].pinned;
    records_.Keep(h, false);
    records_[h].pinned_until = kUnset;
  }

  // --- Nodes that the tree changes. ---

  // Moves the holdings of a split node to its back.
  void Split(PrefixNodes& nodes, Slot back) {
    nodes[nodes[back].parent].tips = kNoSlot;
    if (nodes[back].tips != kNoSlot) tips_[nodes[back].tips].node = back;
  }
  // Prepares a merge of a node into its parent. This requires that no holding ends with the parent.
  void Merge(PrefixNodes& nodes, Slot n) {
    const Slot p = nodes[n].parent;
    if (nodes[n].tips != kNoSlot) tips_[nodes[n].tips].node = p;
    nodes[p].tips = nodes[n].tips;
  }
  // Makes the holdings that end with `from` end with `to`. The smaller group joins the larger: O(log holdings) per
  // holding in total.
  void MoveTips(PrefixNodes& nodes, Slot from, Slot to) {
    Slot few = std::exchange(nodes[from].tips, kNoSlot), many = nodes[to].tips;
    if (few == kNoSlot) return;
    if (many == kNoSlot || tips_[few].size > tips_[many].size) std::swap(few, many);
    while (few != kNoSlot && tips_[few].newest != kNoSlot) {
      const Slot h = tips_[few].newest;
      Unlink<&HoldingRecord::fellows>(records_, tips_[few].newest, h);
      LinkFirst<&HoldingRecord::fellows>(records_, tips_[many].newest, h);
      records_[h].tips = many;
      ++tips_[many].size;
    }
    if (few != kNoSlot) tips_.Give(few);
    nodes[to].tips = many;
    tips_[many].node = to;
  }

 private:
  // The holdings that end with one node, which move to another node together.
  struct Tips {
    Slot node = kNoSlot;
    Slot newest = kNoSlot;
    std::int32_t size = 0;
  };

  void AddTip(PrefixNodes& nodes, Slot n, Slot h) {
    Slot& t = nodes[n].tips;
    if (t == kNoSlot) t = tips_.Take(), tips_[t] = {n};
    LinkFirst<&HoldingRecord::fellows>(records_, tips_[t].newest, h);
    records_[h].tips = t;
    ++tips_[t].size;
  }

  // Adds the holding to the counts of all nodes of its path, or removes it (`times` 1 or -1).
  void CountPath(PrefixNodes& nodes, Slot h, std::int32_t times) {
    const HoldingRecord& record = records_[h];
    for (Slot n = TipOf(h); n != kNoSlot; n = nodes[n].parent) {
      nodes[n].holders += times;
      nodes[n].awaited += record.awaited ? times : 0;
      nodes[n].pinned += record.pinned_until != kUnset ? times : 0;
      nodes[n].holder ^= h;
    }
  }

  BranchTable<HoldingRecord> records_;
  SlotTable<Tips> tips_;
};

}  // namespace takt::internal

#endif  // TAKT_TURNS_HOLDING_TABLE_H_
