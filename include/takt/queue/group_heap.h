// Requests ordered by the key of their group, then by their own key: a heap of groups, with one heap per group.
#ifndef TAKT_QUEUE_GROUP_HEAP_H_
#define TAKT_QUEUE_GROUP_HEAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/indexed_heap.h"
#include "takt/base/skew_heap.h"
#include "takt/base/slot_table.h"
#include "takt/config.h"

namespace takt::internal {

// A new key of a group costs O(log groups), even for a large group. Each group is a skew heap, O(log n) amortised.
// Allocates nothing up to the reserved size. Group keys are OrderedBits.
class GroupHeap {
 public:
  // Ties between groups: if `larger_first`, the group with more members comes first. Otherwise the better member
  // decides.
  explicit GroupHeap(bool larger_first = false) : larger_first_(larger_first) {}

  void KeyHashes(std::uint64_t seed) { groups_.KeyHashes(seed); }

  void Reserve(std::size_t n) {
    nodes_.reserve(n);
    groups_.Reserve(n);
    by_rank_.Reserve(n);
    frontier_.reserve(n);
  }

  std::size_t size() const { return size_; }
  std::size_t slots() const { return nodes_.size(); }
  bool empty() const { return size_ == 0; }
  bool contains(Slot slot) const { return slot < nodes_.size() && nodes_[slot].group != kNoSlot; }
  bool waits(std::uint64_t group) const { return groups_.Find(group) != kNoSlot; }
  Slot Top() const { return empty() ? kNoSlot : groups_[by_rank_.Top()].root; }
  std::uint64_t TopGroup() const { return groups_[by_rank_.Top()].id; }
  std::int64_t SizeOf(std::uint64_t group) const {
    const Group* known = groups_.Get(group);
    return known == nullptr ? 0 : known->size;
  }
  std::uint64_t GroupOf(Slot slot) const { return groups_[nodes_[slot].group].id; }

  // Returns true if member a comes before member b.
  bool IsBefore(Slot a, Slot b) const {
    const std::uint64_t group_a = groups_[nodes_[a].group].key, group_b = groups_[nodes_[b].group].key;
    return group_a != group_b ? group_a < group_b : nodes_[a].key < nodes_[b].key;
  }

  // Adds a member. `group_key` is used only if the group has no other waiting member.
  void Push(Slot slot, std::uint64_t group, const internal::PackedKey& key, std::uint64_t group_key) {
    TAKT_ASSERT(!contains(slot));
    if (slot >= nodes_.size()) nodes_.resize(std::size_t{slot} + 1);
    Slot g = groups_.Find(group);
    const bool is_new = g == kNoSlot;
    if (is_new) g = groups_.Insert(group, {.id = group, .key = group_key});
    nodes_[slot] = {.key = key, .group = g};
    ++groups_[g].size;
    const Slot old_root = groups_[g].root;
    Attach(slot);
    if (is_new) {
      by_rank_.Push(g, RankOf(g));
    } else if (groups_[g].root != old_root || larger_first_) {
      by_rank_.Update(g, RankOf(g));
    }
    ++size_;
  }

  void Erase(Slot slot) {
    TAKT_ASSERT(contains(slot));
    const std::uint32_t g = nodes_[slot].group;
    Detach(slot);
    nodes_[slot].group = kNoSlot;
    --groups_[g].size;
    if (groups_[g].root == kNoSlot) {
      RemoveGroup(g);
    } else {
      by_rank_.Update(g, RankOf(g));
    }
    --size_;
  }

  // Changes the key of a member. Its group stays.
  void Update(Slot slot, const internal::PackedKey& key) {
    TAKT_ASSERT(contains(slot));
    const std::uint32_t g = nodes_[slot].group;
    Detach(slot);
    nodes_[slot].key = key;
    Attach(slot);
    by_rank_.Update(g, RankOf(g));
  }

  // Sets the key of every member to `key_of(slot)`. O(n log n).
  template <class KeyOfSlot>
  void UpdateAll(KeyOfSlot&& key_of) {
    for (Slot g = 0; g < groups_.slots(); ++g) groups_[g].root = kNoSlot;
    for (Slot slot = 0; slot < nodes_.size(); ++slot) {
      const std::uint32_t g = nodes_[slot].group;
      if (g == kNoSlot) continue;
      nodes_[slot].key = key_of(slot);
      Attach(slot);
    }
    by_rank_.UpdateAll([this](std::uint32_t g) { return RankOf(g); });
  }

