// What all parts of a scheduler see: its requests, its rows, its steps, and the plan that is being built.
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
#include "takt/scheduler/policy_port.h"
#include "takt/scheduler/step_budget.h"
#include "takt/scheduler/step_ring.h"
#include "takt/scheduler_options.h"
#include "takt/state/request_table.h"
#include "takt/state/revise.h"
#include "takt/state/running_set.h"
#include "takt/state/stats.h"

namespace takt::internal {

// Counts of what is in the table and in the running set. Invariant: they equal a recount.
struct EngineCounts {
  std::int64_t paused = 0, blocked = 0;
  std::int32_t rows = 0, seqs = 0;   // that run
  std::int64_t leaving_blocks = 0;   // of rows that drain or move out, and of requests that are pinned: free soon
  std::int64_t pinned = 0;           // requests that have ended
};

// A started prompt of the plan that is being built, and the tokens that are set aside for it.
struct StartedPrompt {
  std::uint32_t lane = 0;
  std::int32_t aside = 0;
};
// Drafts of a row that is planned: all, and those for which there is memory.
struct DraftOffer {
  std::size_t entry = 0;
  std::uint32_t lane = 0;
  std::int32_t all = 0, tokens = 0;
};

// The plan that is being built, and of the last one what the next depends on.
struct Draft {
  StepPlan* plan = nullptr;
  PlanEntry* entries = nullptr;
  Step* of = nullptr;               // whose plan it is
  const PlanEntry* last = nullptr;  // entries of the last plan that was built
  std::uint16_t step = 0;           // its bits in Row::in_flight
  std::size_t planned = 0;          // entries so far
  std::size_t indexed = 0;          // of these, the number that entry_of_lane finds
  // As far as `indexed`, and of the result that is being read: index + 1; 0 elsewhere.
  std::vector<std::uint32_t> entry_of_lane;
  std::vector<StartedPrompt> prompts;  // that are yet to be planned
  std::vector<DraftOffer> offers;
  // By lane: when it last got as much as any row, in a plan that had too little for all drafts, or was admitted.
  std::vector<std::uint64_t> served;
  std::uint64_t turn = 0;  // of the last of them
  bool short_of_kv = false;
  bool refused = false, row_refused = false;  // by the oracle: anything; something for a row that runs
  bool kept_out = false;                      // by the oracle: a waiting request, perhaps in an earlier build
  bool displaced = false;                     // a row gave up its place, or its share of the step
  bool crowded = false;           // a prompt had too little room for its next chunk, and an empty step has enough
  bool prompts_first = false;     // prompts are computed before rows decode, for such a prompt
  std::int32_t crowded_plans = 0;  // crowded plans in a row since the last with prompts first
  WaitsFor top_waits_for = WaitsFor::kItsTurn;  // what keeps out the first request that is not passed over
  Slot head = kNoSlot;                          // this request; kNoSlot: the first of all, or none
};

// Each part of a scheduler has a reference to it, and state of its own. Whoever changes a request's status or a row
// keeps the counts: parts call Lives for that.
//
// Invariant: a request has a lane if it runs, or if steps or moves in flight name its row.
struct EngineState {
  EngineState(const SchedulerOptions& o, PolicyPort& policies, std::size_t entries)
      : options(o), queue(policies), steps(o.first_step, entries) {}

  const SchedulerOptions options;
  PolicyPort& queue;
  RequestTable table;
  RunningSet running;
  StepRing steps;
  StepBudget budget;
  AdapterSet adapters;
  Draft draft;
  EngineCounts counts;
  Notices notices;                      // of the next plan
  std::vector<Slot> ended;              // of the released: erased by the plan that names them
  std::vector<std::uint32_t> left_out;  // lanes that the next plan leaves out
  std::vector<Slot> scratch;            // of the search that is under way
  Stats stats;
  TimePoint now = kUnset;
  bool draining = false;
  std::size_t slots_reserved = 0;

  static bool Runs(const Row& row) { return row.state == RowState::kSteady || row.state == RowState::kUnsteady; }
  static std::int32_t Sequences(const Record& record) { return record.state.request.sequences; }
  // Whether the limit on sequences has fallen, so that not all rows may run, and this row may not.
  bool Crowds(const Row& row) const { return row.sequences > budget.seqs && counts.seqs > budget.limits.max_seqs; }
  auto StateOf() const {
    return [this](Slot slot) -> const RequestState& { return table[slot].state; };
  }

  // What its policy sees of a request that runs, brought up to date.
  RequestState& StateOfRow(const Row& row) {
    RequestState& state = table[row.slot].state;
    state.generated = {row.generated};
    state.has_run |= row.generated > 0;
    return state;
  }

  // Why it could not be let in by these limits, or by what is in use, whatever else were free: those behind it need not
  // wait for it. kNothing: it could.
  WaitsFor PassedOverFor(const Record& record) const {
    const Request& r = record.state.request;
    if (record.lane != kNoLane || record.transit != Transit::kNone) return WaitsFor::kMove;
    if (r.sequences > budget.limits.max_seqs) return WaitsFor::kSequences;
    if (r.sequences > budget.limits.tokens.value && record.cpu_blocks == 0) return WaitsFor::kBudget;
    if (!queue.Admits(record.state, now)) return WaitsFor::kDeclined;
    if (r.adapter && !adapters.Fits(r.adapter, budget.limits.adapters)) return WaitsFor::kAdapter;
    return WaitsFor::kNothing;
  }

  // Whether no step of these limits can run it, as far as its prompt and its sequences tell; with what is cached of its
  // prompt one may.
  bool NeedsLargerStep(const Record& record) const {
    const Request& r = record.state.request;
    if (r.sequences > budget.limits.max_seqs) return true;
    if (record.cpu_blocks > 0) return false;
    if (r.sequences > budget.limits.tokens.value) return true;
    return record.computed == 0 && !budget.Fits(r, 0, record.known);
  }

  // Known tokens after which nothing more is computed: the host's own cap on output, or what can be counted.
  std::int32_t OutputCap(const Record& record) const {
    const Request& r = record.state.request;
    if (r.max_output_tokens.value == 0) return kMostContext;
    return static_cast<std::int32_t>(
        std::min<std::int64_t>(kMostContext, std::int64_t{r.prompt_tokens.value} + record.state.returned.value +
                                                 std::int64_t{r.sequences} * r.max_output_tokens.value));
  }

  // Brings up to date what is derived from a row's other fields.
  void Refresh(Row& row, const Record& record) {
    if (row.in_flight == 0) row.prefilling = row.generated == 0 || row.known - row.computed != row.sequences;
    row.cap = OutputCap(record);
    row.ceiling = std::min(row.capacity, row.cap - 1);
  }

  // What is in flight for this row does not count.
  void Void(Row& row) {
    stats.tokens_void += static_cast<std::uint64_t>(row.scheduled - row.computed);
    row.in_flight &= static_cast<std::uint16_t>(~Row::kCounting);
    // A request that ended without a token may have done so before the result of the step that computes what was known.
    row.computed = std::min(row.computed, row.known);
    row.scheduled = row.computed;
    row.expected = row.known;
  }
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_STATE_H_
