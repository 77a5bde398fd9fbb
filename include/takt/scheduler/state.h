// State that all parts of a scheduler share: requests, rows, steps, and the plan under construction.
#ifndef TAKT_SCHEDULER_STATE_H_
#define TAKT_SCHEDULER_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "takt/config.h"
#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/scheduler/adapter_set.h"
#include "takt/scheduler/pacer.h"
#include "takt/scheduler/policy_port.h"
#include "takt/scheduler/step_budget.h"
#include "takt/scheduler/step_ring.h"
#include "takt/scheduler_options.h"
#include "takt/state/request_table.h"
#include "takt/state/revise.h"
#include "takt/state/running_set.h"
#include "takt/state/stats.h"
#include "takt/state/transition.h"

namespace takt::internal {

class Ceilings;

// Counts of the table and the running set. Invariant: they equal a recount.
struct EngineCounts {
  std::int64_t paused = 0, blocked = 0;
  std::int32_t rows = 0, seqs = 0;  // number of running rows and of their sequences
  std::int64_t leaving_blocks = 0;  // blocks of draining rows, swap-outs and pinned requests, which will be free soon
  std::int64_t pinned = 0;  // ended requests whose KV is pinned
};

// A started prompt of the plan under construction, and the tokens reserved for it.
struct StartedPrompt {
  std::uint32_t lane = 0;
  std::int32_t aside = 0;
};
// Draft tokens of a planned row: number of drafts, and number of drafts with memory.
struct DraftOffer {
  std::size_t entry = 0;
  std::uint32_t lane = 0;
  std::int32_t all = 0, tokens = 0;
};

// The plan under construction, and facts of the last plan that the next one needs.
struct Draft {
  StepPlan* plan = nullptr;
  PlanEntry* entries = nullptr;
  Step* of = nullptr;  // step of the plan
  const PlanEntry* last = nullptr;  // entries of the last built plan
  std::uint16_t step = 0;  // bits of the step in Row::in_flight
  std::size_t planned = 0;  // number of entries so far
  std::size_t indexed = 0;  // entries that entry_of_lane finds
  // By lane: index + 1 of its entry, if that is indexed or part of the result being read; 0 otherwise.
  std::vector<std::uint32_t> entry_of_lane;
  std::vector<StartedPrompt> prompts;  // prompts that must still be planned
  std::vector<DraftOffer> offers;
  // By lane: turn number of the row's admission, or of its last full part when drafts were short of budget.
  std::vector<std::uint64_t> served;
  std::uint64_t turn = 0;  // last turn number
  bool short_of_kv = false;
  bool refused = false, row_refused = false;  // whether the oracle refused a request; whether it refused a running row
  bool kept_out = false;  // the oracle refused a waiting request in some build of this plan
  bool displaced = false;  // a row gave up its place or its share of the step
  bool crowded = false;  // a prompt had too little room for its next chunk, which fits an empty step
  bool prompts_first = false;  // prompts are computed before decodes, for a crowded prompt
  std::int32_t crowded_plans = 0;  // consecutive crowded plans since the last plan with prompts first
  WaitsFor top_waits_for = WaitsFor::kItsTurn;  // why the first request that no other may pass waits
  Slot head = kNoSlot;  // first request that no other may pass; kNoSlot: the head of the queue, or none
};

// State that all parts share. Parts that change a request's status or a row must call Lives, which updates the counts.
//
// Invariant: a request has a lane if and only if it runs, or a step or move in flight uses its row.
struct EngineState {
  EngineState(const SchedulerOptions& o, PolicyPort& policies, std::size_t entries)
      : options(o), queue(policies), steps(o.first_step, entries), pacer(o.token_pace, o.least_prefill.value) {}

