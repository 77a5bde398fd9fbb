// A priority queue whose members are identified by slot. Any member can leave or move in O(log n). Nothing is allocated
// within the reserved size.
#ifndef TAKT_BASE_INDEXED_HEAP_H_
#define TAKT_BASE_INDEXED_HEAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/full_key.h"
#include "takt/base/slot.h"
#include "takt/config.h"

namespace takt {

// A 4-ary min-heap. Four sibling keys are adjacent and start at a cache line, so each level reads two lines. Positions
// are stored separately, four bytes per slot. Key needs a total operator<. Keys that first compare an integer `lead()`
// are faster.
template <class Key>
class IndexedHeapOf {
 public:
  // Reserves storage for slots 0..n-1.
  void Reserve(std::size_t n) {
    blocks_.reserve((n + kRoot) / kArity + 1);
    positions_.reserve(n);
    frontier_.reserve(n);
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t slots() const { return positions_.size(); }  // upper bound of members' slots
  bool contains(Slot slot) const { return slot < positions_.size() && positions_[slot] != kNoSlot; }
  Slot Top() const { return size_ == 0 ? kNoSlot : At(kRoot).slot; }
  const Key& TopKey() const { return At(kRoot).key; }
  const Key& KeyOf(Slot slot) const { return At(positions_[slot]).key; }  // `slot` must be a member

  // `slot` must not be a member.
  void Push(Slot slot, const Key& key) {
    TAKT_ASSERT(!contains(slot));
    if (slot >= positions_.size()) positions_.resize(std::size_t{slot} + 1, kNoSlot);
    const std::uint32_t end = kRoot + size_++;
    if (end / kArity >= blocks_.size()) blocks_.emplace_back();
    SiftUp(end, {key, slot});
  }

  Slot Pop() {
    const Slot top = Top();
    Erase(top);
    return top;
  }

  // `slot` must be a member.
  void Erase(Slot slot) {
    TAKT_ASSERT(contains(slot));
    const std::uint32_t hole = positions_[slot];
    positions_[slot] = kNoSlot;
    const std::uint32_t last = kRoot + --size_;
    if (hole != last) Settle(hole, At(last));
  }

  // Changes the key of a member.
  void Update(Slot slot, const Key& key) {
    TAKT_ASSERT(contains(slot));
    Settle(positions_[slot], {key, slot});
  }

  // Sets the key of every member to `key_of(slot)`; O(n).
  template <class KeyOfSlot>
  void UpdateAll(KeyOfSlot&& key_of) {
    const std::uint32_t end = kRoot + size_;
    for (std::uint32_t i = kRoot; i < end; ++i) At(i).key = key_of(At(i).slot);
    for (std::uint32_t i = end; i-- > kRoot;) {
      const Entry entry = At(i);
      SiftDown(i, entry);
    }
  }

  void Clear() {
    for (std::uint32_t i = kRoot; i < kRoot + size_; ++i) positions_[At(i).slot] = kNoSlot;
    size_ = 0;
  }

  // Calls f(slot) in key order until it returns false. f must not change the heap. k visits cost O(k log k).
  template <class F>
  void VisitInOrder(F&& f) const {
    const auto later = [this](std::uint32_t a, std::uint32_t b) { return At(b).key < At(a).key; };
    frontier_.clear();
    if (size_ > 0) frontier_.push_back(kRoot);
    while (!frontier_.empty()) {
      std::ranges::pop_heap(frontier_, later);
      const std::uint32_t at = frontier_.back();
      frontier_.pop_back();
      if (!f(At(at).slot)) return;
      VisitChildren(at, [&](std::uint32_t child) {
        frontier_.push_back(child);
        std::ranges::push_heap(frontier_, later);
      });
    }
  }

  // Returns the number of members before a member; O(n).
  std::int64_t Ahead(Slot slot) const {
    const Key& key = At(positions_[slot]).key;
    std::int64_t ahead = 0;
    for (std::uint32_t i = kRoot; i < kRoot + size_; ++i) ahead += At(i).key < key ? 1 : 0;
    return ahead;
  }

  // Access to the tree for other searches. Positions start at kRoot.
  static constexpr std::uint32_t kArity = 4;
  static constexpr std::uint32_t kRoot = kArity - 1;  // aligns siblings to a block
  Slot SlotAt(std::uint32_t position) const { return At(position).slot; }
  const Key& KeyAt(std::uint32_t position) const { return At(position).key; }
  template <class F>
  void VisitChildren(std::uint32_t position, F&& f) const {
    const std::uint32_t first = FirstChild(position), end = std::min(first + kArity, kRoot + size_);
    for (std::uint32_t child = first; child < end; ++child) f(child);
  }

 private:
  struct Entry {
    Key key;
    Slot slot = kNoSlot;
  };
  struct alignas(64) Block {
    Entry entries[kArity];
  };

  static constexpr std::uint32_t FirstChild(std::uint32_t i) { return kArity * (i - kRoot + 1); }
  static constexpr std::uint32_t Parent(std::uint32_t i) { return i / kArity + kRoot - 1; }

  Entry& At(std::uint32_t i) { return blocks_[i / kArity].entries[i % kArity]; }
  const Entry& At(std::uint32_t i) const { return blocks_[i / kArity].entries[i % kArity]; }

  // Copies field by field. Otherwise g++ loads more bytes at once than were stored, which stalls the CPU.
  void Put(std::uint32_t i, const Entry& entry) {
    Entry& e = At(i);
    e.key = entry.key;
    e.slot = entry.slot;
    positions_[entry.slot] = i;
  }

  // `entry` must not be part of the heap.
  void SiftUp(std::uint32_t hole, const Entry& entry) {
    while (hole > kRoot) {
      const std::uint32_t parent = Parent(hole);
      if (!(entry.key < At(parent).key)) break;
      Put(hole, At(parent));
      hole = parent;
    }
    Put(hole, entry);
  }

  // Returns the smallest sibling from `first` on; `end` is the end of the heap.
  std::uint32_t SmallestOf(std::uint32_t first, std::uint32_t end) const {
    if constexpr (requires(const Key& key) { key.lead(); }) {
      if (first + kArity <= end) return SmallestOfFour(first);
    }
    return SmallestByKey(first, std::min(first + kArity, end));
  }

  std::uint32_t SmallestByKey(std::uint32_t first, std::uint32_t end) const {
    std::uint32_t best = first;
    for (std::uint32_t i = first + 1; i < end; ++i) best = At(i).key < At(best).key ? i : best;
    return best;
  }

  // Has no branches, because the smallest of four leading keys is unpredictable. Leading keys are rarely equal.
  std::uint32_t SmallestOfFour(std::uint32_t first) const {
    const Entry* e = blocks_[first / kArity].entries;
    const std::uint64_t k0 = e[0].key.lead(), k1 = e[1].key.lead(), k2 = e[2].key.lead(), k3 = e[3].key.lead();
    const std::uint64_t low = k1 < k0 ? k1 : k0, high = k3 < k2 ? k3 : k2;
    const std::uint32_t in_low = k1 < k0 ? 1 : 0, in_high = k3 < k2 ? 3 : 2;
    if ((k0 != k1) & (k2 != k3) & (low != high)) [[likely]]
      return first + (high < low ? in_high : in_low);
    return SmallestByKey(first, first + kArity);
  }

  // Moves the hole down to the position of `entry`.
  void SiftDown(std::uint32_t hole, const Entry entry) {
    const std::uint32_t end = kRoot + size_;
    for (std::uint32_t first = FirstChild(hole); first < end; first = FirstChild(hole)) {
      const std::uint32_t child = SmallestOf(first, end);
      if (!(At(child).key < entry.key)) break;
      Put(hole, At(child));
      hole = child;
    }
    Put(hole, entry);
  }

  // Fills a hole with an entry. If the entry is smaller than the parent, the entry moves up. Otherwise the hole moves
  // to the bottom, and then the entry moves up from there. An entry from the end usually stays near the bottom (Floyd).
  void Settle(std::uint32_t hole, const Entry entry) {
    if (hole > kRoot && entry.key < At(Parent(hole)).key) return SiftUp(hole, entry);
    const std::uint32_t end = kRoot + size_, top = hole;
    for (std::uint32_t first = FirstChild(hole); first < end; first = FirstChild(hole)) {
      const std::uint32_t grandchild = FirstChild(first);
      if (grandchild < end) {
        const char* lines = reinterpret_cast<const char*>(&blocks_[grandchild / kArity]);
        for (std::size_t at = 0; at < kArity * sizeof(Block); at += 64) __builtin_prefetch(lines + at);
      }
      const std::uint32_t child = SmallestOf(first, end);
      Put(hole, At(child));
      hole = child;
    }
    while (hole > top && entry.key < At(Parent(hole)).key) {
      Put(hole, At(Parent(hole)));
      hole = Parent(hole);
    }
    Put(hole, entry);
  }

  std::vector<Block> blocks_;  // entries start at kRoot
  std::vector<std::uint32_t> positions_;  // by slot
  std::uint32_t size_ = 0;
  mutable std::vector<std::uint32_t> frontier_;  // used by VisitInOrder
};

using IndexedHeap = IndexedHeapOf<internal::PackedKey>;

}  // namespace takt

#endif  // TAKT_BASE_INDEXED_HEAP_H_
