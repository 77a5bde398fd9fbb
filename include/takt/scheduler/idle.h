// BasicScheduler, continued: plans that would be empty.
#ifndef TAKT_SCHEDULER_IDLE_H_
#define TAKT_SCHEDULER_IDLE_H_

#include "takt/basic_scheduler.h"

namespace takt {

// The plan is empty. If something could run, were it not for memory that idles, or for its rank, this sees to it.
// True: memory was freed, so build again. Each round frees something, so that it ends.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Unstick() {
  if (budget_.limits.tokens.value <= 0 || steps_.in_flight() > 0 || !left_out_.empty()) return false;
  // The oracle has the memory, by its counts, and refused it. The next plan asks again.
  if (draft_.refused) {
    if (!draft_.short_of_kv) AdmitWhoeverFits();
    return false;
  }
  // Rows gave up their places, or their share of the step, and none took it: with fewer rows it is another question.
  if (draft_.displaced || (draft_.short_of_kv && Worst(false) == kNoLane)) return true;
  const bool more_kv_soon = !moves_.empty() || Pending() > 0;
  if (counts_.rows == 0 && !more_kv_soon && ReclaimForHead()) return true;
  const std::int32_t free = FreeBlocks();
  if ((!draft_.short_of_kv || more_kv_soon) && AdmitWhoeverFits()) return false;
  if (draft_.refused) return false;
  if (FreeBlocks() > free) return true;  // some of them can never fit, and what they held is free
  if (more_kv_soon) return false;
  if (counts_.rows == 0) return draft_.top_waits_for == WaitsFor::kKv && !queue_.empty() && Reclaim(Head(), false);
  if (!draft_.short_of_kv) return false;
  // All rows need memory that none has to give.
  if (!Reclaim(kNoSlot, false)) {
    const std::uint32_t worst = Worst(true);
    if (worst != kNoLane && counts_.rows > 1) {
      Preempt(worst, false);
    } else {
      Fail(running_.Stored(worst != kNoLane ? worst : Worst(false)).slot, FailReason::kKvExhausted);
    }
  }
  return true;
}

// Nothing runs, and the first of the queue waits for memory: what is kept for those behind it is dropped where that is
// enough, or they would go first, one at a time.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::ReclaimForHead() {
  if (draft_.top_waits_for != WaitsFor::kKv || queue_.empty() || kept_.nobody_came_back()) return false;
  RankHolders();
  const Slot head = Head();
  const Record& record = table_[head];
  const bool holds = record.holds && record.blocks > 0 && record.lane == kNoLane && record.transit == Transit::kNone;
  // Of its prefix nothing is counted on here: it may be that those that would lose their KV have it.
  if (FreeBlocks() + kept_.held_by_waiting() - (holds ? record.blocks : 0) < BlocksNeeded(record, {})) return false;
  bool any = false;
  while (FreeBlocks() < BlocksNeeded(record, HitOf(record)) && Reclaim(head, true)) any = true;
  return any;
}

// Whether all that waited when a search found none would still not fit: there is no more room than there was then.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::SearchHolds() const {
  return search_.vain.holds && search_.vain.limits == budget_.limits && FreeBlocks() <= search_.vain.free &&
         counts_.rows >= search_.vain.rows && counts_.seqs >= search_.vain.seqs &&
         adapters_.version() == search_.vain.adapters && search_.vain.host_changes == kv_.changes &&
         search_.vain.prefixes == kv_.ledger.prefixes_used() &&
         (!search_.vain.by_memory || draft_.top_waits_for == WaitsFor::kKv);
}

