// KV memory by count: how many blocks of the cache, and of the host's memory, are in use.
#ifndef TAKT_KV_KV_LEDGER_H_
#define TAKT_KV_KV_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "takt/config.h"
#include "takt/kv/holdings.h"
#include "takt/kv/prefix_cache.h"
#include "takt/model/request.h"
#include "takt/retention/any_retention.h"

namespace takt {

struct KvUse {
  Blocks total{0}, used{0}, free{0}, cached{0}, pending{0};  // cached: idle prefixes, contained in free
  Blocks cpu_total{0}, cpu_used{0};

  friend constexpr bool operator==(const KvUse&, const KvUse&) = default;
};

namespace internal {

// What idle prefixes are kept by, where a retention policy is chosen.
using Holdings = BasicHoldings<AnyRetention>;

// Blocks are private to a request, or belong to a prefix chunk that requests share and that counts once. A chunk
// no request refers to is free memory until one needs it: then the chunk that was used least recently goes, or what the
// holdings say, where there are any.
class KvLedger {
 public:
  KvLedger() = default;
  KvLedger(Blocks total, Tokens block_tokens, Blocks cpu_total, bool prefix_cache)
      : total_(total.value), block_tokens_(block_tokens.value), cpu_total_(cpu_total.value), prefix_(prefix_cache) {}

  // Idle prefixes are holdings from here on. Nothing is cached yet.
  void Hold(const AnyRetention& retention, std::uint64_t seed) {
    holdings_ = std::make_unique<Holdings>(retention, Tokens{block_tokens_});
    holdings_->KeyHashes(seed);
    holdings_->MakeRoom(cache_.capacity());
  }
  Holdings* holdings() { return holdings_.get(); }
  const Holdings* holdings() const { return holdings_.get(); }

  void KeyHashes(std::uint64_t seed) { cache_.KeyHashes(seed); }
  void SetNow(TimePoint now) { now_ = now; }

  // For so many more chunks of prefixes.
  void MakeRoom(std::size_t chunks) {
    if (holdings_ != nullptr) return holdings_->MakeRoom(chunks);
    cache_.MakeRoom(chunks);
  }
  // For so many more holdings.
  void MakeRoomToHold(std::size_t n) {
    if (holdings_ != nullptr) holdings_->MakeRoomToHold(n);
  }

  std::int32_t total() const { return total_; }
  std::int32_t block_tokens() const { return block_tokens_; }
  std::int32_t used() const { return private_ + referenced(); }
  std::int32_t free() const { return total_ - used(); }
  std::int32_t idle() const { return holdings_ != nullptr ? holdings_->idle() : cache_.idle(); }
  std::int32_t cpu_free() const { return cpu_total_ - cpu_used_; }

  KvUse use() const { return {{total_}, {used()}, {free()}, {idle()}, {0}, {cpu_total_}, {cpu_used_}}; }

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
  std::uint64_t prefixes_used() const { return holdings_ != nullptr ? holdings_->uses() : cache_.uses(); }

  // Of chunks of so many blocks each; all hashes from the first one on.
  PrefixHit Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    return holdings_ != nullptr ? holdings_->Find(hashes, blocks) : cache_.Find(hashes, blocks);
  }
  void Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    if (holdings_ != nullptr) return holdings_->Acquire(hashes, blocks);
    cache_.Acquire(hashes, blocks);
  }
  // Whose they were: of interest to holdings alone.
  void Release(std::span<const std::uint64_t> hashes, std::int32_t blocks, const HeldTurn& turn = {}) {
    if (holdings_ != nullptr) return holdings_->Release(hashes, blocks, turn, now_);
    cache_.Release(hashes, blocks);
  }

  // Those from `first` on.
  void Spoil(std::span<const std::uint64_t> hashes, std::int32_t first, std::int32_t blocks) {
    if (holdings_ != nullptr) return holdings_->Spoil(hashes, first, blocks);
    cache_.Spoil(hashes.subspan(static_cast<std::size_t>(first)), blocks);
  }
  void SpoilAll() {
    if (holdings_ != nullptr) return holdings_->SpoilAll();
    cache_.SpoilAll();
  }

  // Chunks that have left the cache since the list was last taken.
  std::vector<DroppedPrefix>& dropped() { return holdings_ != nullptr ? holdings_->dropped() : cache_.dropped(); }
  void MakeRoomToDrop() {
    if (holdings_ != nullptr) return holdings_->MakeRoomToDrop();
    if (prefix_) cache_.MakeRoomToDrop();
  }
  std::size_t chunk_capacity() const { return holdings_ != nullptr ? holdings_->capacity() : cache_.capacity(); }

  // Private blocks of a request become a shared chunk of `blocks`, the last of the hashes; false where another request
  // has published it.
  bool Publish(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    const bool published =
        holdings_ != nullptr ? holdings_->Publish(hashes, blocks) : cache_.Publish(hashes.back(), blocks);
    private_ -= published ? blocks : 0;
    return published;
  }

 private:
  std::int32_t referenced() const { return holdings_ != nullptr ? holdings_->referenced() : cache_.referenced(); }

  // Memory in use and memory kept for idle prefixes must not exceed the cache.
  void Trim() {
    if (holdings_ != nullptr) {
      if (const std::int32_t lack = holdings_->idle() - free(); lack > 0) holdings_->Evict(lack, now_);
      return;
    }
    while (free() < cache_.idle() && cache_.Evict()) {
    }
  }

  std::int32_t total_ = 0;
  std::int32_t block_tokens_ = 16;
  std::int32_t private_ = 0;
  std::int32_t cpu_total_ = 0;
  std::int32_t cpu_used_ = 0;
  bool prefix_ = false;
  TimePoint now_ = kUnset;
  PrefixCache cache_;
  std::unique_ptr<Holdings> holdings_;  // null: the cache above
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_KV_KV_LEDGER_H_
