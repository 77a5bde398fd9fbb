// Prefix chunks that requests find in the cache, publish, or wait for.
#ifndef TAKT_SCHEDULER_PREFIXES_H_
#define TAKT_SCHEDULER_PREFIXES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <utility>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/prefix_leaders.h"
#include "takt/scheduler/gate.h"

namespace takt::internal {

// Invariant: a running request refers to record.shared_chunks chunks in the ledger. A lane leads at most one chunk, the
// next chunk that the lane's row computes.
class Prefixes {
 public:
  Prefixes(EngineState& s, Kv& kv, Gate& gate) : s_(s), kv_(kv), gate_(gate) {}

  void KeyHashes(std::uint64_t seed) { leaders_.KeyHashes(seed); }
  void Reserve(std::size_t lanes) { leaders_.Reserve(lanes); }
  // Withdraws the chunk that the row of this lane leads.
  void Leave(std::uint32_t lane) { leaders_.Leave(lane); }
  // Returns the number of prompt chunks that may be reused. The last token is always computed, because the first output
  // token is sampled from it.
  static std::int32_t UsableChunks(const Request& r) {
    return std::min(static_cast<std::int32_t>(r.prefix.hashes.size()),
                    (r.prompt_tokens.value - 1) / r.prefix.block_tokens.value);
  }
  bool AwaitedPrefix(const Record& record) const {
    return record.prefix_seen_at > 0 && record.prefix_seen_at + 1 >= s_.stats.plans;
  }
  std::uint64_t& HitsOf(const Record& record) {
    return record.recovers ? s_.stats.tokens_recovered : s_.stats.tokens_cached;
  }

  // Returns the part of a request's prompt in the prefix cache.
  PrefixHit HitOf(const Record& record) const {
    const Request& r = record.state.request;
    if (record.computed > 0 || record.blocks > 0 || record.cpu_blocks > 0) return {};
    const std::int32_t chunk_blocks = kv_.ChunkBlocks(record);
    if (chunk_blocks == 0 || !kv_.Counts()) return {};
    return kv_.ledger.Find(kv_.Hashes(record, 0, UsableChunks(r)), chunk_blocks);
  }

  // Returns the number of a prompt's chunks in host memory; 0 if the request has KV or may not load them.
  std::int32_t CopiesOf(const Record& record) const {
    if (kv_.ledger.copies() == nullptr) return 0;
    const Request& r = record.state.request;
    if (record.computed > 0 || record.blocks > 0 || record.cpu_blocks > 0) return 0;
    const std::int32_t chunk_blocks = kv_.ChunkBlocks(record);
    if (chunk_blocks == 0) return 0;
    return kv_.ledger.FindCopies(kv_.Hashes(record, 0, UsableChunks(r)), chunk_blocks);
  }

  // Returns the number of prompt tokens that are cached in any tier.
  std::int32_t CachedTokensOf(const Record& record) const {
    return std::max(HitOf(record).chunks, CopiesOf(record)) * record.state.request.prefix.block_tokens.value;
  }

  // Returns the number of blocks of a cache hit that other requests also use. Idle chunks count as free memory until
  // they are reused.
  std::int32_t SharedBlocks(const Record& record, const PrefixHit& hit) const {
    return hit.chunks > hit.idle ? (hit.chunks - hit.idle) * kv_.ChunkBlocks(record) : 0;
  }

  // Returns the number of blocks that must be free to admit a waiting request.
  std::int32_t BlocksNeeded(const Record& record, const PrefixHit& hit) const {
    return std::max({kv_.BlocksFor(record), record.blocks, record.cpu_blocks}) - record.blocks -
           SharedBlocks(record, hit);
  }

  // Returns the number of tokens whose KV arrived from elsewhere, without the last token, which is always computed.
  std::int32_t ArrivedOf(const Record& record) const {
    const Request& r = record.state.request;
    return std::min(record.arrived, (r.sequences == 1 ? record.known : r.prompt_tokens.value) - 1);
  }

