// Counts the used KV blocks on the GPU and in host memory.
#ifndef TAKT_KV_KV_LEDGER_H_
#define TAKT_KV_KV_LEDGER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "takt/config.h"
#include "takt/kv/kv_use.h"
#include "takt/turns/holdings.h"
#include "takt/model/request.h"
#include "takt/model/step.h"
#include "takt/turns/retention/any_retention.h"

namespace takt {

namespace internal {

// A block is private to a request, or part of a prefix chunk that several requests may share. A shared chunk counts
// once. A chunk without references counts as free memory. The retention policy sets the order of eviction; the default
// is least recently used.
//
// Host memory can keep copies of chunks, as a second tier. Blocks that a request releases on the GPU are copied at
// once, so that their later eviction needs no copy. The same retention policy ranks the copies separately. Swapped-out
// KV has precedence over copies: copies that are not being loaded are evicted for swapped-out KV.
class KvLedger {
 public:
  KvLedger() = default;
  KvLedger(Blocks total, Tokens block_tokens, Blocks cpu_total, bool prefix_cache, Blocks prefix_cpu = {0})
      : total_(total.value),
        block_tokens_(block_tokens.value),
        cpu_total_(cpu_total.value),
        prefix_cpu_(prefix_cpu.value) {
    if (!prefix_cache) return;
    holdings_ = std::make_unique<Holdings>(AnyRetention(), block_tokens);
    if (prefix_cpu_ > 0) copies_ = std::make_unique<Holdings>(AnyRetention(), block_tokens);
  }

  // Returns null if nothing is cached.
  Holdings* holdings() { return holdings_.get(); }
  const Holdings* holdings() const { return holdings_.get(); }
  // Returns the prefixes in host memory; null if there are none.
  Holdings* copies() { return copies_.get(); }
  const Holdings* copies() const { return copies_.get(); }

  void KeyHashes(std::uint64_t seed) {
    if (holdings_ != nullptr) holdings_->KeyHashes(seed);
    if (copies_ != nullptr) copies_->KeyHashes(seed);
  }
  // Sets the time of a call of the host.
  void SetNow(TimePoint now) {
    now_ = now;
    if (holdings_ != nullptr) holdings_->BeginCall();
    if (copies_ != nullptr) copies_->BeginCall();
  }

  void MakeRoom(std::size_t chunks) {
    if (holdings_ != nullptr) holdings_->MakeRoom(chunks);
  }
  void MakeRoomToHold(std::size_t n) {
    if (holdings_ != nullptr) holdings_->MakeRoomToHold(n);
    if (copies_ != nullptr) copies_->MakeRoomToHold(n);
  }
  // Makes room for copies of more chunks, and for notices about these copies.
  void MakeRoomToCopy(std::size_t chunks) {
    if (copies_ == nullptr) return;
    copies_->MakeRoom(chunks);
    copies_->MakeRoomToDrop(chunks);
    const std::size_t room = host_chunks_.size() + 2 * (chunks + copies_->chunks());
    if (room > host_chunks_.capacity()) host_chunks_.reserve(std::max(room, 2 * host_chunks_.capacity()));
  }

  std::int32_t total() const { return total_; }
  std::int32_t block_tokens() const { return block_tokens_; }
  std::int32_t used() const { return private_ + shared(); }
  // Returns the number of used blocks in prefix chunks.
  std::int32_t shared() const { return holdings_ != nullptr ? holdings_->referenced() : 0; }
  std::int32_t free() const { return total_ - used(); }
  std::int32_t idle() const { return holdings_ != nullptr ? holdings_->idle() : 0; }
  // Returns the number of blocks available for swap-outs, including copies that are not being loaded.
  std::int32_t cpu_free() const { return cpu_total_ - cpu_used_ - (copies_ != nullptr ? copies_->referenced() : 0); }
  std::int32_t cpu_cached() const { return copies_ != nullptr ? copies_->referenced() + copies_->idle() : 0; }
  // Returns the number of blocks that further copies may use without an eviction.
  std::int32_t copy_room() const { return std::min(prefix_cpu_, cpu_total_ - cpu_used_) - cpu_cached(); }

  KvUse use() const { return {{total_}, {used()}, {free()}, {idle()}, {0}, {cpu_total_}, {cpu_used_}, {cpu_cached()}}; }

