// The questions of a plan to a KvOracle.
#ifndef TAKT_SCHEDULER_ORACLE_QUESTIONS_H_
#define TAKT_SCHEDULER_ORACLE_QUESTIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/entries.h"
#include "takt/scheduler/new_rows.h"

namespace takt::internal {

// Invariant: a refused reservation leaves the plan and has no other effect.
class OracleQuestions {
 public:
  OracleQuestions(EngineState& s, Kv& kv, Lives& lives, Entries& entries, NewRows& new_rows)
      : s_(s), kv_(kv), lives_(lives), entries_(entries), new_rows_(new_rows) {}

  // Returns true if only the oracle knows how much of the prompt is cached.
  static bool MayAskOf(const Record& record) {
    return record.lane == kNoLane && record.blocks == 0 && record.cpu_blocks == 0;
  }

  // Returns the prompt tokens in the oracle's prefix cache. The oracle is asked about each request once per plan, and
  // again after a call of Reserve. The question about a request also covers the first few requests of `next`.
  std::int32_t CachedOf(Slot slot, std::span<const Slot> next) {
    if (s_.table[slot].cached_at == kv_.round.hits_of()) return s_.table[slot].cached;
    kv_.round.BeginQuestion();
    const auto ask = [this](Slot asked) {
      Record& record = s_.table[asked];
      record.cached_at = kv_.round.hits_of();
      kv_.round.Ask(asked, record.state.request);
    };
    ask(slot);
    for (std::size_t i = 0; i < next.size() && !kv_.round.asks_enough(); ++i) {
      const Record& record = s_.table[next[i]];
      if (record.cached_at != kv_.round.hits_of() && MayAskOf(record)) ask(next[i]);
    }
    kv_.oracle->CachedTokens(kv_.round.hits());
    kv_.round.EndQuestion([this](Slot asked, Tokens hit) {
      Record& record = s_.table[asked];
      record.cached = std::clamp(hit.value, 0, record.state.request.prompt_tokens.value - 1);
    });
    return s_.table[slot].cached;
  }

  // Adds an admission to the next question.
  void Wish(Slot slot, const Candidate& candidate, std::int32_t blocks) {
    const Record& record = s_.table[slot];
    kv_.round.AddCandidate(
        candidate, s_.Sequences(record),
        {record.state.request.id, {record.blocks * kv_.block_tokens}, {blocks * kv_.block_tokens}, true, false},
        blocks - record.blocks);
    s_.adapters.Add(record.state.request.adapter);
    if (s_.ceilings != nullptr) s_.ceilings->Asked(record);
  }

  // Asks the oracle for all reservations of this plan. Refused rows and requests are left out of this plan and lose
  // nothing. Free memory is always read from the oracle's snapshot, so a granted admission takes nothing from a refused
  // row.
  void AskOracle() {
    const std::span<KvReservation> wishes = kv_.round.Close();
    if (wishes.empty()) return;
    if (s_.ceilings != nullptr) s_.ceilings->Answered();
    kv_.oracle->Reserve(s_.draft.plan->id, wishes);
    kv_.CountAgain();
    kv_.round.ForgetHits();
    std::size_t candidate = 0;
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      const KvReservation& wish = wishes[i];
      const std::uint32_t lane = kv_.round.lane(i);
      if (wish.granted && lane != kNoLane) continue;
      s_.stats.oracle_refused += wish.granted ? 0 : 1;
      if (!wish.granted && lane != kNoLane && LeaveDrafts(lane, wish)) continue;
      s_.draft.refused |= !wish.granted;
      const bool for_ever = !wish.granted && wish.refusal == KvRefusal::kForEver;
      s_.draft.displaced |= for_ever;
      if (lane != kNoLane) {
        s_.draft.row_refused = true;
        entries_.Unplan(lane);
        kv_.WithdrawBlocks(s_.running[lane], wish);
        if (for_ever) lives_.Fail(s_.running.Stored(lane).slot, FailReason::kKvExhausted);
        continue;
      }
      const Candidate c = kv_.round.candidate(candidate++);
      Record& record = s_.table[c.slot];
      // Return the reserved budget. If the request is admitted, Admit reserves the budget again.
      s_.budget.GiveBack(c.tokens, c.prefill);
      s_.adapters.Remove(record.state.request.adapter);
      record.refused_at = wish.granted ? 0 : s_.stats.plans;
      if (!wish.granted) {
        s_.draft.kept_out = true;
        s_.draft.top_waits_for = WaitsFor::kKv;
        if (c.tokens == 0) s_.budget.swap_in += record.cpu_blocks;
        if (for_ever) lives_.Fail(c.slot, FailReason::kNeverFits);
        continue;
      }
      if (record.cpu_blocks > 0) {
        new_rows_.SwapIn(c.slot, std::max(kv_.BlocksFor(record), record.cpu_blocks));
      } else {
        record.blocks = std::max(kv_.BlocksFor(record), record.blocks);
        new_rows_.Admit(c.slot, c.start, c.tokens);
      }
    }
    kv_.round.Clear();
  }

 private:
  // Removes draft tokens without memory from an entry whose reservation was refused. Returns false if the reservation
  // was for the row's own token.
  bool LeaveDrafts(std::uint32_t lane, const KvReservation& wish) {
    PlanEntry* const entry = entries_.EntryOf(lane);
    const Row& row = s_.running[lane];
    if (entry == nullptr || entry->speculative == 0 || row.scheduled - entry->speculative > wish.have.value)
      return false;
    entries_.AddDrafts(*entry, wish.have.value - row.scheduled);
    kv_.WithdrawBlocks(s_.running[lane], wish);
    return true;
  }

  EngineState& s_;
  Kv& kv_;
  Lives& lives_;
  Entries& entries_;
  NewRows& new_rows_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_ORACLE_QUESTIONS_H_
