// Prompts in the KV cache, as a tree of runs of chunks.
#ifndef TAKT_TURNS_PREFIX_TREE_H_
#define TAKT_TURNS_PREFIX_TREE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/slot_table.h"
#include "takt/config.h"
#include "takt/model/step.h"
#include "takt/turns/prefix_node.h"

namespace takt::internal {

// A chunk is a number of blocks. Its name is the hash of the chunk and all chunks before it. Consecutive chunks with
// the same users form one node, so even a long prompt is a path of few nodes.
//
// Invariant: every prefix of a chunk is in the tree, so a lookup is a binary search. Each chunk is in one node. A
// node's chunks run from `first` to its last one. Its parent ends with the chunk before them. A node without chunks is
// not in the tree.
//
// Equal hashes must mean equal prefixes. If a host breaks this contract, hits are wrong, but nothing else is.
class PrefixTree {
 public:
  void KeyHashes(std::uint64_t seed) { chunks_.KeyHashes(seed); }
  void MakeRoom(std::size_t n) {
    Grow(chunks_, n);
    Grow(nodes_, n + 1);  // every node has a chunk; a split needs one spare node
  }

  std::size_t size() const { return chunks_.size(); }
  std::size_t capacity() const { return chunks_.capacity(); }
  PrefixNodes& nodes() { return nodes_; }
  const PrefixNodes& nodes() const { return nodes_; }

  // Returns kNoSlot if the chunk is not in the tree.
  Slot FindChunk(std::uint64_t hash, std::int32_t blocks) const { return chunks_.Find(NameOf(hash, blocks)); }
  Slot NodeOf(Slot chunk) const {
    TAKT_ASSERT(chunk != kNoSlot);
    return chunks_[chunk].node;
  }
  std::int32_t DepthOf(Slot chunk) const { return chunks_[chunk].depth; }
  bool EndsNode(Slot chunk) const { return nodes_[NodeOf(chunk)].last == chunk; }

  // Returns how many leading chunks are cached and not spoiled. Prefetches both possible next places of the binary
  // search.
  std::int32_t Search(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    const auto middle_of = [](std::size_t least, std::size_t most) { return least + (most - least + 1) / 2; };
    const auto name = [&](std::size_t count) { return NameOf(hashes[std::max<std::size_t>(count, 1) - 1], blocks); };
    std::size_t least = 0, most = hashes.size();
    while (least < most) {
      const std::size_t middle = middle_of(least, most);
      chunks_.Prefetch(name(middle_of(least, middle - 1)));
      chunks_.Prefetch(name(middle_of(middle, most)));
      if (chunks_.Find(name(middle)) != kNoSlot) least = middle;
      else most = middle - 1;
    }
    if (least == 0) return 0;
    const Chunk& chunk = chunks_[chunks_.Find(NameOf(hashes[least - 1], blocks))];
    auto found = static_cast<std::int32_t>(least);
    if (chunk.depth != found - 1) return SearchOneByOne(hashes, blocks);
    for (Slot n = chunk.node; n != kNoSlot && nodes_[n].spoiled; n = nodes_[n].parent) found = nodes_[n].first;
    return found;
  }

  // Adds a node without chunks after `parent`. The caller must append a chunk.
  Slot AddNode(Slot parent, std::int32_t first, std::int32_t blocks) {
    const Slot n = nodes_.Take();
    PrefixNode& node = nodes_[n] = {};
    node.parent = parent;
    node.first = node.end = first;
    node.blocks = blocks;
    if (parent == kNoSlot) return n;
    LinkFirst<&PrefixNode::siblings>(nodes_, nodes_[parent].child, n);
    ++nodes_[parent].children;
    return n;
  }

  // Adds a chunk to the end of a leaf. `before`: the preceding chunk.
  void Append(Slot n, Slot before, std::uint64_t hash) {
    PrefixNode& node = nodes_[n];
    const std::uint64_t name = NameOf(hash, node.blocks);
    node.last = chunks_.Insert(name, {name, before, n, node.end});
    ++node.end;
  }

