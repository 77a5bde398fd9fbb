// The entries of the plan under construction.
#ifndef TAKT_SCHEDULER_ENTRIES_H_
#define TAKT_SCHEDULER_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"

namespace takt::internal {

// Invariant: entry_of_lane finds the first `indexed` entries. Removing an entry returns its tokens to the budget.
class Entries {
 public:
  Entries(EngineState& s, Kv& kv) : s_(s), kv_(kv) {}

  void Emit(std::uint32_t lane, std::int32_t tokens, std::uint16_t flags) {
    Row& row = s_.running[lane];
    const bool samples = row.scheduled + tokens == row.expected;
    if (samples) flags |= PlanEntry::kSamples;
    if (row.steps == 0) {
      flags |= PlanEntry::kAdmitted;
      if (std::exchange(s_.table[row.slot].gated, false)) flags |= PlanEntry::kGated;
    }
    s_.draft.entries[s_.draft.planned++] = {row.request, lane, tokens, row.scheduled, 0, flags};
    row.scheduled += tokens;
    s_.budget.tokens -= tokens;
    s_.budget.seqs -= row.sequences;
    s_.draft.plan->tokens += {tokens};
    if (row.prefilling) s_.budget.prefill -= tokens;
    if (samples) {
      row.expected += row.sequences;
      row.prefilling = false;
      if (row.sequences == s_.Sequences(s_.table[row.slot])) row.state = RowState::kSteady;
    }
    row.drafts = 0;
    row.in_flight |= s_.draft.step;
    ++row.steps;
  }

  // Returns the entry of a row in the plan under construction; null if it has none.
  PlanEntry* EntryOf(std::uint32_t lane) {
    for (; s_.draft.indexed < s_.draft.planned; ++s_.draft.indexed)
      s_.draft.entry_of_lane[s_.draft.entries[s_.draft.indexed].lane] =
          static_cast<std::uint32_t>(s_.draft.indexed + 1);
    const std::uint32_t at = s_.draft.entry_of_lane[lane];
    return at == 0 ? nullptr : &s_.draft.entries[at - 1];
  }

  // Removes the entry and the reservation of a row from the plan. Returns false if it has no entry. Each removal leaves
  // gaps, which CloseGaps removes later.
  bool Unplan(std::uint32_t lane) {
    PlanEntry* const found = EntryOf(lane);
    if (found == nullptr) return false;
    s_.draft.entry_of_lane[lane] = 0;
    PlanEntry& entry = *found;
    Row& row = s_.running[lane];
    if (kv_.oracle != nullptr) {
      if (const auto wish = kv_.round.Withdraw(lane)) kv_.WithdrawBlocks(row, *wish);
    }
    const std::int32_t tokens = entry.tokens + entry.speculative;
    row.scheduled -= tokens;
    if (entry.samples()) row.expected -= row.sequences + entry.speculative;
    row.prefilling = entry.prefill();
    if (entry.prefill()) row.state = RowState::kUnsteady, s_.budget.prefill += entry.tokens;
    --row.steps;
    row.in_flight &= static_cast<std::uint16_t>(~s_.draft.step);
    s_.budget.tokens += tokens;
    s_.budget.seqs += row.sequences;
    s_.draft.plan->tokens -= {tokens};
    entry.lane = kNoLane;
    return true;
  }

  // Compacts the plan after removals.
  void CloseGaps() {
    if (s_.draft.indexed == 0) return;
    std::size_t kept = 0;
    const std::size_t stood = s_.draft.of->standing;
    for (std::size_t i = 0; i < s_.draft.planned; ++i) {
      if (s_.draft.entries[i].lane == kNoLane) {
        s_.draft.of->standing -= i < stood ? 1u : 0u;
        continue;
      }
      s_.draft.entry_of_lane[s_.draft.entries[i].lane] = 0;
      s_.draft.entries[kept++] = s_.draft.entries[i];
    }
    s_.draft.planned = kept;
    s_.draft.indexed = 0;
  }

  // Adds n draft tokens to the entry of a row, or removes them if n is negative.
  void AddDrafts(PlanEntry& entry, std::int32_t n) {
    Row& row = s_.running[entry.lane];
    entry.speculative = static_cast<std::uint16_t>(entry.speculative + n);
    row.scheduled += n;
    row.expected += n;
    s_.budget.tokens -= n;
    s_.draft.plan->tokens += {n};
  }

 private:
  EngineState& s_;
  Kv& kv_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ENTRIES_H_