  SchedulerOptions options;  // only StepLoop::SetOptions writes it
  PolicyPort& queue;
  RequestTable table;
  RunningSet running;
  StepRing steps;
  StepBudget budget;
  AdapterSet adapters;
  Pacer pacer;
  Draft draft;
  EngineCounts counts;
  Notices notices;  // notices that the next plan reports
  std::vector<Slot> ended;  // released requests, erased by the plan that reports them
  std::vector<std::uint32_t> left_out;  // lanes that the next plan leaves out
  std::vector<Slot> scratch;  // scratch memory of the current search
  Stats stats;
  Observer observer;
  Ceilings* ceilings = nullptr;  // null: neither a class nor a tenant has a ceiling
  TimePoint now = kUnset;
  bool draining = false;
  std::size_t slots_reserved = 0;

  static bool Runs(const Row& row) { return row.state == RowState::kSteady || row.state == RowState::kUnsteady; }
  static std::int32_t Sequences(const Record& record) { return record.state.request.sequences; }
  // Returns true if this row may not run because the limit on sequences has fallen.
  bool Crowds(const Row& row) const { return row.sequences > budget.seqs && counts.seqs > budget.limits.max_seqs; }
  auto StateOf() const {
    return [this](Slot slot) -> const RequestState& { return table[slot].state; };
  }

  // Returns the policy's view of a running request, updated.
  RequestState& StateOfRow(const Row& row) {
    RequestState& state = table[row.slot].state;
    state.generated = {row.generated};
    state.has_run |= row.generated > 0;
    return state;
  }

  // Returns why this request must wait even if all memory were free; kNothing if nothing excludes it. Later requests
  // need not wait for an excluded request.
  WaitsFor PassedOverFor(const Record& record) const;
  // Returns true if the policy or a ceiling keeps this waiting request out for now.
  bool KeptOut(const Record& record) const;

  // Returns true if no step of these limits can run the request's prompt and sequences. The request may still fit if a
  // prefix is cached.
  bool NeedsLargerStep(const Record& record) const {
    const Request& r = record.state.request;
    if (r.sequences > budget.limits.max_seqs) return true;
    if (record.cpu_blocks > 0) return false;
    if (r.sequences > budget.limits.tokens.value) return true;
    return record.computed == 0 && !budget.Fits(r, 0, record.known);
  }

  // Returns the number of known tokens at which output ends: the host's cap, or the largest count.
  std::int32_t OutputCap(const Record& record) const {
    const Request& r = record.state.request;
    if (r.max_output_tokens.value == 0) return kMostContext;
    return static_cast<std::int32_t>(
        std::min<std::int64_t>(kMostContext, std::int64_t{r.prompt_tokens.value} + record.state.returned.value +
                                                 std::int64_t{r.sequences} * r.max_output_tokens.value));
  }

  // Updates the derived fields of a row.
  void Refresh(Row& row, const Record& record) {
    if (row.in_flight == 0) row.prefilling = row.generated == 0 || row.known - row.computed != row.sequences;
    row.cap = OutputCap(record);
    row.ceiling = std::min(row.capacity, row.cap - 1);
  }

  // Reports to the observer that a request has reached its status from another one.
  void Moved(const Record& record, RequestStatus from, TransitionReason why) {
    if (observer.moved != nullptr) [[unlikely]]
      Report(record, from, why, record.state.generated);
  }
  [[gnu::noinline]] void Report(const Record& record, RequestStatus from, TransitionReason why, Tokens generated) {
    observer.moved(observer.context, {record.state.request.id,
                                      record.state.slot,
                                      from,
                                      record.status,
                                      why,
                                      now,
                                      {record.known},
                                      generated,
                                      {record.recomputed},
                                      &record.state.request});
  }

  // Voids the steps in flight for this row.
  void Void(Row& row) {
    stats.tokens_void += static_cast<std::uint64_t>(row.scheduled - row.computed);
    row.in_flight &= static_cast<std::uint16_t>(~Row::kCounting);
    // A request may have ended without output, before the result of the step that computes its known tokens.
    row.computed = std::min(row.computed, row.known);
    row.scheduled = row.computed;
    row.expected = row.known;
  }
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_STATE_H_
