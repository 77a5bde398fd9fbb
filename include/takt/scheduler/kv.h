// BasicScheduler, continued: the KV of requests, from the ledger or an oracle.
#ifndef TAKT_SCHEDULER_KV_H_
#define TAKT_SCHEDULER_KV_H_

#include "takt/basic_scheduler.h"

namespace takt {

// Blocks that hold its known tokens. Sequences share the blocks of the prompt that they cannot write to.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::BlocksFor(const Record& record) const {
  if (kv_.block_tokens == 0) return 0;
  const std::int32_t n = Sequences(record);
  if (n == 1) return (record.known + kv_.block_tokens - 1) / kv_.block_tokens;
  const std::int32_t generated = record.state.generated.value;
  const std::int32_t base = record.known - n * generated;
  return base / kv_.block_tokens +
         n * ((base % kv_.block_tokens + generated + kv_.block_tokens - 1) / kv_.block_tokens);
}

// Known tokens that fit into so many blocks; the inverse of BlocksFor. What the sequences cannot share evenly is spare.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::CapacityOf(const Record& record, std::int32_t blocks) const {
  if (kv_.block_tokens == 0) return std::numeric_limits<std::int32_t>::max();
  const std::int32_t n = Sequences(record);
  if (n == 1) return blocks * kv_.block_tokens;
  const std::int32_t base = record.known - n * record.state.generated.value;
  return base + n * ((blocks - base / kv_.block_tokens) / n * kv_.block_tokens - base % kv_.block_tokens);
}

// What the oracle has; asked again only after a change that this call has made.
template <RankPolicy Policy, PausePolicy Pause>
const KvSnapshot& BasicScheduler<Policy, Pause>::HostsKv() const {
  if (!kv_.counted) kv_.snapshot = kv_.oracle->Snapshot(), kv_.counted = true;
  return kv_.snapshot;
}

template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::TotalBlocks() const {
  if (kv_.oracle != nullptr) return HostsKv().total.value;
  return Counts() ? kv_.ledger.total() : std::numeric_limits<std::int32_t>::max();
}

// Blocks that admissions may still take.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::FreeBlocks() const {
  if (kv_.oracle != nullptr) return HostsKv().free.value - round_.blocks();
  return Counts() ? kv_.ledger.free() : std::numeric_limits<std::int32_t>::max();
}

// Blocks that will be free soon.
template <RankPolicy Policy, PausePolicy Pause>
std::int64_t BasicScheduler<Policy, Pause>::Pending() const {
  return counts_.leaving_blocks + (kv_.oracle != nullptr ? HostsKv().pending.value : 0);
}

template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::ChunkBlocks(const Record& record) const {
  return kv_.ledger.ChunkBlocks(record.state.request.prefix);
}

// Of the prefix chunks first..last-1.
template <RankPolicy Policy, PausePolicy Pause>
std::span<const std::uint64_t> BasicScheduler<Policy, Pause>::Hashes(const Record& record, std::int32_t first,
                                                                     std::int32_t last) const {
  const std::span<const std::uint64_t> hashes = record.state.request.prefix.hashes;
  return std::span(hashes).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
}

// Whether there is anything to swap: KV beyond prefix chunks that others may share.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::HasOwnKv(const Record& record, std::int32_t blocks, std::int32_t computed) const {
  const std::int32_t chunks = record.shared_chunks;
  return blocks > 0 && computed > (chunks > 0 ? chunks * record.state.request.prefix.block_tokens.value : 0);
}

// Gives back the GPU's blocks of a request without a lane; its tokens have to be computed again.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::FreeKv(Record& record, KvAction action) {
  record.was_computed = std::max(record.was_computed, record.computed);
  record.computed = 0;
  ++held_.changes;
  if (record.blocks == 0) return;
  if (kv_.oracle != nullptr) {
    kv_.oracle->Release(record.state.request.id, action);
    kv_.counted = false;
  } else if (Counts()) {
    std::int32_t shared = 0;
    if (record.shared_chunks > 0) {
      shared = record.shared_chunks * ChunkBlocks(record);
      kv_.ledger.Release(Hashes(record, 0, record.shared_chunks), ChunkBlocks(record), TurnOf(record));
      record.shared_chunks = 0;
      if (Holds()) TurnReleased(record);
    }
    kv_.ledger.Free(record.blocks - shared);
  }
  record.blocks = 0;
}

// A place in the host's memory for blocks that are to move out.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AllocateCpu(Record& record, std::int32_t blocks) {
  record.cpu_blocks = blocks;
  kv_.ledger.AllocateCpu(blocks);
  budget_.swap_out -= blocks;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::FreeCpu(Record& record) {
  kv_.ledger.FreeCpu(record.cpu_blocks);
  record.cpu_blocks = 0;
}

// It waits with KV of its own, perhaps.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::NoteKept(Slot slot) {
  Record& record = table_[slot];
  if (record.status != RequestStatus::kWaiting || record.lane != kNoLane || record.blocks == 0) return;
  const std::int32_t need = std::max(BlocksFor(record) - record.blocks, 0);
  kept_.CameBack(slot, need, record.came_back);
}

// Once a plan: those whose KV may be dropped for others.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::RankHolders() {
  const auto holds = [this](Slot slot) {
    Record& record = table_[slot];
    return record.holds = record.blocks > 0 && record.lane == kNoLane;
  };
  kept_.Rank(steps_.last(), holds, [this](Slot slot) -> std::optional<internal::KeptKv::Holder> {
    const Record& record = table_[slot];
    if (record.transit != Transit::kNone) return std::nullopt;
    return {{record.status == RequestStatus::kWaiting, queue_.VictimRankOf(record.state, now_), slot, record.blocks}};
  });
}

