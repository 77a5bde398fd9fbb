// Which prompt prefixes are in the KV cache: shared blocks with reference counts, least recently used out first.
#ifndef TAKT_KV_PREFIX_CACHE_H_
#define TAKT_KV_PREFIX_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/slot_table.h"
#include "takt/model/step.h"

namespace takt::internal {

// What is there of a prompt.
struct PrefixHit {
  std::int32_t chunks = 0;  // leading chunks that are there
  std::int32_t idle = 0;  // of these, how many no request refers to now
};

// Counts chunks, each named by the hash of itself and all before it, and by its size in KV blocks: a prefix cut
// otherwise has other chunks, whatever their hashes. A chunk that no request refers to stays until Evict takes it.
class PrefixCache {
 public:
  using Hit = PrefixHit;

  // Hashes of prompts are strangers' choice where the host's own hash has no key.
  void KeyHashes(std::uint64_t seed) { chunks_.KeyHashes(seed); }

  // Room for n more chunks without allocation; grows by doubling.
  void MakeRoom(std::size_t n) {
    if (n > chunks_.room()) chunks_.Reserve(std::max(chunks_.slots() + n, 2 * chunks_.capacity()));
  }

  std::int32_t referenced() const { return referenced_; }  // blocks of chunks that a request refers to
  std::int32_t idle() const { return idle_; }              // blocks of chunks that could be evicted
  std::uint64_t uses() const { return uses_; }             // times that an unused chunk came into use

  // All hashes of one call are those of chunks of `blocks` blocks each.
  Hit Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    Hit hit;
    for (std::uint64_t hash : hashes) {
      const Chunk* chunk = chunks_.Get(NameOf(hash, blocks));
      if (chunk == nullptr || chunk->blocks != blocks || chunk->spoiled) break;
      ++hit.chunks;
      hit.idle += chunk->references == 0 ? 1 : 0;
    }
    return hit;
  }

  // Refers to chunks that Find has found.
  void Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    for (std::uint64_t hash : hashes) {
      const Slot i = chunks_.Find(NameOf(hash, blocks));
      if (chunks_[i].references++ == 0) {
        idlers_.Remove(chunks_, i);
        idle_ -= blocks;
        referenced_ += blocks;
        ++uses_;
      }
    }
  }

  // Adds a chunk with one reference; false where it is there already.
  bool Publish(std::uint64_t hash, std::int32_t blocks) {
    const std::uint64_t name = NameOf(hash, blocks);
    if (chunks_.Find(name) != kNoSlot) return false;
    chunks_.Insert(name, {.name = name, .blocks = blocks, .references = 1});
    referenced_ += blocks;
    ++uses_;
    return true;
  }

  // Gives references back, the deepest first: a chunk without those before it is of no use.
  void Release(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    for (std::size_t n = hashes.size(); n-- > 0;) {
      const Slot i = chunks_.Find(NameOf(hashes[n], blocks));
      if (--chunks_[i].references > 0) continue;
      referenced_ -= blocks;
      if (chunks_[i].spoiled) {
        Drop(i);
        continue;
      }
      idlers_.Append(chunks_, i);
      idle_ += blocks;
    }
  }

  // What is in these chunks, which are referred to, is lost: they are found no more.
  void Spoil(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    for (std::uint64_t hash : hashes) chunks_[chunks_.Find(NameOf(hash, blocks))].spoiled = true;
  }
  // The same of all chunks that are there.
  void SpoilAll() {
    while (Evict()) {
    }
    for (Slot i = 0; i < chunks_.slots(); ++i) chunks_[i].spoiled |= chunks_[i].references > 0;
  }

  // Forgets the chunk that has been idle longest; false where none is idle.
  bool Evict() {
    if (idlers_.empty()) return false;
    const Slot i = idlers_.oldest();
    idlers_.Remove(chunks_, i);
    idle_ -= chunks_[i].blocks;
    Drop(i);
    return true;
  }

  // Chunks that are there no more, since the list was last taken. Without allocation where room was made since.
  std::vector<DroppedPrefix>& dropped() { return dropped_; }
  void MakeRoomToDrop() {
    const std::size_t room = dropped_.size() + chunks_.size();
    if (room > dropped_.capacity()) dropped_.reserve(std::max(room, chunks_.capacity()));
  }
  std::size_t capacity() const { return chunks_.capacity(); }

 private:
  struct Chunk {
    std::uint64_t name = 0;
    std::int32_t blocks = 0;
    std::int32_t references = 0;
    bool spoiled = false;
    AgeLink age = {};  // while idle
  };

  // Hosts may well give chunks of two sizes the same hash.
  static std::uint64_t NameOf(std::uint64_t hash, std::int32_t blocks) {
    return hash + static_cast<std::uint64_t>(blocks) * kStride;
  }
  void Drop(Slot i) {
    const Chunk& chunk = chunks_[i];
    dropped_.push_back({chunk.name - static_cast<std::uint64_t>(chunk.blocks) * kStride, {chunk.blocks}});
    chunks_.Erase(i, chunk.name);
  }
  static constexpr std::uint64_t kStride = 0x9e37'79b9'7f4a'7c15u;

  IdTable<std::uint64_t, Chunk> chunks_;
  AgeList idlers_;
  std::vector<DroppedPrefix> dropped_;
  std::int32_t referenced_ = 0, idle_ = 0;
  std::uint64_t uses_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_KV_PREFIX_CACHE_H_
