// BasicScheduler, continued: what a plan asks a KvOracle for.
#ifndef TAKT_SCHEDULER_ORACLE_H_
#define TAKT_SCHEDULER_ORACLE_H_

#include "takt/basic_scheduler.h"

namespace takt {

// What the oracle's prefix cache has of its prompt. It is asked about a request once a plan, unless it has been asked
// to reserve since, and then about the first of the `next` requests too.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::CachedOf(Slot slot, std::span<const Slot> next) {
  if (table_[slot].cached_at == round_.hits_of()) return table_[slot].cached;
  round_.BeginQuestion();
  const auto ask = [this](Slot asked) {
    Record& record = table_[asked];
    record.cached_at = round_.hits_of();
    round_.Ask(asked, record.state.request);
  };
  ask(slot);
  for (std::size_t i = 0; i < next.size() && !round_.asks_enough(); ++i) {
    const Record& record = table_[next[i]];
    if (record.cached_at != round_.hits_of() && record.lane == kNoLane && record.blocks == 0 && record.cpu_blocks == 0)
      ask(next[i]);
  }
  kv_.oracle->CachedTokens(round_.hits());
  round_.EndQuestion([this](Slot asked, Tokens hit) {
    Record& record = table_[asked];
    record.cached = std::clamp(hit.value, 0, record.state.request.prompt_tokens.value - 1);
  });
  return table_[slot].cached;
}

// An admission that the oracle will be asked about.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Wish(Slot slot, const internal::Candidate& candidate, std::int32_t blocks) {
  const Record& record = table_[slot];
  round_.AddCandidate(
      candidate, Sequences(record),
      {record.state.request.id, {record.blocks * kv_.block_tokens}, {blocks * kv_.block_tokens}, true, false},
      blocks - record.blocks);
  adapters_.Add(record.state.request.adapter);
}

// A row does not get what was wished for its drafts, and runs without those that lack a place. False: the wish was for
// its own token.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::LeaveDrafts(std::uint32_t lane, const KvReservation& wish) {
  PlanEntry* const entry = EntryOf(lane);
  const Row& row = running_[lane];
  if (entry == nullptr || entry->speculative == 0 || row.scheduled - entry->speculative > wish.have.value) return false;
  AddDrafts(*entry, wish.have.value - row.scheduled);
  WithdrawBlocks(running_[lane], wish);
  return true;
}

// Asks the host's oracle for all that this plan needs. What it refuses is left out of this plan and loses nothing: how
// much memory there is, its counts alone tell. So an admission that it grants takes nothing from a row that it refuses.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AskOracle() {
  const std::span<KvReservation> wishes = round_.Close();
  if (wishes.empty()) return;
  kv_.oracle->Reserve(draft_.plan->id, wishes);
  kv_.counted = false;
  round_.ForgetHits();
  std::size_t candidate = 0;
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    const KvReservation& wish = wishes[i];
    stats_.oracle_refused += wish.granted ? 0 : 1;
    const std::uint32_t lane = round_.lane(i);
    if (!wish.granted && lane != kNoLane && LeaveDrafts(lane, wish)) continue;
    draft_.refused |= !wish.granted;
    const bool for_ever = !wish.granted && wish.refusal == KvRefusal::kForEver;
    draft_.displaced |= for_ever;
    if (lane != kNoLane) {
      if (wish.granted) continue;
      draft_.row_refused = true;
      Unplan(lane);
      WithdrawBlocks(running_[lane], wish);
      if (for_ever) Fail(running_.Stored(lane).slot, FailReason::kKvExhausted);
      continue;
    }
    const internal::Candidate c = round_.candidate(candidate++);
    Record& record = table_[c.slot];
    // What was set aside for it: Admit takes it again, and a refused request leaves it to others.
    budget_.GiveBack(c.tokens, c.prefill);
    adapters_.Remove(record.state.request.adapter);
    record.refused_at = wish.granted ? 0 : stats_.plans;
    if (!wish.granted) {
      draft_.kept_out = true;
      draft_.top_waits_for = WaitsFor::kKv;
      if (c.tokens == 0) budget_.swap_in += record.cpu_blocks;
      if (for_ever) Fail(c.slot, FailReason::kNeverFits);
      continue;
    }
    if (record.cpu_blocks > 0) {
      SwapIn(c.slot, std::max(BlocksFor(record), record.cpu_blocks));
    } else {
      record.blocks = std::max(BlocksFor(record), record.blocks);
      Admit(c.slot, c.start, c.tokens);
    }
  }
  round_.Clear();
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_ORACLE_H_