  // Requires `blocks` free blocks. Evicts idle prefixes if needed.
  void Allocate(std::int32_t blocks) {
    private_ += blocks;
    TAKT_ASSERT(free() >= 0);
    Trim();
  }

  void Free(std::int32_t blocks) {
    private_ -= blocks;
    TAKT_ASSERT(private_ >= 0);
  }

  void AllocateCpu(std::int32_t blocks) {
    cpu_used_ += blocks;
    if (copies_ == nullptr) return;
    if (const std::int32_t lack = -copy_room(); lack > 0) DropCopies(lack);
  }
  void FreeCpu(std::int32_t blocks) { cpu_used_ -= blocks; }

  // Returns the blocks per chunk of this prefix; 0 if it is not cacheable here.
  std::int32_t ChunkBlocks(const PrefixBlocks& prefix) const {
    if (holdings_ == nullptr || prefix.hashes.empty() || prefix.block_tokens.value <= 0) return 0;
    if (prefix.block_tokens.value % block_tokens_ != 0) return 0;
    return prefix.block_tokens.value / block_tokens_;
  }

  // Returns a number that changes when an unused chunk comes into use. Other requests may then need less memory.
  std::uint64_t prefixes_used() const { return holdings_ != nullptr ? holdings_->uses() : 0; }

  // Finds the leading cached chunks, of `blocks` blocks each. Finds nothing without a cache.
  PrefixHit Find(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    return hashes.empty() ? PrefixHit{} : holdings_->Find(hashes, blocks);
  }
  void Acquire(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    if (!hashes.empty()) holdings_->Acquire(hashes, blocks);
  }
  // `turn`: the turn that owned the blocks.
  void Release(std::span<const std::uint64_t> hashes, std::int32_t blocks, const HeldTurn& turn = {}) {
    if (holdings_ == nullptr) return;
    const std::int32_t copied = copies_ != nullptr ? Copy(hashes, blocks, turn) : 0;
    holdings_->Release(hashes, blocks, turn, now_, copied);
  }

  // Marks the chunks from `first` on as lost.
  void Spoil(std::span<const std::uint64_t> hashes, std::int32_t first, std::int32_t blocks) {
    if (hashes.empty()) return;
    holdings_->Spoil(hashes, first, blocks);
    SpoilCopies(hashes, first, blocks);
  }
  void SpoilAll() {
    if (holdings_ != nullptr) holdings_->SpoilAll();
    if (copies_ == nullptr) return;
    copies_->SpoilAll();
    ReportDropped();
  }

  // --- Host memory. ---

  // Returns how many leading chunks have a copy.
  std::int32_t FindCopies(std::span<const std::uint64_t> hashes, std::int32_t blocks) const {
    return hashes.empty() || copies_ == nullptr ? 0 : copies_->Find(hashes, blocks).chunks;
  }
  // Keeps these copies while they are loaded.
  void PinCopies(std::span<const std::uint64_t> hashes, std::int32_t blocks) { copies_->Acquire(hashes, blocks); }
  void UnpinCopies(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    copies_->Release(hashes, blocks, {.over = true}, now_);
    ReportDropped();
  }
  // Marks the copies from `first` on as lost.
  void SpoilCopies(std::span<const std::uint64_t> hashes, std::int32_t first, std::int32_t blocks) {
    const std::int32_t there = FindCopies(hashes, blocks);
    if (first >= there) return;
    copies_->Spoil(hashes.first(static_cast<std::size_t>(there)), first, blocks);
    ReportDropped();
  }
  // Chunks that host memory must keep or drop, as decided since the last call.
  std::vector<HostChunk>& host_chunks() { return host_chunks_; }

  // --- Workflows, in both tiers. Pins apply to the GPU only. ---

