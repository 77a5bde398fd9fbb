// KV memory by count: how many blocks of the cache, and of the host's memory, are in use.
#ifndef TAKT_KV_KV_LEDGER_H_
#define TAKT_KV_KV_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/config.h"
#include "takt/model/request.h"
#include "takt/kv/prefix_cache.h"

namespace takt {

struct KvUse {
  Blocks total{0}, used{0}, free{0}, cached{0}, pending{0};  // cached: idle prefixes, contained in free
  Blocks cpu_total{0}, cpu_used{0};

  friend constexpr bool operator==(const KvUse&, const KvUse&) = default;
};

namespace internal {

// Blocks are private to a request, or belong to a prefix chunk that requests share and that counts once. A chunk
// no request refers to is free memory until one needs it.
class KvLedger {
 public:
  KvLedger() = default;
  KvLedger(Blocks total, Tokens block_tokens, Blocks cpu_total, bool prefix_cache)
      : total_(total.value), block_tokens_(block_tokens.value), cpu_total_(cpu_total.value), prefix_(prefix_cache) {}

  void KeyHashes(std::uint64_t seed) { cache_.KeyHashes(seed); }

  // For so many more chunks of prefixes.
  void MakeRoom(std::size_t chunks) { cache_.MakeRoom(chunks); }

  std::int32_t total() const { return total_; }
  std::int32_t block_tokens() const { return block_tokens_; }
  std::int32_t used() const { return private_ + cache_.referenced(); }
  std::int32_t shared() const { return cache_.referenced(); }  // of these, blocks of prefix chunks
  std::int32_t free() const { return total_ - used(); }
  std::int32_t cpu_free() const { return cpu_total_ - cpu_used_; }

  KvUse use() const { return {{total_}, {used()}, {free()}, {cache_.idle()}, {0}, {cpu_total_}, {cpu_used_}}; }

  // `blocks` must be free; idle prefixes make room.
  void Allocate(std::int32_t blocks) {
    private_ += blocks;
    TAKT_ASSERT(free() >= 0);
    Trim();
  }

  void Free(std::int32_t blocks) {
    private_ -= blocks;
    TAKT_ASSERT(private_ >= 0);
  }

  void AllocateCpu(std::int32_t blocks) { cpu_used_ += blocks; }
  void FreeCpu(std::int32_t blocks) { cpu_used_ -= blocks; }

  // Blocks of one chunk of this prefix; 0: it cannot be shared here.
  std::int32_t ChunkBlocks(const PrefixBlocks& prefix) const {
    if (!prefix_ || prefix.hashes.empty() || prefix.block_tokens.value <= 0) return 0;
    if (prefix.block_tokens.value % block_tokens_ != 0) return 0;
    return prefix.block_tokens.value / block_tokens_;
  }

  // Changes whenever an unused chunk comes into use, so that others may need less memory.
  std::uint64_t prefixes_used() const { return cache_.uses(); }

  // Of chunks of so many blocks each.
  PrefixCache::Hit Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    return cache_.Find(hashes, blocks);
  }
  void Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks) { cache_.Acquire(hashes, blocks); }
  void Release(std::span<const std::uint64_t> hashes, std::int32_t blocks) { cache_.Release(hashes, blocks); }

  void Spoil(std::span<const std::uint64_t> hashes, std::int32_t blocks) { cache_.Spoil(hashes, blocks); }
  void SpoilAll() { cache_.SpoilAll(); }

  // Chunks that have left the cache since the list was last taken.
  std::vector<DroppedPrefix>& dropped() { return cache_.dropped(); }
  void MakeRoomToDrop() {
    if (prefix_) cache_.MakeRoomToDrop();
  }
  std::size_t chunk_capacity() const { return cache_.capacity(); }

  // Private blocks of a request become a shared chunk of `blocks`; false where another request has published it.
  bool Publish(std::uint64_t hash, std::int32_t blocks) {
    if (!cache_.Publish(hash, blocks)) return false;
    private_ -= blocks;
    return true;
  }

 private:
  // Memory in use and memory kept for idle prefixes must not exceed the cache.
  void Trim() {
    while (free() < cache_.idle() && cache_.Evict()) {
    }
  }

  std::int32_t total_ = 0;
  std::int32_t block_tokens_ = 16;
  std::int32_t private_ = 0;
  std::int32_t cpu_total_ = 0;
  std::int32_t cpu_used_ = 0;
  bool prefix_ = false;
  PrefixCache cache_;
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_KV_KV_LEDGER_H_
