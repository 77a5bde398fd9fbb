// KV blocks, from the ledger or from an oracle.
#ifndef TAKT_SCHEDULER_KV_H_
#define TAKT_SCHEDULER_KV_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "takt/kv/kv_ledger.h"
#include "takt/kv/kv_oracle.h"
#include "takt/scheduler/oracle_round.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Invariant: a running row has room for row.capacity tokens in row.blocks blocks.
class Kv {
 public:
  Kv(EngineState& s, KvOracle* of_host)
      : ledger(s.options.kv_blocks, s.options.kv_block_tokens, s.options.cpu_blocks,
               s.options.prefix_cache && s.options.kv == KvMode::kLedger, s.options.prefix_cpu_blocks),
        oracle(of_host),
        s_(s) {
    if (Counts()) {
      block_tokens = s.options.kv_block_tokens.value;
      ReadWatermark();
    }
    if (oracle != nullptr) block_tokens = oracle->block_tokens().value;
  }

  void ReadWatermark() {
    if (Counts()) watermark = static_cast<std::int32_t>(s_.options.kv_watermark * s_.options.kv_blocks.value);
  }
  bool Counts() const { return s_.options.kv == KvMode::kLedger; }
  // Discards the snapshot, because the oracle's memory may have changed.
  void CountAgain() { counted_ = false; }
  // Blocks of the host's cache in the oracle's last snapshot.
  Blocks last_total() const { return snapshot_.total; }

  // Returns the blocks needed for the request's known tokens. Parallel sequences share the full blocks of the prompt.
  std::int32_t BlocksFor(const Record& record) const {
    if (block_tokens == 0) return 0;
    const std::int32_t n = s_.Sequences(record);
    if (n == 1) return (record.known + block_tokens - 1) / block_tokens;
    const std::int32_t generated = record.state.generated.value;
    const std::int32_t base = record.known - n * generated;
    return base / block_tokens + n * ((base % block_tokens + generated + block_tokens - 1) / block_tokens);
  }

  // Returns the known tokens that fit into this many blocks; the inverse of BlocksFor. Blocks that the sequences cannot
  // share evenly stay unused.
  std::int32_t CapacityOf(const Record& record, std::int32_t blocks) const {
    if (block_tokens == 0) return std::numeric_limits<std::int32_t>::max();
    const std::int32_t n = s_.Sequences(record);
    if (n == 1) return blocks * block_tokens;
    const std::int32_t base = record.known - n * record.state.generated.value;
    return base + n * ((blocks - base / block_tokens) / n * block_tokens - base % block_tokens);
  }

  // Returns the oracle's snapshot. Takes a new snapshot only if this call may have changed the oracle's memory.
  const KvSnapshot& HostsKv() const {
    if (!counted_) snapshot_ = oracle->Snapshot(), counted_ = true;
    return snapshot_;
  }

  std::int32_t TotalBlocks() const {
    if (oracle != nullptr) return HostsKv().total.value;
    return Counts() ? ledger.total() : std::numeric_limits<std::int32_t>::max();
  }

  // Returns the number of blocks that admissions may still take.
  std::int32_t FreeBlocks() const {
    if (oracle != nullptr) return HostsKv().free.value - round.blocks();
    return Counts() ? ledger.free() : std::numeric_limits<std::int32_t>::max();
  }

  // Returns the number of blocks that will be free soon.
  std::int64_t Pending() const { return s_.counts.leaving_blocks + (oracle != nullptr ? HostsKv().pending.value : 0); }

  std::int32_t ChunkBlocks(const Record& record) const { return ledger.ChunkBlocks(record.state.request.prefix); }

  // Returns the hashes of the prefix chunks first .. last - 1.
  std::span<const std::uint64_t> Hashes(const Record& record, std::int32_t first, std::int32_t last) const {
    const std::span<const std::uint64_t> hashes = record.state.request.prefix.hashes;
    return std::span(hashes).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  }

  // Returns true if there is KV to swap, beyond prefix chunks that other requests may share.
  bool HasOwnKv(const Record& record, std::int32_t blocks, std::int32_t computed) const {
    const std::int32_t chunks = record.shared_chunks;
    return blocks > 0 && computed > (chunks > 0 ? chunks * record.state.request.prefix.block_tokens.value : 0);
  }

  // Reserves host memory for blocks that will move out.
  void AllocateCpu(Record& record, std::int32_t blocks) {
    record.cpu_blocks = blocks;
    ledger.AllocateCpu(blocks);
    s_.budget.swap_out -= blocks;
  }

  void FreeCpu(Record& record) {
    ledger.FreeCpu(record.cpu_blocks);
    record.cpu_blocks = 0;
  }

  // Adds one block per sequence, if the ledger has them.
  bool Grow(Row& row) {
    const std::int32_t n = row.sequences;
    if (!Counts() || ledger.free() < n) return false;
    ledger.Allocate(n);
    row.blocks += n;
    row.capacity += n * block_tokens;
    row.ceiling = std::min(row.capacity, row.cap - 1);
    return true;
  }

  // Removes the blocks of a withdrawn reservation from its row.
  void WithdrawBlocks(Row& row, const KvReservation& wish) {
    const std::int32_t blocks = (wish.want.value - wish.have.value) / block_tokens;
    round.Less(blocks);
    row.blocks -= blocks;
    row.capacity -= blocks * block_tokens;
    row.ceiling = std::min(row.capacity, row.cap - 1);
  }

  KvLedger ledger;
  KvOracle* const oracle;
  OracleRound round;  // reservations of this plan
  std::int32_t block_tokens = 0;  // block size of the ledger or the oracle; 0: KV is not counted
  std::int32_t watermark = 0;  // number of blocks that admissions leave free
  std::uint64_t changes = 0;  // number of changes that may change the oracle's answers
  std::uint64_t freed_at = 0;  // plan number at which the host last freed KV

 private:
  EngineState& s_;
  mutable KvSnapshot snapshot_ = {};  // last snapshot of the oracle, valid within a call
  mutable bool counted_ = false;  // true: the snapshot is current
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_KV_H_
