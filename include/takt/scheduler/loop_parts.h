// The parts of a scheduler, and the start of each call.
#ifndef TAKT_SCHEDULER_LOOP_PARTS_H_
#define TAKT_SCHEDULER_LOOP_PARTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "takt/base/owner.h"
#include "takt/scheduler/parts.h"
#include "takt/scheduler/storage.h"

namespace takt::internal {

// Invariant: between calls nothing is reserved, requested or half done, unless an exception left a call incomplete.
struct LoopParts : Parts {
  LoopParts(const SchedulerOptions& options, PolicyPort& policies, KvOracle* oracle)
      : Parts(options, policies, oracle,
              2 * Storage::RowsOf(options, static_cast<std::size_t>(options.reserve_requests))),
        storage(*this, options) {}

  // Each call first checks MayEnter, then reserves memory, and then calls Enter.
  bool MayEnter() { return faults.desk.MayEnter(state.stats.calls_after_end, {state.steps.last()}); }
  TimePoint Enter(TimePoint now) {
    state.now = faults.desk.Enter(now, state.stats.clock_stepped_back, {state.steps.last()});
    kv.ledger.SetNow(state.now);
    kv.CountAgain();  // the oracle's memory may have changed since the last call
    return state.now;
  }

  // Consecutive crowded plans after which the next plan computes prompts before decodes.
  static constexpr std::int32_t kMostCrowdedPlans = 4;
  void Build() {
    state.budget.BeginBuild(state.pacer.paced());
    // Running rows that lacked memory are planned first. Otherwise admissions would take the freed memory every time.
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
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_LOOP_PARTS_H_
