// Handlers of events about KV: arrived, lost, moved, pinned or freed.
#ifndef TAKT_SCHEDULER_KV_EVENTS_H_
#define TAKT_SCHEDULER_KV_EVENTS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "takt/scheduler/faults.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/search_memory.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Invariant: each reported move ends once. Tokens whose KV is lost are computed again.
class KvEvents {
 public:
  KvEvents(EngineState& s, Faults& faults, Kv& kv, SearchMemory& memory, Prefixes& prefixes, RestingKv& resting,
           Lives& lives)
      : s_(s), faults_(faults), kv_(kv), memory_(memory), prefixes_(prefixes), resting_(resting), lives_(lives) {}

  void Handle(const MoveDone& e, TimePoint) {
    const std::optional<Move> move = resting_.moves().End(e.move);
    if (!move) {
      return faults_.Blame(&Stats::events_unknown,
                           {.kind = FaultKind::kUnknownMove, .received = static_cast<std::int64_t>(e.move.value)});
    }
    const Slot slot = move->slot;
    if (e.failed) ++s_.stats.moves_failed;

    Record& record = s_.table[slot];
    record.transit = Transit::kNone;
    if (move->action == KvAction::kOut) {
      const std::int32_t computed = record.computed;
      s_.counts.leaving_blocks -= record.blocks;
      resting_.FreeKv(record, KvAction::kOut);
      if (e.failed) {
        kv_.FreeCpu(record);
      } else {
        record.computed = computed;
      }
      if (record.status == RequestStatus::kDead) kv_.FreeCpu(record), lives_.Release(slot);
      memory_.NoteJoined(slot);
      return;
    }
    if (move->action == KvAction::kFetch) return Fetched(slot, e.failed);
    kv_.FreeCpu(record);
    Row& row = s_.running[record.lane];
    if (e.failed) {
      record.was_computed = std::max(record.was_computed, row.computed);
      row.computed = row.scheduled = 0;
    }
    if (row.state == RowState::kLeaving) return lives_.Settle(slot);
    row.state = RowState::kUnsteady;
    s_.Refresh(row, record);
  }

  void Handle(const KvArrived& e, TimePoint) {
    const Slot slot = faults_.Living(e.request);
    if (slot == kNoSlot) return;
    if (s_.table[slot].status == RequestStatus::kRunning || e.computed.value < 0) {
      faults_.OutOfPlace(e.request);
      return;
    }
    s_.table[slot].arrived = e.computed.value;
    memory_.NoteJoined(slot);
  }

  void Handle(const KvLost& e, TimePoint) {
    const Slot slot = e.request ? faults_.Living(e.request) : kNoSlot;
    if (e.request && slot == kNoSlot) return;
    if (e.from.value < 0) {
      faults_.OutOfPlace(e.request);
      return;
    }
    if (slot != kNoSlot) return LoseKv(slot, e.from.value);
    if (kv_.Counts()) kv_.ledger.SpoilAll();
    for (Slot each = 0; each < s_.table.slots(); ++each) {
      const RequestStatus status = s_.table[each].status;
      if (status != RequestStatus::kUnknown && status != RequestStatus::kDead) LoseKv(each, e.from.value);
    }
  }

  void Handle(const KvPinned& e, TimePoint) {
    const Slot slot = s_.table.Find(e.request);
    if (slot == kNoSlot) {
      faults_.UnknownRequest(e.request);
      return;
    }
    Record& record = s_.table[slot];
    const bool over = record.status == RequestStatus::kDead && record.transit == Transit::kNone;
    if (over || std::exchange(record.pinned, true)) faults_.OutOfPlace(e.request);
  }

  void Handle(const KvFreed& e, TimePoint) {
    kv_.freed_at = s_.stats.plans, ++kv_.changes;
    if (!e.request) return;
    const Slot slot = s_.table.Find(e.request);
    if (slot == kNoSlot) {
      faults_.UnknownRequest(e.request);
      return;
    }
    Record& record = s_.table[slot];
    if (!std::exchange(record.pinned, false)) {
      faults_.OutOfPlace(e.request);
      return;
    }
    if (record.transit != Transit::kPinned) return;
    record.transit = Transit::kNone;
    --s_.counts.pinned;
    s_.counts.leaving_blocks -= record.blocks;
    lives_.EndedAt(slot);
  }

 private:
  // Drops the KV of the context from token `from` on.
  void LoseKv(Slot slot, std::int32_t from) {
    Record& record = s_.table[slot];
    if (from < record.arrived) {
      record.arrived = from;
      memory_.NoteJoined(slot);
    }
    if (record.fetching > 0) {
      const std::int32_t whole = from / record.state.request.prefix.block_tokens.value;
      record.fetched = std::min(record.fetched, whole);
      kv_.ledger.SpoilCopies(kv_.Hashes(record, 0, record.fetching), whole, kv_.ChunkBlocks(record));
    }
    if (record.shared_chunks > 0) {
      const std::int32_t whole = from / record.state.request.prefix.block_tokens.value;
      if (whole < record.shared_chunks)
        kv_.ledger.Spoil(kv_.Hashes(record, 0, record.shared_chunks), whole, kv_.ChunkBlocks(record));
    }
    if (record.lane == kNoLane) {
      if (from >= record.computed) return;
      ++s_.stats.kv_lost;
      record.was_computed = std::max(record.was_computed, record.computed);
      record.computed = from;
      if (from == 0 && record.transit == Transit::kNone) resting_.FreeKv(record), kv_.FreeCpu(record);
      return memory_.NoteJoined(slot);
    }
    Row& row = s_.running[record.lane];
    if (from >= row.computed) return;
    ++s_.stats.kv_lost;
    record.was_computed = std::max(record.was_computed, row.computed);
    // the sequences share the prompt
    if (row.sequences > 1) from = std::min(from, record.state.request.prompt_tokens.value);
    s_.Void(row);
    row.computed = row.scheduled = from;
    row.drafts = 0;
    row.prefilling = true;
    if (row.state == RowState::kSteady) row.state = RowState::kUnsteady;
    if (row.state == RowState::kLeaving && from == 0) lives_.DropAtSettling(record);
  }

  // Publishes the loaded chunks for other requests. If the load failed, or its KV was lost, the row computes them.
  void Fetched(Slot slot, bool failed) {
    Record& record = s_.table[slot];
    Row& row = s_.running[record.lane];
    const std::int32_t chunk_blocks = kv_.ChunkBlocks(record);
    const std::span<const std::uint64_t> hashes = kv_.Hashes(record, 0, std::exchange(record.fetching, 0));
    if (failed) {
      record.fetched = 0;
      kv_.ledger.SpoilCopies(hashes, record.shared_chunks, chunk_blocks);
    }
    kv_.ledger.UnpinCopies(hashes, chunk_blocks);
    const std::int32_t there = std::exchange(record.fetched, 0) * record.state.request.prefix.block_tokens.value;
    if (there > row.computed) {
      prefixes_.HitsOf(record) += static_cast<std::uint64_t>(there - row.computed);
      s_.stats.tokens_loaded += static_cast<std::uint64_t>(there - row.computed);
      row.computed = row.scheduled = there;
      prefixes_.PublishPrefix(row, record);
    }
    if (row.state == RowState::kLeaving) return lives_.Settle(slot);
    row.state = RowState::kUnsteady;
    s_.Refresh(row, record);
  }

  EngineState& s_;
  Faults& faults_;
  Kv& kv_;
  SearchMemory& memory_;
  Prefixes& prefixes_;
  RestingKv& resting_;
  Lives& lives_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_KV_EVENTS_H_