// Drops KV that is kept for a request which does not run: the worst of those that wait, and where none does and not
// only they are `waiting`, of those that are paused or blocked; never of `spared`. False where there is none.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Reclaim(Slot spared, bool waiting) {
  if (waiting && kept_.nobody_came_back()) return false;
  RankHolders();
  return kept_.DropWorst(spared, waiting, [this](Slot slot) {
    Record& record = table_[slot];
    // It has got a lane since, or has ended, and somebody reads its KV, perhaps.
    if (record.blocks == 0 || record.lane != kNoLane || record.transit != Transit::kNone) return false;
    ++stats_.kv_reclaimed;
    FreeKv(record);
    NoteJoined(slot);  // it would start elsewhere, and a chunk from there may fit
    return true;
  });
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PublishPrefix(const Row& row, Record& record) {
  const std::int32_t chunk_blocks = ChunkBlocks(record);
  if (chunk_blocks == 0) return;
  const PrefixBlocks& prefix = record.state.request.prefix;
  const std::int32_t whole =
      std::min(row.computed, record.state.request.prompt_tokens.value) / prefix.block_tokens.value;
  const std::int32_t last = std::min(whole, static_cast<std::int32_t>(prefix.hashes.size()));
  while (record.shared_chunks < last) {
    if (!kv_.ledger.Publish(Hashes(record, 0, record.shared_chunks + 1), chunk_blocks)) {
      return leaders_.Leave(record.lane);  // another has
    }
    ++record.shared_chunks;
  }
  LeadPrefix(record);
}

// Requests with the same prefix may wait for the next chunk of this row, whose prompt has chunks.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::LeadPrefix(const Record& record) {
  leaders_.Leave(record.lane);
  const Request& r = record.state.request;
  const std::int32_t chunk = record.shared_chunks, tokens = r.prefix.block_tokens.value;
  if (chunk >= r.prompt_tokens.value / tokens || std::cmp_greater_equal(chunk, r.prefix.hashes.size())) return;
  if (running_.Stored(record.lane).computed / tokens > chunk) return;  // it has computed that chunk before
  leaders_.Lead(record.lane, r.prefix.hashes[static_cast<std::size_t>(chunk)]);
}

// One more block per sequence, if the ledger has them.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Grow(Row& row) {
  const std::int32_t n = row.sequences;
  if (!Counts() || kv_.ledger.free() < n) return false;
  kv_.ledger.Allocate(n);
  row.blocks += n;
  row.capacity += n * kv_.block_tokens;
  row.ceiling = std::min(row.capacity, row.cap - 1);
  return true;
}

// Room for `want` tokens of context in a row that runs, from blocks that are free. False: there are too few.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::SpareRoom(std::uint32_t lane, std::int32_t want) {
  Row& row = running_[lane];
  const std::int32_t blocks = row.blocks, capacity = row.capacity, n = row.sequences;  // held
  while (row.capacity < want) {
    if (Grow(row)) continue;
    if (kv_.oracle == nullptr) return false;
    if (HostsKv().free.value < n + (row.blocks - blocks) + round_.blocks()) {
      row.blocks = blocks, row.capacity = capacity;  // nothing was asked for yet
      return false;
    }
    row.blocks += n;
    row.capacity += n * kv_.block_tokens;
  }
  if (kv_.oracle != nullptr) {
    row.ceiling = std::min(row.capacity, row.cap - 1);
    round_.AddRow(lane, {row.request, {blocks * kv_.block_tokens}, {row.blocks * kv_.block_tokens}, false, false},
                  row.blocks - blocks);
  }
  return true;
}

// The same, also at the cost of others. False: not in this step; a row may have been preempted, the asking one
// included.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Room(std::uint32_t lane, std::int32_t want) {
  if (kv_.block_tokens == 0) return true;
  const Slot slot = running_.Stored(lane).slot;
  while (!SpareRoom(lane, want)) {
    const Row& row = running_[lane];
    const std::int32_t n = row.sequences;
    draft_.short_of_kv = true;
    ++stats_.kv_stalls;
    const std::int32_t free = FreeBlocks();  // what is more then may be enough for rows that were left out before
    if (row.blocks + n > TotalBlocks()) {
      Unplan(lane);
      Fail(slot, FailReason::kKvExhausted);
      draft_.displaced |= FreeBlocks() > free;
      return false;
    }
    // Memory that is about to be free makes a further victim pointless.
    if (Pending() >= n) return false;
    // A waiting request can be computed again at no loss to those that run; not where an oracle is to be asked to let
    // it in.
    if (round_.candidates() == 0 && Reclaim(kNoSlot, true)) {
      draft_.displaced |= FreeBlocks() > free;
      continue;
    }
    if (options_.preempt == PreemptMode::kOff) return false;
    const std::uint32_t victim = Worst(true);
    if (victim == kNoLane) return false;
    // Its own steps in flight would be void: it would give way and come back, and never get further.
    if (victim == lane && running_[lane].in_flight > 0) return false;
    Preempt(victim, false);
    draft_.displaced |= FreeBlocks() > free;
    if (victim == lane) return false;
  }
  return true;
}

// A row does not get what was wished for it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::WithdrawBlocks(Row& row, const KvReservation& wish) {
  const std::int32_t blocks = (wish.want.value - wish.have.value) / kv_.block_tokens;
  round_.Less(blocks);
  row.blocks -= blocks;
  row.capacity -= blocks * kv_.block_tokens;
  row.ceiling = std::min(row.capacity, row.cap - 1);
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_KV_H_
