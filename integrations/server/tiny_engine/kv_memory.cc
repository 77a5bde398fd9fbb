#include "kv_memory.h"

#include <algorithm>
#include <numeric>

#include "takt/config.h"

namespace tiny {

KvMemory::KvMemory(std::size_t block_floats, takt::Tokens block_tokens, takt::Blocks gpu_blocks,
                   takt::Blocks cpu_blocks, bool prefix_cache, bool scheduler_counts)
    : block_floats_(block_floats),
      block_tokens_(static_cast<std::size_t>(block_tokens.value)),
      prefix_cache_(prefix_cache),
      stops_at_others_(scheduler_counts),
      gpu_(block_floats * static_cast<std::size_t>(gpu_blocks.value)),
      cpu_(block_floats * static_cast<std::size_t>(cpu_blocks.value)),
      blocks_(static_cast<std::size_t>(gpu_blocks.value)),
      free_(blocks_.size()),
      cpu_free_(static_cast<std::size_t>(cpu_blocks.value)) {
  std::iota(free_.rbegin(), free_.rend(), 0);
  std::iota(cpu_free_.rbegin(), cpu_free_.rend(), 0);
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

// Returns a block for new content; one must be free.
KvMemory::BlockId KvMemory::Take() {
  if (free_.empty()) {
    Block& oldest = At(idle_.front());
    by_hash_.erase(oldest.hash);
    oldest.hash = 0;
    free_.push_back(idle_.front());
    idle_.pop_front();
    ++evicted_blocks_;
  }
  const BlockId id = free_.back();
  free_.pop_back();
  At(id).holders = 1;
  return id;
}

void KvMemory::Hold(BlockId id) {
  Block& block = At(id);
  if (block.holders++ == 0) idle_.erase(block.idle);
}

void KvMemory::LetGo(BlockId id) {
  Block& block = At(id);
  TAKT_ASSERT(block.holders > 0);
  if (--block.holders > 0) return;
  if (block.hash == 0) {
    free_.push_back(id);
  } else {
    block.idle = idle_.insert(idle_.end(), id);
  }
}

// Frees blocks from the end, so that the beginning of a cached prefix lives longest.
void KvMemory::Shrink(Holding& holding, std::size_t blocks) {
  while (holding.table.size() > blocks) {
    LetGo(holding.table.back());
    holding.table.pop_back();
  }
  holding.published = std::min(holding.published, blocks);
}

// ---- the scheduler's questions --------------------------------------------------------------------------------------

// Counts only whole blocks, and never the last token, which is computed for sampling. So no request writes to a shared
// block.
void KvMemory::CachedTokens(std::span<takt::KvHit> hits) {
  for (takt::KvHit& hit : hits) hit.tokens = Promise(*hit.request);
}

takt::Tokens KvMemory::Promise(const takt::Request& request) {
  Holding& holding = holdings_[request.id];
  holding.promised.clear();
  if (!prefix_cache_ || request.prefix.hashes.empty()) return {0};
  const auto most = static_cast<std::size_t>(request.prompt_tokens.value - 1) / block_tokens_;
  for (std::uint64_t hash : request.prefix.hashes) {
    const auto found = by_hash_.find(hash);
    if (holding.promised.size() == most || found == by_hash_.end()) break;
    holding.promised.push_back(found->second);
  }
  return TokensOf(holding.promised.size());
}

void KvMemory::Reserve(takt::StepId, std::span<takt::KvReservation> wishes) {
  // Hold the blocks that this plan was promised first, so that no other request evicts them.
  for (const takt::KvReservation& wish : wishes) {
    Holding& holding = holdings_[wish.request];
    if (!holding.table.empty() || !holding.cpu.empty()) holding.promised.clear();
    for (BlockId id : holding.promised) Hold(id);
  }
  for (takt::KvReservation& wish : wishes) {
    Holding& holding = holdings_[wish.request];
    const std::size_t blocks = (static_cast<std::size_t>(wish.want.value) + block_tokens_ - 1) / block_tokens_;
    const std::size_t held = holding.table.size() + holding.promised.size();
    wish.granted = blocks <= held + free_.size() + idle_.size();
    if (wish.granted) {
      reused_tokens_ += TokensOf(holding.promised.size()).value;
      holding.table.insert(holding.table.end(), holding.promised.begin(), holding.promised.end());
      holding.published = std::max(holding.published, holding.promised.size());
      while (holding.table.size() < blocks) holding.table.push_back(Take());
    } else {
      for (BlockId id : holding.promised) LetGo(id);
    }
    holding.promised.clear();
  }
}

takt::Blocks KvMemory::Release(takt::RequestId request, takt::KvAction) {
  const takt::Blocks before = free_blocks();
  Shrink(holdings_[request], 0);
  return free_blocks() - before;
}

// ---- KvMode::kLedger ------------------------------------------------------------------------------------------------

void KvMemory::Room(takt::RequestId request, std::span<const std::int32_t> prompt, std::int32_t cached,
                    std::int32_t tokens) {
  Holding& holding = holdings_[request];
  ExtendChain(holding.chain, prompt, block_tokens_);
  if (holding.table.empty()) {
    const auto shared = static_cast<std::size_t>(cached) / block_tokens_;
    for (std::size_t i = 0; i < shared; ++i) {
      holding.table.push_back(by_hash_.at(holding.chain[i]));
      Hold(holding.table.back());
    }
    holding.published = shared;
    reused_tokens_ += TokensOf(shared).value;
  }
  const std::size_t blocks = (static_cast<std::size_t>(tokens) + block_tokens_ - 1) / block_tokens_;
  while (holding.table.size() < blocks) holding.table.push_back(Take());
}

void KvMemory::Free(takt::RequestId request) {
  const auto found = holdings_.find(request);
  if (found != holdings_.end()) Shrink(found->second, 0);
}

void KvMemory::Drop(std::uint64_t hash) {
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return;
  const BlockId id = found->second;
  by_hash_.erase(found);
  Block& block = At(id);
  block.hash = 0;
  if (block.holders > 0) return;
  idle_.erase(block.idle);
  free_.push_back(id);
}

// ---- the engine's ---------------------------------------------------------------------------------------------------

std::span<const std::int32_t> KvMemory::table(takt::RequestId request) const {
  const auto found = holdings_.find(request);
  return found == holdings_.end() ? std::span<const std::int32_t>() : found->second.table;
}

bool KvMemory::swapped_out(takt::RequestId request) const {
  const auto found = holdings_.find(request);
  return found != holdings_.end() && !found->second.cpu.empty();
}

void KvMemory::Publish(takt::RequestId request, std::span<const std::int32_t> context, std::size_t computed) {
  if (!prefix_cache_) return;
  Holding& holding = holdings_[request];
  ExtendChain(holding.chain, context, block_tokens_);
  for (; (holding.published + 1) * block_tokens_ <= computed; ++holding.published) {
    Block& block = At(holding.table[holding.published]);
    const std::uint64_t hash = holding.chain[holding.published];
    // If another request published this block first, this copy stays private. If the scheduler counts blocks, all later
    // blocks stay private, too.
    if (by_hash_.emplace(hash, holding.table[holding.published]).second) block.hash = hash;
    else if (stops_at_others_) break;
  }
}

void KvMemory::CopyOut(takt::RequestId request, takt::Blocks count) {
  Holding& holding = holdings_[request];
  for (std::size_t i = 0; i < static_cast<std::size_t>(count.value); ++i) {
    holding.cpu.push_back(cpu_free_.back());
    cpu_free_.pop_back();
    std::copy_n(Numbers(gpu_, holding.table[i]), block_floats_, Numbers(cpu_, holding.cpu[i]));
  }
}

void KvMemory::CopyIn(takt::RequestId request) {
  Holding& holding = holdings_[request];
  for (std::size_t i = 0; i < holding.cpu.size(); ++i) {
    std::copy_n(Numbers(cpu_, holding.cpu[i]), block_floats_, Numbers(gpu_, holding.table[i]));
  }
  cpu_free_.insert(cpu_free_.end(), holding.cpu.begin(), holding.cpu.end());
  holding.cpu.clear();
}

void KvMemory::Forget(takt::RequestId request) {
  const auto found = holdings_.find(request);
  if (found == holdings_.end()) return;
  Shrink(found->second, 0);
  cpu_free_.insert(cpu_free_.end(), found->second.cpu.begin(), found->second.cpu.end());
  holdings_.erase(found);
}

const char* KvMemory::Inconsistency() const {
  std::vector<std::int32_t> holders(blocks_.size());
  std::size_t cpu = 0, findable = 0;
  for (const auto& [request, holding] : holdings_) {
    for (BlockId id : holding.table) ++holders[static_cast<std::size_t>(id)];
    cpu += holding.cpu.size();
  }
  std::size_t unheld = 0;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].holders != holders[i]) return "the number of a block's holders is wrong";
    unheld += holders[i] == 0 ? 1u : 0u;
    findable += blocks_[i].hash != 0 ? 1u : 0u;
  }
  if (unheld != free_.size() + idle_.size()) return "a block is lost";
  if (findable != by_hash_.size()) return "the prefix cache misses a cached block";
  if (cpu + cpu_free_.size() != cpu_.size() / block_floats_) return "a block of the host memory is lost";
  return nullptr;
}

}  // namespace tiny