  // Splits a node after this chunk, which must not be its last. Returns the new node of the later chunks. The part with
  // fewer chunks and children takes the new slot. O(chunks up to this one) at most.
  Slot Split(Slot chunk) {
    const Slot n = NodeOf(chunk);
    const Slot m = nodes_.Take();
    nodes_[m] = nodes_[n];
    const std::int32_t first = nodes_[n].first, middle = chunks_[chunk].depth + 1, end = nodes_[n].end;
    const bool back_moves = end - middle + nodes_[n].children <= middle - first;
    const Slot front = back_moves ? n : m, back = back_moves ? m : n;
    if (back_moves) {
      for (Slot c = nodes_[n].last; c != chunk; c = chunks_[c].before) chunks_[c].node = m;
      for (Slot c = nodes_[n].child; c != kNoSlot; c = nodes_[c].siblings.newer) nodes_[c].parent = m;
    } else {
      Slot c = chunk;
      for (std::int32_t i = first; i < middle; ++i, c = chunks_[c].before) chunks_[c].node = m;
      if (const Slot p = nodes_[n].parent; p != kNoSlot) {
        Unlink<&PrefixNode::siblings>(nodes_, nodes_[p].child, n);
        LinkFirst<&PrefixNode::siblings>(nodes_, nodes_[p].child, m);
      }
    }
    nodes_[back].parent = front;
    nodes_[back].siblings = {};
    nodes_[back].first = nodes_[front].end = middle;
    nodes_[front].last = chunk;
    nodes_[front].child = back;
    nodes_[front].children = 1;
    return back;
  }

  // Returns true if the leaf can merge into its parent: both have the same users, and the leaf is not longer.
  bool Merges(Slot n) const {
    const PrefixNode& node = nodes_[n];
    if (node.parent == kNoSlot || node.children > 0) return false;
    const PrefixNode& before = nodes_[node.parent];
    return before.children == 1 && before.references == node.references && before.holders == node.holders &&
           before.stamp == node.stamp && before.loose == node.loose && before.spoiled == node.spoiled &&
           before.blocks == node.blocks && node.chunks() <= before.chunks();
  }
  // Merges a leaf into its parent, which must have no other child. Returns the parent.
  Slot Merge(Slot n) {
    const PrefixNode& node = nodes_[n];
    const Slot p = node.parent;
    PrefixNode& before = nodes_[p];
    for (Slot c = node.last; c != before.last; c = chunks_[c].before) chunks_[c].node = p;
    before.last = node.last;
    before.end = node.end;
    before.child = kNoSlot;
    before.children = 0;
    Free(n);
    return p;
  }

  // Removes the chunks of a leaf from `end` on, and adds them to the list.
  void Truncate(Slot n, std::int32_t end, std::vector<DroppedPrefix>& dropped) {
    PrefixNode& node = nodes_[n];
    Slot ahead = node.last;  // prefetched for a lookup some chunks later, or for the next call
    const auto fetch = [&] {
      if (ahead == kNoSlot) return;
      chunks_.Prefetch(chunks_[ahead].name);
      ahead = chunks_[ahead].before;
    };
    for (int i = 0; i < 6; ++i) fetch();
    for (; node.end > end; --node.end) {
      const Slot c = node.last;
      const std::uint64_t name = chunks_[c].name;
      fetch();
      node.last = chunks_[c].before;
      dropped.push_back({HashOf(name, node.blocks), {node.blocks}});
      chunks_.Erase(c, name);
    }
  }

  // Removes a leaf without chunks from the tree.
  void Remove(Slot n) {
    if (const Slot p = nodes_[n].parent; p != kNoSlot) {
      Unlink<&PrefixNode::siblings>(nodes_, nodes_[p].child, n);
      --nodes_[p].children;
    }
    Free(n);
  }

 private:
  struct Chunk {
    std::uint64_t name = 0;
    Slot before = kNoSlot;  // the preceding chunk
    Slot node = kNoSlot;
    std::int32_t depth = 0;  // number of preceding chunks
  };

  template <class Table>
  static void Grow(Table& table, std::size_t n) {
    if (n > table.room()) table.Reserve(std::max(table.slots() + n, 2 * table.capacity()));
  }

  // Includes the size in the name, because hosts may give chunks of two sizes the same hash.
  static std::uint64_t NameOf(std::uint64_t hash, std::int32_t blocks) {
    return hash + static_cast<std::uint64_t>(blocks) * kStride;
  }
  static std::uint64_t HashOf(std::uint64_t name, std::int32_t blocks) {
    return name - static_cast<std::uint64_t>(blocks) * kStride;
  }
  static constexpr std::uint64_t kStride = 0x9e37'79b9'7f4a'7c15u;

  // Used for hosts whose hashes break the contract.
  std::int32_t SearchOneByOne(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    std::int32_t found = 0;
    for (const std::uint64_t hash : hashes) {
      const Chunk* chunk = chunks_.Get(NameOf(hash, blocks));
      if (chunk == nullptr || chunk->depth != found || nodes_[chunk->node].spoiled) break;
      ++found;
    }
    return found;
  }

  void Free(Slot n) {
    nodes_[n].first = nodes_[n].end = 0;
    nodes_.Give(n);
  }

  IdTable<std::uint64_t, Chunk> chunks_;  // by name
  PrefixNodes nodes_;
};

}  // namespace takt::internal

#endif  // TAKT_TURNS_PREFIX_TREE_H_
