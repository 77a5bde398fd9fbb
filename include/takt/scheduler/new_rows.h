// Moves requests from the queue into rows.
#ifndef TAKT_SCHEDULER_NEW_ROWS_H_
#define TAKT_SCHEDULER_NEW_ROWS_H_

#include <cstdint>
#include <utility>

#include "takt/scheduler/state.h"
#include "takt/scheduler/ceilings.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/turns.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/victims.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/entries.h"

namespace takt::internal {

// Invariant: an admitted request leaves the queue and gets a lane and KV. It gets no entry while its KV moves in.
class NewRows {
 public:
  NewRows(EngineState& s, Kv& kv, Turns& turns, Prefixes& prefixes, RestingKv& resting, Victims& victims, Lives& lives,
          Entries& entries)
      : s_(s),
        kv_(kv),
        turns_(turns),
        prefixes_(prefixes),
        resting_(resting),
        victims_(victims),
        lives_(lives),
        entries_(entries) {}

  // Admits a request into a lane and plans its first entry.
  void Admit(Slot slot, std::int32_t start, std::int32_t tokens) {
    Record& record = s_.table[slot];
    prefixes_.CountHits(record, start - record.computed, start);
    const std::uint32_t lane = AddRow(slot, start, RowState::kUnsteady);
    entries_.Emit(lane, tokens, static_cast<std::uint16_t>(s_.running[lane].prefilling ? PlanEntry::kPrefill : 0));
    if (kv_.ChunkBlocks(record) > 0) prefixes_.LeadPrefix(record);
  }

  // Assigns a row now, which runs after the swap-in.
  void SwapIn(Slot slot, std::int32_t blocks) {
    Record& record = s_.table[slot];
    record.blocks = blocks;
    AddRow(slot, record.computed, RowState::kMoving);
    record.transit = Transit::kMovingIn;
    const MoveId id = resting_.moves().Begin(slot, KvAction::kIn);
    s_.notices.moves.push_back({id, record.state.request.id, KvAction::kIn, {0}, {record.cpu_blocks}});
    ++s_.stats.moves_in;
  }

  // Assigns a row now to a request with `chunks` prefix chunks in host memory. The row runs after the chunks that the
  // prefix cache lacks are loaded.
  void Fetch(Slot slot, std::int32_t start, std::int32_t chunks) {
    Record& record = s_.table[slot];
    const std::int32_t chunk_blocks = kv_.ChunkBlocks(record);
    const Blocks first{record.shared_chunks * chunk_blocks}, count{(chunks - record.shared_chunks) * chunk_blocks};
    prefixes_.CountHits(record, start, chunks * record.state.request.prefix.block_tokens.value);
    s_.budget.swap_in -= count.value;
    kv_.ledger.PinCopies(kv_.Hashes(record, 0, chunks), chunk_blocks);
    record.fetching = record.fetched = chunks;
    AddRow(slot, start, RowState::kMoving);
    record.transit = Transit::kMovingIn;
    const MoveId id = resting_.moves().Begin(slot, KvAction::kFetch);
    s_.notices.moves.push_back({id, record.state.request.id, KvAction::kFetch, first, count});
    ++s_.stats.moves_in;
  }

 private:
  std::uint32_t AddRow(Slot slot, std::int32_t start, RowState state) {
    lives_.LeaveQueue(slot, true);
    Record& record = s_.table[slot];
    const bool again = std::exchange(record.state.taken, true);
    const Request& r = record.state.request;
    Row row;
    row.request = r.id;
    row.slot = slot;
    row.known = row.expected = record.known;
    row.computed = row.scheduled = start;
    row.blocks = record.blocks;
    row.generated = record.state.generated.value;
    row.sequences = static_cast<std::uint16_t>(r.sequences);
    row.state = state;
    row.capacity = kv_.CapacityOf(record, record.blocks);
    s_.Refresh(row, record);
    const std::uint32_t lane = s_.running.Add(row);
    if (lane >= s_.draft.entry_of_lane.size()) {
      s_.draft.entry_of_lane.resize(lane + 1), s_.draft.served.resize(lane + 1);
      kv_.round.ResizeLanes(lane + 1);
    }
    victims_.Join(lane, record.state, s_.Runs(row));
    s_.draft.served[lane] = ++s_.draft.turn;
    record.lane = lane;
    record.status = RequestStatus::kRunning;
    record.overtaken = record.passed = record.arrived = 0;
    if (turns_.Holds()) turns_.TurnNotAwaited(record);
    ++s_.counts.rows;
    s_.counts.seqs += r.sequences;
    if (s_.ceilings != nullptr) s_.ceilings->Joined(record, s_.running[lane]);
    s_.adapters.Add(r.adapter);
    s_.pacer.Add(r.token_pace);
    s_.queue.Admitted(record.state, s_.now);
    s_.queue.SetLane(lane, record.state);
    ++s_.stats.admitted;
    s_.Moved(record, RequestStatus::kWaiting, again ? TransitionReason::kResumed : TransitionReason::kAdmitted);
    return lane;
  }

  EngineState& s_;
  Kv& kv_;
  Turns& turns_;
  Prefixes& prefixes_;
  RestingKv& resting_;
  Victims& victims_;
  Lives& lives_;
  Entries& entries_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_NEW_ROWS_H_