  // Has no effect if an allocation fails.
  void SetPolicy(const AnyRetention& retention) {
    ForTiers([&](Holdings& tier) { tier.MakeRoomFor(retention); });
    ForTiers([&](Holdings& tier) { tier.SetPolicy(retention); });
  }
  void BoundHoldings(std::size_t most) {
    ForTiers([&](Holdings& tier) { tier.BoundHoldings(most); });
  }
  void Await(WorkflowId workflow, std::uint64_t branch, bool awaited, TimePoint now = {}) {
    ForTiers([&](Holdings& tier) { tier.Await(workflow, branch, awaited, now); });
  }
  void SetClass(WorkflowId workflow, std::uint64_t branch, std::uint32_t return_class) {
    ForTiers([&](Holdings& tier) { tier.SetClass(workflow, branch, return_class); });
  }
  void Touch(WorkflowId workflow, std::uint64_t branch, std::uint32_t return_class) {
    ForTiers([&](Holdings& tier) { tier.Touch(workflow, branch, return_class, now_); });
  }
  void End(WorkflowId workflow, std::uint64_t branch) {
    ForTiers([&](Holdings& tier) { tier.End(workflow, branch); });
  }
  void End(WorkflowId workflow) {
    ForTiers([&](Holdings& tier) { tier.End(workflow); });
  }
  std::uint64_t awaited_lost() const {
    return holdings_->awaited_lost() + (copies_ != nullptr ? copies_->awaited_lost() : 0);
  }

  // Chunks that were evicted since the last call.
  std::vector<DroppedPrefix>& dropped() { return holdings_ != nullptr ? holdings_->dropped() : none_; }
  void MakeRoomToDrop() {
    if (holdings_ != nullptr) holdings_->MakeRoomToDrop();
  }
  std::size_t chunk_capacity() const { return holdings_ != nullptr ? holdings_->capacity() : 0; }

  // Turns private blocks of a request into a shared chunk of `blocks` blocks, named by the last hash. Returns false if
  // another request has published it.
  bool Publish(std::span<const std::uint64_t> hashes, std::int32_t blocks) {
    const bool published = holdings_->Publish(hashes, blocks);
    private_ -= published ? blocks : 0;
    return published;
  }

 private:
  template <class F>
  void ForTiers(F&& f) {
    f(*holdings_);
    if (copies_ != nullptr) f(*copies_);
  }

  // Copies as much of a prompt as fits, if the prompt's branch continues. Returns the number of the prompt's chunks
  // that have a copy.
  std::int32_t Copy(std::span<const std::uint64_t> hashes, std::int32_t blocks, const HeldTurn& turn) {
    if (turn.over) {  // blocks of a branch that is over are not kept
      if (turn.workflow) copies_->End(turn.workflow, turn.branch);
      return FindCopies(hashes, blocks);
    }
    const std::int32_t all = hashes.empty() ? 0 : holdings_->Find(hashes, blocks).chunks;  // without lost chunks
    std::int32_t there = FindCopies(hashes.first(static_cast<std::size_t>(all)), blocks);
    const auto first = [&](std::int32_t n) { return hashes.first(static_cast<std::size_t>(n)); };
    copies_->Acquire(first(there), blocks);
    if (const std::int32_t lack = (all - there) * blocks - copy_room(); lack > 0) DropCopies(lack);
    for (; there < all && copy_room() >= blocks && copies_->Publish(first(there + 1), blocks); ++there) {
      host_chunks_.push_back({hashes[static_cast<std::size_t>(there)], {blocks}, KvAction::kOut});
    }
    copies_->Release(first(there), blocks, turn, now_);
    ReportDropped();
    return there;
  }

  void DropCopies(std::int32_t blocks) {
    copies_->Evict(blocks, now_);
    ReportDropped();
  }
  void ReportDropped() {
    std::vector<DroppedPrefix>& dropped = copies_->dropped();
    for (const DroppedPrefix& chunk : dropped) {
      host_chunks_.push_back({chunk.hash, chunk.blocks, KvAction::kDrop});
      holdings_->Uncopy(chunk.hash, chunk.blocks.value);
    }
    dropped.clear();
  }

  // Evicts idle prefixes until used and cached memory fit the cache.
  void Trim() {
    if (holdings_ == nullptr) return;
    if (const std::int32_t lack = holdings_->idle() - free(); lack > 0) holdings_->Evict(lack, now_);
  }

  std::int32_t total_ = 0;
  std::int32_t block_tokens_ = 16;
  std::int32_t private_ = 0;
  std::int32_t cpu_total_ = 0;
  std::int32_t cpu_used_ = 0;
  std::int32_t prefix_cpu_ = 0;  // part of cpu_total_ for copies
  TimePoint now_ = kUnset;
  std::vector<DroppedPrefix> none_;
  std::unique_ptr<Holdings> holdings_;  // null: no cache
  std::unique_ptr<Holdings> copies_;  // null: no copies
  std::vector<HostChunk> host_chunks_;
};

}  // namespace internal
}  // namespace takt

#endif  // TAKT_KV_KV_LEDGER_H_
