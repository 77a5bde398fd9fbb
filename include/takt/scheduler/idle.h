// Handles plans that would be empty.
#ifndef TAKT_SCHEDULER_IDLE_H_
#define TAKT_SCHEDULER_IDLE_H_

#include <cstdint>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/victims.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/displacing.h"
#include "takt/scheduler/admission_walk.h"

namespace takt::internal {

// Invariant: each rebuild follows a change that freed memory or rows.
class IdlePlans {
 public:
  IdlePlans(EngineState& s, Kv& kv, Prefixes& prefixes, RestingKv& resting, Victims& victims, Lives& lives,
            Displacing& displacing, AdmissionWalk& walk)
      : s_(s),
        kv_(kv),
        prefixes_(prefixes),
        resting_(resting),
        victims_(victims),
        lives_(lives),
        displacing_(displacing),
        walk_(walk) {}

  // Called if the plan is empty. Frees idle memory, or preempts rows, for a request that could then run. Returns true
  // if the plan must be built again. The rounds end because each round frees memory or rows.
  bool Unstick() {
    if (s_.budget.limits.tokens.value <= 0 || s_.steps.in_flight() > 0 || !s_.left_out.empty()) return false;
    // The oracle refused memory that its counts report as free. The next plan asks again.
    if (s_.draft.refused) {
      if (!s_.draft.short_of_kv) walk_.AdmitAny();
      return false;
    }
    // Rows gave up their places or their share of the step, and no request took them. Fewer rows may fit.
    if (s_.draft.displaced || (s_.draft.short_of_kv && victims_.Worst(false) == kNoLane)) return true;
    const bool more_kv_soon = !resting_.moves().empty() || kv_.Pending() > 0;
    if (s_.counts.rows == 0 && !more_kv_soon && ReclaimForHead()) return true;
    const std::int32_t free = kv_.FreeBlocks();
    if ((!s_.draft.short_of_kv || more_kv_soon) && walk_.AdmitAny()) return false;
    if (s_.draft.refused) return false;
    if (kv_.FreeBlocks() > free) return true;  // requests that can never fit were failed, which freed their KV
    if (more_kv_soon) return false;
    if (s_.counts.rows == 0)
      return s_.draft.top_waits_for == WaitsFor::kKv && !s_.queue.empty() && resting_.Reclaim(Head(), false);
    if (!s_.draft.short_of_kv) return false;
    // All rows need memory, and none is free.
    if (!resting_.Reclaim(kNoSlot, false)) {
      const std::uint32_t worst = victims_.Worst(true);
      if (worst != kNoLane && s_.counts.rows > 1) {
        displacing_.Preempt(worst, false);
      } else {
        lives_.Fail(s_.running.Stored(worst != kNoLane ? worst : victims_.Worst(false)).slot, FailReason::kKvExhausted);
      }
    }
    return true;
  }

  Idle WhyIdle() const {
    if (s_.table.size() == 0) return s_.draining ? Idle::kDrained : Idle::kNoRequests;
    if (s_.budget.limits.tokens.value <= 0 || s_.budget.limits.max_seqs <= 0) return Idle::kNoBudget;
    if (s_.steps.in_flight() > 0) return Idle::kStepsInFlight;
    if (!resting_.moves().empty()) return Idle::kMovesInFlight;
    if (!s_.left_out.empty()) return Idle::kBlocked;
    if (kv_.Pending() > 0 || (s_.queue.empty() && s_.counts.rows == 0 && s_.counts.pinned > 0)) return Idle::kKvPending;
    if (!s_.queue.empty() || s_.counts.rows > 0) {
      if (s_.draft.top_waits_for == WaitsFor::kKv || s_.draft.short_of_kv || s_.draft.refused) return Idle::kKvHeld;
      // The rebuilt plan did not ask again about the requests that the oracle had refused.
      bool refused = false;
      if (s_.draft.kept_out) {
        s_.queue.ForEachInOrder([&](Slot slot) { return !(refused = s_.table[slot].refused_at == s_.stats.plans); });
      }
      if (refused) return Idle::kKvHeld;
      if (s_.draft.top_waits_for == WaitsFor::kGate) return Idle::kGated;
      return s_.draft.top_waits_for == WaitsFor::kDeclined ? Idle::kDeclined : Idle::kNoBudget;
    }
    return s_.counts.blocked > 0 ? Idle::kBlocked : Idle::kPaused;
  }

 private:
  Slot Head() const { return s_.draft.head != kNoSlot ? s_.draft.head : s_.queue.Top(); }
  // Called if nothing runs and the head of the queue waits for memory. Drops the KV of waiting requests after it if
  // that frees enough. Otherwise the later requests would run first, one at a time.
  bool ReclaimForHead() {
    if (s_.draft.top_waits_for != WaitsFor::kKv || s_.queue.empty() || resting_.kept().nobody_came_back()) return false;
    resting_.RankHolders();
    const Slot head = Head();
    const Record& record = s_.table[head];
    const bool holds = record.holds && record.blocks > 0 && record.lane == kNoLane && record.transit == Transit::kNone;
    // Blocks of cached prefixes do not count, because perhaps only the requests that lose their KV refer to them.
    if (kv_.FreeBlocks() + resting_.kept().held_by_waiting() - (holds ? record.blocks : 0) <
        prefixes_.BlocksNeeded(record, {}))
      return false;
    bool any = false;
    while (kv_.FreeBlocks() < prefixes_.BlocksNeeded(record, prefixes_.HitOf(record)) && resting_.Reclaim(head, true))
      any = true;
    return any;
  }

  EngineState& s_;
  Kv& kv_;
  Prefixes& prefixes_;
  RestingKv& resting_;
  Victims& victims_;
  Lives& lives_;
  Displacing& displacing_;
  AdmissionWalk& walk_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_IDLE_H_
