// The parts of a scheduler, and what each of its calls begins with.
#ifndef TAKT_SCHEDULER_LOOP_PARTS_H_
#define TAKT_SCHEDULER_LOOP_PARTS_H_

#include <algorithm>
#include <cstdint>

#include "takt/base/owner.h"
#include "takt/scheduler/parts.h"
#include "takt/scheduler/storage.h"

namespace takt::internal {

// Invariant: `inside` is true during a call; between calls it says that an exception has left one half-way.
struct LoopParts : Parts {
  LoopParts(const SchedulerOptions& options, PolicyPort& policies, KvOracle* oracle)
      : Parts(options, policies, oracle,
              2 * Storage::RowsOf(options, static_cast<std::size_t>(options.reserve_requests))),
        storage(*this, options) {}

  TimePoint Clock(TimePoint now) {
    if (now < state.now) {
      faults.Blame(&Stats::clock_stepped_back, {.kind = FaultKind::kClockBack,
                                                .said = now.time_since_epoch().count(),
                                                .expected = state.now.time_since_epoch().count()});
    }
    state.now = std::max(now, state.now);
    kv.ledger.SetNow(state.now);
    kv.CountAgain();  // each call begins here, and an oracle may have come to have other memory
    return state.now;
  }
  void Ended() { faults.Blame(&Stats::calls_after_end, {.kind = FaultKind::kEnded}); }

  // Crowded plans in a row, after which the next plan computes prompts before rows decode.
  static constexpr std::int32_t kMostCrowdedPlans = 4;
  void Build() {
    state.budget.BeginBuild();
    // What had no memory last time is asked first: else what was freed for it goes to admissions, again and again.
    const bool lacked_kv = state.draft.short_of_kv || state.draft.row_refused;
    state.draft.prompts_first = state.draft.crowded_plans >= kMostCrowdedPlans && !lacked_kv;
    const bool running_first =
        (state.options.order == StepOrder::kRunningFirst && !state.draft.prompts_first) || lacked_kv;
    state.draft.short_of_kv = state.draft.displaced = state.draft.refused = state.draft.row_refused = false;
    state.draft.crowded = false;
    state.draft.top_waits_for = WaitsFor::kItsTurn;
    state.draft.head = kNoSlot;
    kv.round.Clear();

    if (running_first) {
      rows.PlanRunning();
      if (!state.draft.prompts.empty()) rows.PlanPrompts();
      walk.AdmitWaiting();
    } else {
      rows.PlanPrefills();
      if (!state.draft.prompts.empty()) rows.PlanPrompts();
      walk.AdmitWaiting();
      rows.PlanLongPrompts();
      rows.PlanDecodes();
      if (!state.draft.prompts.empty()) rows.PlanPrompts();
    }
    rows.PlanLongPrompts();
    if (!state.draft.offers.empty()) rows.PlanDrafts();
    if (!kv.round.empty()) questions.AskOracle();
    entries.CloseGaps();
  }

  Storage storage;
  Owner owner;
  bool inside = false;  // a call; between calls: one was left half-way
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_LOOP_PARTS_H_
