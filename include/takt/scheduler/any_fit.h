// Any waiting request that fits, if nothing runs that the first could wait for.
#ifndef TAKT_SCHEDULER_ANY_FIT_H_
#define TAKT_SCHEDULER_ANY_FIT_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <ranges>
#include <span>

#include "takt/scheduler/admission.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/oracle_questions.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/search_memory.h"
#include "takt/scheduler/state.h"

namespace takt::internal {

// Invariant: a search that found none is repeated only if there is more room, or for requests that have joined since.
class AnyFit {
 public:
  AnyFit(EngineState& s, Kv& kv, SearchMemory& memory, Gate& gate, Prefixes& prefixes, OracleQuestions& questions,
         Admission& admission)
      : s_(s),
        kv_(kv),
        memory_(memory),
        gate_(gate),
        prefixes_(prefixes),
        questions_(questions),
        admission_(admission) {}

  void BeginPlan() { asks_left_ = std::max(s_.options.admission_window, 1); }

  // The first does not fit; but nothing runs that it could wait for, so any that fits may run: one at a time. As
  // long as a search that found none holds, only those are looked at that have come since. An oracle is asked for so
  // many in a plan; where it refuses them all, the next plan asks for those behind them.
  bool Admit() {
    if (s_.queue.empty()) return false;
    const WaitsFor top_waits_for = s_.draft.top_waits_for;
    const Slot head = s_.draft.head;
    gate_.BeginSearch();
    s_.budget.shortest_rest = std::numeric_limits<std::int32_t>::max();  // no started prompt has a part of this step
    const bool held = SearchHolds(), by_memory = top_waits_for == WaitsFor::kKv;
    const std::int32_t free = kv_.FreeBlocks();
    std::int32_t least = std::numeric_limits<std::int32_t>::max();  // that one needs that was not tried
    bool tried = false, passed_over = false;
    const auto may_fit = [&](Slot slot) {
      ++s_.stats.searched;
      const Record& record = s_.table[slot];
      if (by_memory) {
        const std::int32_t blocks = prefixes_.BlocksNeeded(record, prefixes_.HitOf(record));
        if (blocks > free) {
          least = std::min(least, blocks);
          return false;
        }
      }
      // A row that runs lacks memory, and some will soon be free: who computes gets further, but what would only be
      // moved in would be moved out again for that row, and so on for ever.
      const bool may = record.refused_at != s_.stats.plans && s_.queue.Admits(record.state, s_.now) &&
                       !(s_.draft.short_of_kv && record.cpu_blocks > 0);
      passed_over |= !may;
      return may;
    };
    std::size_t next = 0;  // where the search stopped
    const auto try_from = [&](std::size_t first) {
      const std::size_t n = s_.scratch.size();
      next = first;
      for (std::size_t i = 0; i < n && asks_left_ > 0; ++i) {
        const Slot slot = s_.scratch[next % n];
        next = (next + 1) % n;
        tried = true;
        if (admission_.TryAdmit(slot, std::span(s_.scratch).subspan(next)) != Fit::kAdmitted) continue;
        if (kv_.oracle != nullptr) --asks_left_, questions_.AskOracle();
        if (s_.draft.planned > 0) return true;  // else its KV is on the way back, and another may run
      }
      return false;
    };
    s_.scratch.clear();
    if (held) {
      for (Slot slot : memory_.joined()) {
        if (s_.queue.contains(slot) && may_fit(slot)) s_.scratch.push_back(slot);
      }
      std::ranges::sort(s_.scratch, [this](Slot a, Slot b) { return s_.queue.IsBefore(a, b); });
      s_.scratch.erase(std::unique(s_.scratch.begin(), s_.scratch.end()), s_.scratch.end());
      if (try_from(0)) return true;
    } else {
      // Mostly the first that seems to fit does; and where none does, the order of the queue does not matter.
      for (const std::size_t most : {std::size_t{1}, SIZE_MAX}) {
        s_.scratch.clear();
        s_.queue.ForEachInOrder([&](Slot slot) {
          if (may_fit(slot)) s_.scratch.push_back(slot);
          return s_.scratch.size() < most;
        });
        if (try_from(most == 1 ? 0 : from_)) return true;
        if (s_.scratch.size() < most) break;
      }
    }
    from_ = held || asks_left_ > 0 ? 0 : next;
    s_.draft.top_waits_for = top_waits_for;
    s_.draft.head = s_.queue.contains(head) ? head : kNoSlot;
    // If each request needs more than what is free, a gate, a policy or a move need not be asked again.
    const bool all_need_more = by_memory && s_.scratch.empty() && !passed_over && !(held && memory_.vain().passed_over);
    const std::int32_t enough = tried ? std::min(free, kv_.FreeBlocks()) : std::max(free, least - 1);  // for none
    memory_.Remember(
        {.limits = s_.budget.limits,
         .free = held ? std::min(memory_.vain().free, enough) : enough,
         .rows = held && !tried ? memory_.vain().rows : s_.counts.rows,
         .seqs = held && !tried ? memory_.vain().seqs : s_.counts.seqs,
         .adapters = s_.adapters.version(),
         .host_changes = kv_.changes,
         .prefixes = kv_.ledger.prefixes_used(),
         .by_memory = by_memory,
         .passed_over = !all_need_more,
         // The step may have used up its moves, or an oracle may have refused what it will grant later.
         .holds = all_need_more || (!s_.queue.hooks().declines && !s_.draft.short_of_kv && gate_.open() &&
                                    kv_.ledger.copies() == nullptr && !s_.draft.refused && asks_left_ > 0 &&
                                    s_.budget.swap_in >= s_.budget.limits.swap_in.value)});
    return false;
  }

 private:
  // Whether all that waited when a search found none would still not fit: there is no more room than there was then.
  bool SearchHolds() const {
    return memory_.vain().holds && memory_.vain().limits == s_.budget.limits &&
           kv_.FreeBlocks() <= memory_.vain().free && s_.counts.rows >= memory_.vain().rows &&
           s_.counts.seqs >= memory_.vain().seqs && s_.adapters.version() == memory_.vain().adapters &&
           memory_.vain().host_changes == kv_.changes && memory_.vain().prefixes == kv_.ledger.prefixes_used() &&
           (!memory_.vain().by_memory || s_.draft.top_waits_for == WaitsFor::kKv);
  }

  EngineState& s_;
  Kv& kv_;
  SearchMemory& memory_;
  Gate& gate_;
  Prefixes& prefixes_;
  OracleQuestions& questions_;
  Admission& admission_;
  std::size_t from_ = 0;  // of those that seem to fit, the number asked for in vain before
  std::int32_t asks_left_ = 0;  // of an oracle, in searches for any that fits
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ANY_FIT_H_
