// The engine's KV cache: an arena of blocks, a second arena for swapped KV, and the holders of each block.
#ifndef TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_KV_MEMORY_H_
#define TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_KV_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "prefix_chain.h"
#include "takt/kv/kv_oracle.h"

namespace tiny {

using serving::ExtendChain;

// Owns the KV memory, in one of two modes:
// - KvMode::kOracle: it answers the scheduler's queries. After their last holder, computed blocks stay as a prefix
// cache,
//   and the least recently used are evicted.
// - KvMode::kLedger: the scheduler counts and decides which blocks stay cached. Room, Free and Drop apply its plans.
//
// Not thread-safe: the step loop owns it. A step in flight accesses the data of blocks that its requests hold.
//
// No blocks are pending here: the scheduler releases a block only when no step in flight uses it.
class KvMemory final : public takt::KvOracle {
 public:
  // block_floats: size of a block in the model's layout.
  KvMemory(std::size_t block_floats, takt::Tokens block_tokens, takt::Blocks gpu_blocks, takt::Blocks cpu_blocks,
           bool prefix_cache, bool scheduler_counts = false);

  takt::Blocks total_blocks() const { return Count(blocks_.size()); }
  takt::Blocks free_blocks() const { return Count(free_.size() + idle_.size()); }

  // ---- for the scheduler ----
  takt::Tokens block_tokens() const override { return {static_cast<std::int32_t>(block_tokens_)}; }
  takt::KvSnapshot Snapshot() const override { return {total_blocks(), free_blocks(), {0}}; }
  void CachedTokens(std::span<takt::KvHit> hits) override;
  void Reserve(takt::StepId step, std::span<takt::KvReservation> wishes) override;
  takt::Blocks Release(takt::RequestId request, takt::KvAction action) override;

  // ---- for the engine ----
  std::span<float> arena() { return gpu_; }
  std::span<const std::int32_t> table(takt::RequestId request) const;  // its blocks, in order of position
  bool swapped_out(takt::RequestId request) const;

  // ---- KvMode::kLedger ----

  // Gives a request blocks for the first `tokens` tokens of its context. A request without blocks starts with the
  // cached blocks of the first `cached` tokens of its prompt, which the scheduler has found.
  void Room(takt::RequestId request, std::span<const std::int32_t> prompt, std::int32_t cached, std::int32_t tokens);
  // Frees the blocks of a preempted request. Published blocks stay cached.
  void Free(takt::RequestId request);
  // Removes a cached block, which is needed for other content.
  void Drop(std::uint64_t hash);

  // Records that the leading `computed` tokens of this context have KV: whole blocks are published.
  void Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed);

  // Moves of a plan: swaps the first `count` blocks out to the second arena, which must have room, or all of them back.
  void CopyOut(takt::RequestId request, takt::Blocks count);
  void CopyIn(takt::RequestId request);

  // Forgets a request.
  void Forget(takt::RequestId request);

  takt::Blocks cpu_free() const { return Count(cpu_free_.size()); }
  std::int64_t reused_tokens() const { return reused_tokens_; }  // tokens of prefixes that were found
  std::int64_t evicted_blocks() const { return evicted_blocks_; }

  // Recounts all holders, for tests. Returns null if the counts agree.
  const char* Inconsistency() const;

 private:
  using BlockId = std::int32_t;

  struct Block {
    std::int32_t holders = 0;
    std::uint64_t hash = 0;  // 0: not published
    std::list<BlockId>::iterator idle = {};
  };

  struct Holding {
    std::vector<BlockId> table;  // in the arena
    std::vector<BlockId> cpu;  // blocks in the second arena
    std::vector<std::uint64_t> chain;  // hashes of published or later published blocks
    std::size_t published = 0;  // leading blocks of the table
    std::vector<BlockId> promised;  // found by CachedTokens, for Reserve
  };

  static takt::Blocks Count(std::size_t n) { return {static_cast<std::int32_t>(n)}; }
  takt::Tokens TokensOf(std::size_t blocks) const { return {static_cast<std::int32_t>(blocks * block_tokens_)}; }
  Block& At(BlockId id) { return blocks_[static_cast<std::size_t>(id)]; }
  takt::Tokens Promise(const takt::Request& request);
  float* Numbers(std::vector<float>& arena, BlockId id) const {
    return arena.data() + static_cast<std::size_t>(id) * block_floats_;
  }
  BlockId Take();
  void Hold(BlockId id);
  void LetGo(BlockId id);
  void Shrink(Holding& holding, std::size_t blocks);

  std::size_t block_floats_, block_tokens_;
  bool prefix_cache_;
  bool stops_at_others_;
  std::vector<float> gpu_, cpu_;
  std::vector<Block> blocks_;
  std::vector<BlockId> free_, cpu_free_;
  std::list<BlockId> idle_;  // published and without holder, least recently used first
  std::unordered_map<std::uint64_t, BlockId> by_hash_;
  std::unordered_map<takt::RequestId, Holding> holdings_;
  std::int64_t reused_tokens_ = 0, evicted_blocks_ = 0;
};

}  // namespace tiny

#endif  // TAKT_INTEGRATIONS_SERVER_TINY_ENGINE_KV_MEMORY_H_
