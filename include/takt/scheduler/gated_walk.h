// Waiting requests in order, through a gate.
#ifndef TAKT_SCHEDULER_GATED_WALK_H_
#define TAKT_SCHEDULER_GATED_WALK_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "takt/scheduler/admission.h"
#include "takt/scheduler/displacing.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/kept_walk.h"
#include "takt/scheduler/passing.h"
#include "takt/scheduler/ranks.h"
#include "takt/scheduler/state.h"
#include "takt/scheduler/victims.h"

namespace takt::internal {

// Invariant: a request that the gate keeps out bounds no other; all others pass as Passing allows.
class GatedWalk {
 public:
  GatedWalk(EngineState& s, Gate& gate, Victims& victims, Ranks& ranks, Displacing& displacing, Admission& admission,
            Passing& passing, KeptWalk& kept_walk)
      : s_(s),
        gate_(gate),
        victims_(victims),
        ranks_(ranks),
        displacing_(displacing),
        admission_(admission),
        passing_(passing),
        kept_walk_(kept_walk) {}

  // As AdmitWaiting, by the ledger. Those that the gate keeps out are passed over. If they are many, a plan looks at
  // the first Gate::kMostLooks of them and at those that have joined the queue since; a search of all comes once in so
  // many plans that they, too, are at most Gate::kMostLooks a plan.
  void Admit() {
    gate_.BeginSearch();
    gate_.TellGate();
    const Slot elder = gate_.Elder();
    GatedSearch& seen = gate_.search();
    const bool due = seen.partly && s_.stats.plans >= seen.whole_at;
    if (elder == kNoSlot && seen.in_vain && !due && seen.changes == gate_.changes() && !gate_.AskIsDue() &&
        Between(seen.at, s_.now) < std::chrono::milliseconds(50)) {
      gate_.RefuseAsBefore();
      s_.draft.top_waits_for = WaitsFor::kGate;
      return;
    }
    seen.in_vain = false;
    gate_.ForgetAskTime();
    ranks_.LookUpHits();
    if (elder != kNoSlot) {
      const double seconds = gate_.PrefillSeconds(s_.table[elder]);
      const Fit fit = admission_.TryAdmit(elder, {}, false);
      if (fit == Fit::kAdmitted) gate_.UseDoor(seconds);
      // While it does not fit nobody else is let in.
      const bool adapter = fit == Fit::kSkip && s_.draft.top_waits_for == WaitsFor::kAdapter;
      if (fit == Fit::kStop || adapter) return;
    }
    // Mostly the first ones run, or the rest waits for them. The others are listed once these have been tried, or
    // before a row that gives way joins the queue.
    s_.scratch.clear();
    const bool whole = s_.counts.rows == 0 || s_.stats.plans >= seen.whole_at;
    const std::size_t all = whole ? SIZE_MAX
                                  : Gate::kMostLooks + static_cast<std::size_t>(s_.options.admission_window) +
                                        static_cast<std::size_t>(s_.options.max_running);
    std::size_t most = static_cast<std::size_t>(s_.options.admission_window), looks = 0;
    const auto list = [&] {
      auto listed = static_cast<std::size_t>(
          std::ranges::count_if(s_.scratch, [this](Slot slot) { return s_.queue.contains(slot); }));
      s_.queue.ForEachInOrder([&](Slot slot) {
        if (listed > 0) {
          --listed;
        } else {
          s_.scratch.push_back(slot);
        }
        return s_.scratch.size() < most;
      });
    };
    list();
    passing_.Begin();
    std::int32_t window = s_.options.admission_window;
    bool gated = false, follows = false, stopped = false;
    seen.partly = false;
    gate_.SetStuck(false);
    for (std::size_t i = 0;; ++i) {
      if (i == s_.scratch.size() && std::exchange(most, all) != all) list();
      seen.partly = !whole && (looks >= Gate::kMostLooks || i == all);
      if (seen.partly) break;
      if (i == s_.scratch.size()) {
        // Nothing runs, and all that wait keep each other out, perhaps: once more.
        if (!gated || gate_.stuck() || s_.counts.rows > 0) break;
        gate_.SetStuck(true), gate_.AskAgain(), i = 0;
      }
      const Slot slot = s_.scratch[i];
      if (!s_.queue.contains(slot)) continue;
      const Fit fit = admission_.TryAdmit(slot);
      if (fit == Fit::kStop) {
        bool freed = false;
        if (!passing_.passes_any()) {
          const bool by_rank = s_.options.preempt == PreemptMode::kByRank;
          const std::uint32_t worst = by_rank && most < all ? victims_.Worst(true) : kNoLane;
          if (worst != kNoLane && displacing_.Outranks(slot, worst)) most = all, list();
          freed = (by_rank && displacing_.MakeWayFor(slot)) ||
                  (s_.draft.top_waits_for == WaitsFor::kKv && kept_walk_.GoOn());
        }
        if (freed) --i;  // once more
        stopped = !freed && (!passing_.LetPass(slot) || --window == 0);
        if (stopped) break;
        continue;
      }
      if (fit == Fit::kAdmitted) passing_.Admitted();
      stopped = passing_.exhausted();
      if (stopped) break;
      if (s_.counts.rows > 0) gate_.SetStuck(false);
      if (fit != Fit::kSkip) continue;
      gated |= s_.draft.top_waits_for == WaitsFor::kGate;
      follows |= s_.draft.top_waits_for == WaitsFor::kPrefix;
      const bool free = s_.draft.top_waits_for == WaitsFor::kGate || s_.draft.top_waits_for == WaitsFor::kDeclined ||
                        s_.draft.top_waits_for == WaitsFor::kPrefix || s_.NeedsLargerStep(s_.table[slot]);
      stopped = !free && --window == 0;
      if (stopped) break;
      looks += free ? 1 : 0;
    }
    if (seen.partly) AdmitJoined();
    if (whole) seen.whole_at = s_.stats.plans + looks / Gate::kMostLooks;
    if (!stopped) seen.joined.clear();
    passing_.End();
    if (stopped || !gated || follows || passing_.passes_any()) return;
    s_.draft.top_waits_for = WaitsFor::kGate;
    seen.in_vain = true;
    seen.changes = gate_.changes();
    seen.at = s_.now;
  }

 private:
  // Those that have joined the queue since the last search. Those before them have been looked at, or none of these was
  // let in by the last search of all.
  void AdmitJoined() {
    const std::vector<Slot>& joined = gate_.search().joined;
    const WaitsFor reason = s_.draft.top_waits_for;
    const Slot head = s_.draft.head;
    for (std::size_t i = 0; i < joined.size() && !passing_.exhausted(); ++i) {
      if (!s_.queue.contains(joined[i])) continue;
      const Fit fit = admission_.TryAdmit(joined[i]);
      if (fit == Fit::kStop) break;
      if (fit == Fit::kAdmitted) passing_.Admitted();
    }
    s_.draft.top_waits_for = reason;
    s_.draft.head = head;
  }

  EngineState& s_;
  Gate& gate_;
  Victims& victims_;
  Ranks& ranks_;
  Displacing& displacing_;
  Admission& admission_;
  Passing& passing_;
  KeptWalk& kept_walk_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_GATED_WALK_H_