  // Sets the key of a group. Has no effect if the group has no waiting member.
  void SetGroupKey(std::uint64_t group, std::uint64_t group_key) {
    if (const Slot g = groups_.Find(group); g != kNoSlot && groups_[g].key != group_key) {
      groups_[g].key = group_key;
      by_rank_.Update(g, RankOf(g));
    }
  }

  void Clear() {
    for (Node& node : nodes_) node.group = kNoSlot;
    for (Slot g = 0; g < groups_.slots(); ++g) {
      if (by_rank_.contains(g)) RemoveGroup(g);
    }
    size_ = 0;
  }

  // Sets the key of every group with waiting members to `key_of(group)`. O(groups).
  template <class KeyOfGroup>
  void SetGroupKeys(KeyOfGroup&& key_of) {
    by_rank_.UpdateAll([&](std::uint32_t g) {
      groups_[g].key = key_of(groups_[g].id);
      return RankOf(g);
    });
  }

  // Returns how many requests come before a member. O(slots).
  std::int64_t Ahead(Slot slot) const {
    const auto rank = [this](const Node& node) { return Rank{groups_[node.group].key, node.key}; };
    const Rank own = rank(nodes_[slot]);
    return std::ranges::count_if(nodes_, [&](const Node& node) { return node.group != kNoSlot && rank(node) < own; });
  }

  // Calls f(slot) in order until it returns false, like IndexedHeapOf::VisitInOrder.
  template <class F>
  void VisitInOrder(F&& f) const {
    frontier_.clear();
    if (!empty()) AddGroupAt(decltype(by_rank_)::kRoot);
    while (!frontier_.empty()) {
      std::ranges::pop_heap(frontier_, Later);
      const Seen at = frontier_.back();
      frontier_.pop_back();
      const Node& node = nodes_[at.slot];
      if (!f(at.slot)) return;
      if (at.position != kNoSlot) by_rank_.VisitChildren(at.position, [&](std::uint32_t p) { AddGroupAt(p); });
      for (Slot child : {node.link.left, node.link.right}) {
        if (child != kNoSlot) Add({{at.rank.group_key, nodes_[child].key, at.rank.size}, child, kNoSlot});
      }
    }
  }

 private:
  struct Rank {
    std::uint64_t group_key = 0;
    internal::PackedKey key;
    std::int64_t size = 0;  // number of members if larger_first; otherwise unused

    std::uint64_t lead() const { return group_key; }
    friend bool operator<(const Rank& a, const Rank& b) {
      if (a.group_key != b.group_key) return a.group_key < b.group_key;
      return a.size != b.size ? a.size > b.size : a.key < b.key;
    }
  };
  struct Node {
    internal::PackedKey key;
    HeapLink link = {};
    std::uint32_t group = kNoSlot;
  };
  struct Group {
    std::uint64_t id = 0, key = 0;
    Slot root = kNoSlot;
    std::int64_t size = 0;
  };
  struct Seen {
    Rank rank;
    Slot slot;
    std::uint32_t position;  // position of a group's root in the heap of groups; kNoSlot: not a root
  };

  // Adds a member to the heap of its group.
  void Attach(Slot slot) {
    Slot& root = groups_[nodes_[slot].group].root;
    root = PushHeap<&Node::link>(nodes_, root, slot, [this](Slot a, Slot b) { return nodes_[a].key < nodes_[b].key; });
  }
  void Detach(Slot slot) {
    Slot& root = groups_[nodes_[slot].group].root;
    root = EraseFromHeap<&Node::link>(nodes_, root, slot,
                                      [this](Slot a, Slot b) { return nodes_[a].key < nodes_[b].key; });
  }

  static bool Later(const Seen& a, const Seen& b) { return b.rank < a.rank; }

  void Add(const Seen& seen) const {
    frontier_.push_back(seen);
    std::ranges::push_heap(frontier_, Later);
  }
  void AddGroupAt(std::uint32_t position) const {
    Add({by_rank_.KeyAt(position), groups_[by_rank_.SlotAt(position)].root, position});
  }

  Rank RankOf(std::uint32_t g) const {
    return {groups_[g].key, nodes_[groups_[g].root].key, larger_first_ ? groups_[g].size : 0};
  }

  void RemoveGroup(std::uint32_t g) {
    by_rank_.Erase(g);
    groups_.Erase(g, groups_[g].id);
  }

  bool larger_first_ = false;
  std::vector<Node> nodes_;  // by slot
  IdTable<std::uint64_t, Group> groups_;
  IndexedHeapOf<Rank> by_rank_;  // groups by rank
  std::size_t size_ = 0;
  mutable std::vector<Seen> frontier_;  // of VisitInOrder
};

}  // namespace takt::internal

#endif  // TAKT_QUEUE_GROUP_HEAP_H_