// The first does not fit; but nothing runs that it could wait for, so any that fits may run: one at a time. As
// long as a search that found none holds, only those are looked at that have come since. An oracle is asked for so
// many in a plan; where it refuses them all, the next plan asks for those behind them.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::AdmitWhoeverFits() {
  if (queue_.empty()) return false;
  const WaitsFor top_waits_for = draft_.top_waits_for;
  const Slot head = draft_.head;
  held_.sum.reset(), held_.copies_sum.reset();
  budget_.shortest_rest = std::numeric_limits<std::int32_t>::max();  // no started prompt has a part of this step
  const bool held = SearchHolds(), by_memory = top_waits_for == WaitsFor::kKv;
  const std::int32_t free = FreeBlocks();
  std::int32_t least = std::numeric_limits<std::int32_t>::max();  // that one needs that was not tried
  bool tried = false, passed_over = false;
  const auto may_fit = [&](Slot slot) {
    ++stats_.searched;
    const Record& record = table_[slot];
    if (by_memory) {
      const std::int32_t blocks = BlocksNeeded(record, HitOf(record));
      if (blocks > free) {
        least = std::min(least, blocks);
        return false;
      }
    }
    // A row that runs lacks memory, and some will soon be free: who computes gets further, but what would only be moved
    // in would be moved out again for that row, and so on for ever.
    const bool may = record.refused_at != stats_.plans && queue_.Admits(record.state, now_) &&
                     !(draft_.short_of_kv && record.cpu_blocks > 0);
    passed_over |= !may;
    return may;
  };
  std::size_t next = 0;  // where the search stopped
  const auto try_from = [&](std::size_t first) {
    const std::size_t n = search_.slots.size();
    next = first;
    for (std::size_t i = 0; i < n && search_.asks_left > 0; ++i) {
      const Slot slot = search_.slots[next % n];
      next = (next + 1) % n;
      tried = true;
      if (TryAdmit(slot, std::span(search_.slots).subspan(next)) != Fit::kAdmitted) continue;
      if (kv_.oracle != nullptr) --search_.asks_left, AskOracle();
      if (draft_.planned > 0) return true;  // else its KV is on the way back, and another may run
    }
    return false;
  };
  search_.slots.clear();
  if (held) {
    for (Slot slot : search_.joined) {
      if (queue_.contains(slot) && may_fit(slot)) search_.slots.push_back(slot);
    }
    std::ranges::sort(search_.slots, [this](Slot a, Slot b) { return queue_.IsBefore(a, b); });
    search_.slots.erase(std::unique(search_.slots.begin(), search_.slots.end()), search_.slots.end());
    if (try_from(0)) return true;
  } else {
    // Mostly the first that seems to fit does; and where none does, the order of the queue does not matter.
    for (const std::size_t most : {std::size_t{1}, SIZE_MAX}) {
      search_.slots.clear();
      queue_.ForEachInOrder([&](Slot slot) {
        if (may_fit(slot)) search_.slots.push_back(slot);
        return search_.slots.size() < most;
      });
      if (try_from(most == 1 ? 0 : search_.from)) return true;
      if (search_.slots.size() < most) break;
    }
  }
  search_.from = held || search_.asks_left > 0 ? 0 : next;
  draft_.top_waits_for = top_waits_for;
  draft_.head = queue_.contains(head) ? head : kNoSlot;
  search_.joined.clear();
  // If each request needs more than what is free, a gate, a policy or a move need not be asked again.
  const bool all_need_more = by_memory && search_.slots.empty() && !passed_over && !(held && search_.vain.passed_over);
  const std::int32_t enough = tried ? std::min(free, FreeBlocks()) : std::max(free, least - 1);  // for none
  search_.vain = {.limits = budget_.limits,
                  .free = held ? std::min(search_.vain.free, enough) : enough,
                  .rows = held && !tried ? search_.vain.rows : counts_.rows,
                  .seqs = held && !tried ? search_.vain.seqs : counts_.seqs,
                  .adapters = adapters_.version(),
                  .host_changes = kv_.changes,
                  .prefixes = kv_.ledger.prefixes_used(),
                  .by_memory = by_memory,
                  .passed_over = !all_need_more,
                  // What may move in one step has been used up, perhaps, or an oracle has refused what it will grant.
                  .holds = all_need_more || (!queue_.declines() && !draft_.short_of_kv && held_.gate.open() &&
                                             kv_.ledger.copies() == nullptr && !draft_.refused &&
                                             search_.asks_left > 0 && budget_.swap_in >= budget_.limits.swap_in.value)};
  return false;
}

template <RankPolicy Policy, PausePolicy Pause>
Idle BasicScheduler<Policy, Pause>::WhyIdle() const {
  if (table_.size() == 0) return draining_ ? Idle::kDrained : Idle::kNoRequests;
  if (budget_.limits.tokens.value <= 0 || budget_.limits.max_seqs <= 0) return Idle::kNoBudget;
  if (steps_.in_flight() > 0) return Idle::kStepsInFlight;
  if (!moves_.empty()) return Idle::kMovesInFlight;
  if (!left_out_.empty()) return Idle::kBlocked;
  if (Pending() > 0 || (queue_.empty() && counts_.rows == 0 && counts_.pinned > 0)) return Idle::kKvPending;
  if (!queue_.empty() || counts_.rows > 0) {
    if (draft_.top_waits_for == WaitsFor::kKv || draft_.short_of_kv || draft_.refused) return Idle::kKvHeld;
    // Built again, it did not ask again for those that the oracle had refused.
    bool refused = false;
    if (draft_.kept_out) {
      queue_.ForEachInOrder([&](Slot slot) { return !(refused = table_[slot].refused_at == stats_.plans); });
    }
    if (refused) return Idle::kKvHeld;
    if (draft_.top_waits_for == WaitsFor::kGate) return Idle::kGated;
    return draft_.top_waits_for == WaitsFor::kDeclined ? Idle::kDeclined : Idle::kNoBudget;
  }
  return counts_.blocked > 0 ? Idle::kBlocked : Idle::kPaused;
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_IDLE_H_
