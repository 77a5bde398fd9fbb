// Preempts running rows for waiting requests.
#ifndef TAKT_SCHEDULER_DISPLACING_H_
#define TAKT_SCHEDULER_DISPLACING_H_

#include <algorithm>
#include <cstdint>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/output_reserve.h"
#include "takt/scheduler/victims.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/entries.h"

namespace takt::internal {

// Invariant: rows are preempted for a waiting request only if together they free enough for it.
class Displacing {
 public:
  Displacing(EngineState& s, Kv& kv, OutputReserve& reserve, Victims& victims, Lives& lives, Entries& entries)
      : s_(s), kv_(kv), reserve_(reserve), victims_(victims), lives_(lives), entries_(entries) {}

  void BeginPlan() { victims_for_ = kNoSlot; }

  void Preempt(std::uint32_t lane, bool by_rank) {
    s_.draft.displaced |= entries_.Unplan(lane);
    const Row& row = s_.running[lane];
    const bool swap = s_.options.preempt_action == KvAction::kOut &&
                      kv_.HasOwnKv(s_.table[row.slot], row.blocks, row.computed) &&
                      row.blocks <= kv_.ledger.cpu_free() && row.blocks <= s_.budget.swap_out &&
                      row.sequences == s_.Sequences(s_.table[row.slot]);
    const KvAction action = swap ? KvAction::kOut : KvAction::kDrop;
    ++(swap ? s_.stats.preempted_swap : s_.stats.preempted_recompute);
    s_.stats.preempted_by_rank += by_rank ? 1 : 0;
    s_.notices.preempted.push_back({row.request, action});
    lives_.Depart(lane, action, RequestStatus::kWaiting,
                  by_rank ? TransitionReason::kPreemptedRank : TransitionReason::kPreemptedKv, row.blocks);
  }

  // Returns true if the waiting request may preempt the row. Equal ranks never preempt each other. A row must run at
  // least one step first. Otherwise two requests whose keys depend on waiting time could preempt each other forever.
  bool Outranks(Slot slot, std::uint32_t lane) {
    const Row row = s_.running.Look(lane);
    const std::int64_t steps = victims_.StepsBefore(row);
    if (steps == 0 || s_.queue.PromotedWith(row.slot, steps)) return false;
    if (s_.queue.promoted(slot)) return true;
    return s_.queue.Outranks(s_.table[slot].state, s_.StateOfRow(row), s_.options.preempt_margin, s_.now);
  }

  // PreemptMode::kByRank: preempts rows whose place or memory the head of the queue needs. Returns false if nothing was
  // gained.
  bool MakeWayFor(Slot slot) {
    if (slot == kNoSlot || (s_.draft.top_waits_for != WaitsFor::kSequences && s_.draft.top_waits_for != WaitsFor::kKv))
      return false;
    const Record& record = s_.table[slot];
    if (record.refused_at > kv_.freed_at) return false;  // keep all rows: the oracle may refuse it again
    const std::uint32_t worst = victims_.Worst(true);
    if (worst == kNoLane || !Outranks(slot, worst)) return false;
    if (kv_.block_tokens > 0) {
      // Preempt the worst row first, and stop at the first row that is not outranked. Together, these rows must free
      // enough.
      const std::int64_t need =
          std::max(kv_.BlocksFor(record), record.cpu_blocks) - record.blocks + reserve_.Spare(record);
      const std::int64_t missing = need - kv_.FreeBlocks() - kv_.Pending();
      if (missing > 0 && (victims_for_ != slot || victim_blocks_ < missing)) {
        victims_for_ = slot;
        victim_blocks_ = 0;
        victims_.VisitInOrder([&](std::uint32_t lane) {
          const Row row = s_.running.Look(lane);
          if (!s_.table[row.slot].state.request.preemptible || !Outranks(slot, lane)) return false;
          victim_blocks_ += row.blocks;
          return victim_blocks_ < missing;
        });
        if (victim_blocks_ < missing) return false;
      }
      if (s_.draft.top_waits_for == WaitsFor::kKv && kv_.Pending() > 0) return false;
    }
    if (victims_for_ == slot) victim_blocks_ -= s_.running.Look(worst).blocks;  // `worst` is the first of them
    const bool resolved = s_.running.Look(worst).in_flight == 0;
    const Slot victim = s_.running.Stored(worst).slot;
    Preempt(worst, true);
    s_.draft.displaced = true;
    // If keys depend on progress, the preempted request may become first again and preempt in return.
    if (s_.queue.contains(victim) && s_.queue.IsBefore(victim, slot)) return false;
    return resolved || s_.draft.top_waits_for == WaitsFor::kSequences;
  }

 private:
  EngineState& s_;
  Kv& kv_;
  OutputReserve& reserve_;
  Victims& victims_;
  Lives& lives_;
  Entries& entries_;
  Slot victims_for_ = kNoSlot;  // last request for which rows were preempted
  std::int64_t victim_blocks_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_DISPLACING_H_
