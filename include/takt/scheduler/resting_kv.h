// KV of requests without a row: kept, moving out, or dropped.
#ifndef TAKT_SCHEDULER_RESTING_KV_H_
#define TAKT_SCHEDULER_RESTING_KV_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kept_kv.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/move_list.h"
#include "takt/scheduler/search_memory.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/turns.h"

namespace takt::internal {

// Invariant: a waiting request without a lane that holds blocks is in KeptKv's list of returned requests.
class RestingKv {
 public:
  RestingKv(EngineState& s, Kv& kv, SearchMemory& memory, Gate& gate, Turns& turns)
      : s_(s), kv_(kv), memory_(memory), gate_(gate), turns_(turns) {}

  void Reserve(std::size_t slots) { kept_.Reserve(slots); }
  KeptKv& kept() { return kept_; }
  const KeptKv& kept() const { return kept_; }
  MoveList& moves() { return moves_; }
  const MoveList& moves() const { return moves_; }

  // Frees the GPU blocks of a request without a lane. The request's tokens must be computed again.
  void FreeKv(Record& record, KvAction action = KvAction::kDrop) {
    record.was_computed = std::max(record.was_computed, record.computed);
    record.computed = 0;
    gate_.Changed();
    if (record.blocks == 0) return;
    if (kv_.oracle != nullptr) {
      kv_.oracle->Release(record.state.request.id, action);
      kv_.CountAgain();
    } else if (kv_.Counts()) {
      std::int32_t shared = 0;
      if (record.shared_chunks > 0) {
        shared = record.shared_chunks * kv_.ChunkBlocks(record);
        kv_.ledger.Release(kv_.Hashes(record, 0, record.shared_chunks), kv_.ChunkBlocks(record), turns_.TurnOf(record));
        record.shared_chunks = 0;
        if (turns_.Holds()) turns_.TurnReleased(record);
      }
      kv_.ledger.Free(record.blocks - shared);
    }
    record.blocks = 0;
  }

  // Lists a waiting request that holds KV.
  void NoteKept(Slot slot) {
    Record& record = s_.table[slot];
    if (record.status != RequestStatus::kWaiting || record.lane != kNoLane || record.blocks == 0) return;
    const std::int32_t need = std::max(kv_.BlocksFor(record) - record.blocks, 0);
    kept_.CameBack(slot, need, record.came_back);
  }

  // Collects, once per plan, the requests whose KV may be dropped.
  void RankHolders() {
    const auto holds = [this](Slot slot) {
      Record& record = s_.table[slot];
      return record.holds = record.blocks > 0 && record.lane == kNoLane;
    };
    kept_.Rank(s_.steps.last(), holds, [this](Slot slot) -> std::optional<KeptKv::Holder> {
      const Record& record = s_.table[slot];
      if (record.transit != Transit::kNone) return std::nullopt;
      return {
          {record.status == RequestStatus::kWaiting, s_.queue.VictimRankOf(record.state, s_.now), slot, record.blocks}};
    });
  }

  // Drops the KV of one request that does not run. Takes the worst waiting request first. Paused and blocked requests
  // follow unless `waiting`. Skips `spared`. Returns false if no request has KV to drop.
  bool Reclaim(Slot spared, bool waiting) {
    if (waiting && kept_.nobody_came_back()) return false;
    RankHolders();
    return kept_.DropWorst(spared, waiting, [this](Slot slot) {
      Record& record = s_.table[slot];
      // The request may have a lane again, may have ended, or a connector may still read its KV.
      if (record.blocks == 0 || record.lane != kNoLane || record.transit != Transit::kNone) return false;
      ++s_.stats.kv_reclaimed;
      FreeKv(record);
      memory_.NoteJoined(slot);  // the request may fit with a chunk from another position
      return true;
    });
  }

  // Starts the swap-out of a request without a lane. Its host memory is already reserved.
  void MoveOut(Slot slot) {
    Record& record = s_.table[slot];
    record.transit = Transit::kMovingOut;
    s_.counts.leaving_blocks += record.blocks;
    if (record.cpu_blocks < record.blocks) {
      record.was_computed = std::max(record.was_computed, record.computed);
      record.computed = std::min(record.computed, record.cpu_blocks * kv_.block_tokens);
    }
    const MoveId id = moves_.Begin(slot, KvAction::kOut);
    s_.notices.moves.push_back({id, record.state.request.id, KvAction::kOut, {0}, {record.cpu_blocks}});
    ++s_.stats.moves_out;
  }

  // Releases the KV of a paused request without a lane: `out` blocks move out, and the rest is dropped.
  void LetGo(Slot slot, std::int32_t out) {
    Record& record = s_.table[slot];
    if (out == 0) return FreeKv(record);
    kv_.AllocateCpu(record, out);
    MoveOut(slot);
  }

 private:
  EngineState& s_;
  Kv& kv_;
  SearchMemory& memory_;
  Gate& gate_;
  Turns& turns_;
  KeptKv kept_;
  MoveList moves_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_RESTING_KV_H_