  void PublishPrefix(const Row& row, Record& record) {
    const std::int32_t chunk_blocks = kv_.ChunkBlocks(record);
    if (chunk_blocks == 0) return;
    const PrefixBlocks& prefix = record.state.request.prefix;
    const std::int32_t whole =
        std::min(row.computed, record.state.request.prompt_tokens.value) / prefix.block_tokens.value;
    const std::int32_t last = std::min(whole, static_cast<std::int32_t>(prefix.hashes.size()));
    while (record.shared_chunks < last) {
      if (!kv_.ledger.Publish(kv_.Hashes(record, 0, record.shared_chunks + 1), chunk_blocks)) {
        return leaders_.Leave(record.lane);  // another request published the chunk
      }
      ++record.shared_chunks;
    }
    LeadPrefix(record);
  }

  // Lets requests with the same prefix wait for the next chunk of this row. Its prompt must have chunks.
  void LeadPrefix(const Record& record) {
    leaders_.Leave(record.lane);
    const Request& r = record.state.request;
    const std::int32_t chunk = record.shared_chunks, tokens = r.prefix.block_tokens.value;
    if (chunk >= r.prompt_tokens.value / tokens || std::cmp_greater_equal(chunk, r.prefix.hashes.size())) return;
    if (s_.running.Stored(record.lane).computed / tokens > chunk) return;  // the row computed that chunk before
    leaders_.Lead(record.lane, r.prefix.hashes[static_cast<std::size_t>(chunk)]);
  }

  // Returns true if the request should wait for a running request that computes a common prefix. `found`: number of the
  // prompt's chunks in the cache. The running row must be in flight. The wait for one chunk lasts at most `prefix_wait`
  // steps. The prompt must have chunks. O(log chunks).
  bool AwaitsPrefix(Record& record, std::int32_t found) {
    const Request& r = record.state.request;
    if (s_.options.prefix_wait == 0 || record.state.taken || record.blocks > 0 || record.arrived > 0) return false;
    const std::int32_t tokens = r.prefix.block_tokens.value, chunks = UsableChunks(r);
    if (found >= chunks) return false;
    const std::uint32_t lane = leaders_.Find(r.prefix.hashes[static_cast<std::size_t>(found)]);
    if (lane == kNoLane) return false;
    const Row row = s_.running.Look(lane);
    const Request& leader = s_.table[row.slot].state.request;
    if (!s_.Runs(row) || (row.in_flight & Row::kCounting) == 0 || leader.prefix.block_tokens.value != tokens)
      return false;
    // A chunk's hash covers all earlier chunks, so the common chunks come first.
    const auto most = std::min(static_cast<std::size_t>(chunks), leader.prefix.hashes.size());
    const auto shared = static_cast<std::size_t>(
        *std::ranges::partition_point(std::views::iota(std::size_t{0}, most),
                                      [&](std::size_t i) { return r.prefix.hashes[i] == leader.prefix.hashes[i]; }));
    const std::int64_t to_come = (static_cast<std::int64_t>(shared) - found) * tokens;
    if (to_come * kLeastShare < record.known - found * tokens) return false;
    if (record.prefix_since == 0 || found > record.prefix_chunks) {
      record.prefix_chunks = found;
      record.prefix_since = s_.stats.commits + 1;
    }
    if (std::cmp_greater_equal(s_.stats.commits + 1 - record.prefix_since, s_.options.prefix_wait)) return false;
    record.prefix_seen_at = s_.stats.plans;
    return true;
  }

  // Counts the cached tokens of a request that is about to run. `cached`: tokens in the prefix cache; `there`: tokens
  // in any tier. The gate does not count a request that ran before, because it may find its own blocks.
  void CountHits(Record& record, std::int32_t cached, std::int32_t there) {
    record.recovers = record.state.taken;
    HitsOf(record) += static_cast<std::uint64_t>(std::max(cached, 0));
    if (record.recovers) return;
    gate_.CountHits(record.known, there);
  }

 private:
  // Inverse of the minimum share of a request's work that a wait for a prefix must save.
  static constexpr std::int64_t kLeastShare = 8;

  EngineState& s_;
  Kv& kv_;
  Gate& gate_;
  PrefixLeaders leaders_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_PREFIXES_H_
