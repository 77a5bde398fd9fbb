// The KV blocks in each instance's prefix cache, as the instances report them.
#ifndef TAKT_PLACEMENT_BOOKS_KV_INDEX_H_
#define TAKT_PLACEMENT_BOOKS_KV_INDEX_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/slot_table.h"
#include "takt/model/request.h"

namespace takt {

// A set of instances for each block hash. Indices are InstanceState::slot. A salted request's block has the hash
// SaltedHash(hash, salt). Repeated reports have no effect, nor has the removal of an unknown block.
//
// Each group of 64 slots has a table of at most `most_blocks` blocks. If the table is full, a new block replaces the
// block that was stored or used least recently. Within one report or prompt, later blocks are replaced first. The index
// then lacks blocks that an instance has, until the instance stores these blocks again.
//
// Memory is allocated only for new peaks: 64 to 120 bytes per block of a group.
class KvIndex {
 public:
  static constexpr std::size_t kMostBlocks = std::size_t{1} << 20;  // maximum blocks of a group
  static constexpr std::uint32_t kMostInstances = 1024;  // reports of instances with larger slots are ignored

  explicit KvIndex(std::size_t most_blocks = kMostBlocks) : most_blocks_(most_blocks) {}

  void KeyHashes(std::uint64_t seed) {
    seed_ = seed;
    for (Group& group : groups_) group.blocks.KeyHashes(seed);
  }

  // Returns true if the instance has reported blocks, or their removal, since its last Forget.
  bool Reports(std::uint32_t slot) const {
    return slot / kBits < groups_.size() && (groups_[slot / kBits].reporting & Bit(slot)) != 0;
  }
  std::size_t blocks(std::uint32_t slot) const { return slot < counts_.size() ? counts_[slot] : 0; }
  // Returns the number of different blocks that are known in the groups of all instances.
  std::size_t size() const {
    std::size_t n = 0;
    for (const Group& group : groups_) n += group.blocks.size();
    return n;
  }

  // The instance has stored these blocks. O(hashes).
  void Store(std::uint32_t slot, std::span<const std::uint64_t> hashes) {
    Group* group = Reporting(slot);
    if (group == nullptr || most_blocks_ == 0) return;
    for (std::size_t i = hashes.size(); i-- > 0;) {
      Slot b = group->blocks.Find(hashes[i]);
      if (b == kNoSlot) {
        if (group->blocks.size() >= most_blocks_) Drop(*group, slot / kBits, group->ages.oldest());
        b = group->blocks.Insert(hashes[i], {hashes[i]});
        group->ages.Append(group->blocks, b);
      } else {
        group->ages.MoveToEnd(group->blocks, b);
      }
      std::uint64_t& held = group->blocks[b].held;
      if ((held & Bit(slot)) == 0) ++counts_[slot];
      held |= Bit(slot);
    }
  }

  // The instance has removed these blocks. O(hashes).
  void Remove(std::uint32_t slot, std::span<const std::uint64_t> hashes) {
    Group* group = Reporting(slot);
    if (group == nullptr) return;
    for (const std::uint64_t hash : hashes) {
      if (const Slot b = group->blocks.Find(hash); b != kNoSlot) Remove(*group, slot, b);
    }
  }

  // The instance has removed all blocks. O(blocks of its group), or O(1) if none is known.
  void Clear(std::uint32_t slot) {
    Group* group = Reporting(slot);
    if (group == nullptr) return;
    const std::size_t slots = group->blocks.slots();
    for (std::size_t b = 0; b < slots && counts_[slot] > 0; ++b) Remove(*group, slot, static_cast<Slot>(b));
  }

  // The instance is gone, or has a new cache about which it has not reported.
  void Forget(std::uint32_t slot) {
    if (!Reports(slot)) return;
    Clear(slot);
    groups_[slot / kBits].reporting &= ~Bit(slot);
  }

  // Calls found(slot, blocks) for each instance that reports, with the length of the longest run of leading blocks in
  // its cache. O(hashes until the last run ends) per group.
  template <class F>
  void Match(std::span<const std::uint64_t> hashes, std::uint64_t salt, F&& found) const {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      std::uint64_t run = group.reporting;
      for (std::size_t i = 0; i < hashes.size() && run != 0; ++i) {
        const Slot b = group.blocks.Find(SaltedHash(hashes[i], salt));
        const std::uint64_t held = b != kNoSlot ? group.blocks[b].held : 0;
        Each(g, run & ~held, i, found);
        run &= held;
      }
      Each(g, run, hashes.size(), found);
    }
  }

  // A prompt with these leading blocks is used. O(hashes) per group.
  void Use(std::span<const std::uint64_t> hashes, std::uint64_t salt) {
    for (Group& group : groups_) {
      for (std::size_t i = hashes.size(); i-- > 0 && group.reporting != 0;) {
        const Slot b = group.blocks.Find(SaltedHash(hashes[i], salt));
        if (b != kNoSlot) group.ages.MoveToEnd(group.blocks, b);
      }
    }
  }

 private:
  static constexpr std::uint32_t kBits = 64;

  struct Block {
    std::uint64_t hash = 0;
    std::uint64_t held = 0;  // bit i: the group's slot i has the block; 0: the record is free
    AgeLink age = {};
  };
  struct Group {
    std::uint64_t reporting = 0;  // bit i: the group's slot i reports
    IdTable<std::uint64_t, Block> blocks;
    AgeList ages;
  };

  static constexpr std::uint64_t Bit(std::uint32_t slot) { return std::uint64_t{1} << slot % kBits; }

  template <class F>
  static void Each(std::size_t group, std::uint64_t bits, std::size_t run, F& found) {
    for (; bits != 0; bits &= bits - 1) {
      found(static_cast<std::uint32_t>(group * kBits) + static_cast<std::uint32_t>(std::countr_zero(bits)), run);
    }
  }

  // Returns the group of an instance that reports now; null if the slot is too large.
  Group* Reporting(std::uint32_t slot) {
    if (slot >= kMostInstances) return nullptr;
    while (slot / kBits >= groups_.size()) groups_.emplace_back().blocks.KeyHashes(seed_);
    if (slot >= counts_.size()) counts_.resize(slot + std::size_t{1});
    Group& group = groups_[slot / kBits];
    group.reporting |= Bit(slot);
    return &group;
  }

  void Remove(Group& group, std::uint32_t slot, Slot b) {
    Block& block = group.blocks[b];
    if ((block.held & Bit(slot)) == 0) return;
    block.held &= ~Bit(slot);
    --counts_[slot];
    if (block.held == 0) Erase(group, b);
  }
  void Drop(Group& group, std::size_t g, Slot b) {
    const auto forget = [this](std::uint32_t slot, std::size_t) { --counts_[slot]; };
    Each(g, group.blocks[b].held, 0, forget);
    group.blocks[b].held = 0;
    Erase(group, b);
  }
  static void Erase(Group& group, Slot b) {
    group.ages.Remove(group.blocks, b);
    group.blocks.Erase(b, group.blocks[b].hash);
  }

  std::size_t most_blocks_;
  std::uint64_t seed_ = 0;
  std::vector<Group> groups_;
  std::vector<std::size_t> counts_;  // known blocks of each instance, by slot
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_BOOKS_KV_INDEX_H_
