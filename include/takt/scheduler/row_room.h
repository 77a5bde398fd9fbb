// Memory for rows that grow.
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

// Invariant: a row that gets room has row.capacity of at least what it wanted; a row that does not is out of the plan,
// or as it was.
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

  // Room for `want` tokens of context in a row that runs, from blocks that are free. False: there are too few.
  bool SpareRoom(std::uint32_t lane, std::int32_t want) {
    Row& row = s_.running[lane];
    const std::int32_t blocks = row.blocks, capacity = row.capacity, n = row.sequences;  // held
    while (row.capacity < want) {
      if (kv_.Grow(row)) continue;
      if (kv_.oracle == nullptr) return false;
      if (kv_.HostsKv().free.value < n + (row.blocks - blocks) + kv_.round.blocks()) {
        row.blocks = blocks, row.capacity = capacity;  // nothing was asked for yet
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

  // The same, also at the cost of others. False: not in this step; a row may have been preempted, the asking one
  // included.
  bool Room(std::uint32_t lane, std::int32_t want) {
    if (kv_.block_tokens == 0) return true;
    const Slot slot = s_.running.Stored(lane).slot;
    while (!SpareRoom(lane, want)) {
      const Row& row = s_.running[lane];
      const std::int32_t n = row.sequences;
      s_.draft.short_of_kv = true;
      ++s_.stats.kv_stalls;
      const std::int32_t free = kv_.FreeBlocks();  // what is more then may be enough for rows that were left out before
      if (row.blocks + n > kv_.TotalBlocks()) {
        entries_.Unplan(lane);
        lives_.Fail(slot, FailReason::kKvExhausted);
        s_.draft.displaced |= kv_.FreeBlocks() > free;
        return false;
      }
      // Memory that is about to be free makes a further victim pointless.
      if (kv_.Pending() >= n) return false;
      // A waiting request can be computed again at no loss to those that run; not where an oracle is to be asked to let
      // it in.
      if (kv_.round.candidates() == 0 && resting_.Reclaim(kNoSlot, true)) {
        s_.draft.displaced |= kv_.FreeBlocks() > free;
        continue;
      }
      if (s_.options.preempt == PreemptMode::kOff) return false;
      const std::uint32_t victim = victims_.Worst(true);
      if (victim == kNoLane) return false;
      // Its own steps in flight would be void: it would give way and come back, and never get further.
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
