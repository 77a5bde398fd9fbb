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
// no request refers to is free memory until one needs it: then what the retention says goes, without one what was used
// least recently.
class KvLedger {
 public:
  KvLedger() = default;
  KvLedger(Blocks total, Tokens block_tokens, Blocks cpu_total, bool prefix_cache)
      : total_(total.value), block_tokens_(block_tokens.value), cpu_total_(cpu_total.value) {
    if (prefix_cache) holdings_ = std::make_unique<Holdings>(AnyRetention(), block_tokens);
  }

  // Null where nothing is cached.
  Holdings* holdings() { return holdings_.get(); }
  const Holdings* holdings() const { return holdings_.get(); }

  void KeyHashes(std::uint64_t seed) {
    if (holdings_ != nullptr) holdings_->KeyHashes(seed);
  }
  void SetNow(TimePoint now) { now_ = now; }

  // For so many more chunks of prefixes.
  void MakeRoom(std::size_t chunks) {
    if (holdings_ != nullptr) holdings_->MakeRoom(chunks);
  }
  // For so many more holdings.
  void MakeRoomToHold(std::size_t n) {
    if (holdings_ != nullptr) holdings_->MakeRoomToHold(n);
  }

  std::int32_t total() const { return total_; }
  std::int32_t block_tokens() const { return block_tokens_; }
  std::int32_t used() const { return private_ + shared(); }
  // Of these, blocks of prefix chunks.
  std::int32_t shared() const { return holdings_ != nullptr ? holdings_->referenced() : 0; }
  std::int32_t free() const { return total_ - used(); }
  std::int32_t idle() const { return holdings_ != nullptr ? holdings_->idle() : 0; }
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
    if (holdings_ == nullptr || prefix.hashes.empty() || prefix.block_tokens.value <= 0) return 0;
    if (prefix.block_tokens.value % block_tokens_ != 0) return 0;
    return prefix.block_tokens.value / block_tokens_;
  }

  // Changes whenever an unused chunk comes into use, so that others may need less memory.
  std::uint64_t prefixes_used() const { return holdings_ != nullptr ? holdings_->uses() : 0; }

  // Of chunks of so many blocks each; all hashes from the first one on. Without a cache there are none.
  PrefixHit Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    return hashes.empty() ? PrefixHit{} : holdings_->Find(hashes, blocks);
  }
  void Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    if (!hashes.empty()) holdings_->Acquire(hashes, blocks);
  }
  // Whose they were.
  void Release(std::span<const std::uint64_t> hashes, std::int32_t blocks, const HeldTurn& turn = {}) {
    if (holdings_ != nullptr) holdings_->Release(hashes, blocks, turn, now_);
  }

  // Those from `first` on.
  void Spoil(std::span<const std::uint64_t> hashes, std::int32_t first, std::int32_t blocks) {
    if (!hashes.empty()) holdings_->Spoil(hashes, first, blocks);
  }
  void SpoilAll() {
    if (holdings_ != nullptr) holdings_->SpoilAll();
  }

  // Chunks that have left the cache since the list was last taken.
  std::vector<DroppedPrefix>& dropped() { return holdings_ != nullptr ? holdings_->dropped() : none_; }
  void MakeRoomToDrop() {
    if (holdings_ != nullptr) holdings_->MakeRoomToDrop();
  }
  std::size_t chunk_capacity() const { return holdings_ != nullptr ? holdings_->capacity() : 0; }

  // Private blocks of a request become a shared chunk of `blocks`, the last of the hashes; false where another request
  // has published it.
  bool Publish(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    const bool published = holdings_->Publish(hashes, blocks);
    private_ -= published ? blocks : 0;
    return published;
  }

 private:
  // Memory in use and memory kept for idle prefixes must not exceed the cache.
  void Trim() {
    if (holdings_ == nullptr) return;
    if (const std::int32_t lack = holdings_->idle() - free(); lack > 0) holdings_->Evict(lack, now_);
  }

  std::int32_t total_ = 0;
  std::int32_t block_tokens_ = 16;
  std::int32_t private_ = 0;
  std::int32_t cpu_total_ = 0;
  std::int32_t cpu_used_ = 0;
  TimePoint now_ = kUnset;
  std::vector<DroppedPrefix> none_;
  std::unique_ptr<Holdings> holdings_;  // null: nothing is cached
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_KV_KV_LEDGER_H_
