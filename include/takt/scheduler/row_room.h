// Finds memory for rows that grow.
#ifndef TAKT_SCHEDULER_ROW_ROOM_H_
#define TAKT_SCHEDULER_ROW_ROOM_H_

#include <algorithm>
#include <cstdint>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/victims.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/entries.h"
#include "takt/scheduler/displacing.h"

namespace takt::internal {

// Invariant: a row that gets room has at least the requested row.capacity. Any other row is unchanged or leaves the
// plan.
class RowRoom {
 public:
  RowRoom(EngineState& s, Kv& kv, RestingKv& resting, Victims& victims, Lives& lives, Entries& entries,
          Displacing& displacing)
      : s_(s),
        kv_(kv),
        resting_(resting),
        victims_(victims),
        lives_(lives),
        entries_(entries),
        displacing_(displacing) {}

  // Gives a running row room for `want` context tokens, from free blocks. Returns false if there are too few.
  bool SpareRoom(std::uint32_t lane, std::int32_t want) {
    Row& row = s_.running[lane];
    const std::int32_t blocks = row.blocks, capacity = row.capacity, n = row.sequences;  // held before
    while (row.capacity < want) {
      if (kv_.Grow(row)) continue;
      if (kv_.oracle == nullptr) return false;
      if (kv_.HostsKv().free.value < n + (row.blocks - blocks) + kv_.round.blocks()) {
        row.blocks = blocks, row.capacity = capacity;  // undo: nothing was requested yet
        return false;
      }
      row.blocks += n;
      row.capacity += n * kv_.block_tokens;
    }
    if (kv_.oracle != nullptr) {
      row.ceiling = std::min(row.capacity, row.cap - 1);
      kv_.round.AddRow(lane, {row.request, {blocks * kv_.block_tokens}, {row.blocks * kv_.block_tokens}, false, false},
                       row.blocks - blocks);
    }
    return true;
  }

  // Like SpareRoom, but may also take memory from other requests. Returns false if there is no room in this step. Any
  // row may then have been preempted, including this one.
  bool Room(std::uint32_t lane, std::int32_t want) {
    if (kv_.block_tokens == 0) return true;
    const Slot slot = s_.running.Stored(lane).slot;
    while (!SpareRoom(lane, want)) {
      const Row& row = s_.running[lane];
      const std::int32_t n = row.sequences;
      s_.draft.short_of_kv = true;
      ++s_.stats.kv_stalls;
      const std::int32_t free = kv_.FreeBlocks();  // if more blocks become free, rows that were left out may fit
      if (row.blocks + n > kv_.TotalBlocks()) {
        entries_.Unplan(lane);
        lives_.Fail(slot, FailReason::kKvExhausted);
        s_.draft.displaced |= kv_.FreeBlocks() > free;
        return false;
      }
      // Memory is about to be free, so no victim is needed.
      if (kv_.Pending() >= n) return false;
      // Dropping a waiting request's KV does not hurt running rows. Skip this while the oracle has admissions pending.
      if (kv_.round.candidates() == 0 && resting_.Reclaim(kNoSlot, true)) {
        s_.draft.displaced |= kv_.FreeBlocks() > free;
        continue;
      }
      if (s_.options.preempt == PreemptMode::kOff) return false;
      const std::uint32_t victim = victims_.Worst(true);
      if (victim == kNoLane) return false;
      // The row's steps in flight would become void, so it could be preempted and readmitted forever without progress.
      if (victim == lane && s_.running[lane].in_flight > 0) return false;
      displacing_.Preempt(victim, false);
      s_.draft.displaced |= kv_.FreeBlocks() > free;
      if (victim == lane) return false;
    }
    return true;
  }

 private:
  EngineState& s_;
  Kv& kv_;
  RestingKv& resting_;
  Victims& victims_;
  Lives& lives_;
  Entries& entries_;
  Displacing& displacing_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ROW_ROOM_H_
