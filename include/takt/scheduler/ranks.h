// BasicScheduler, continued: what keys are made from, and when they are made again.
#ifndef TAKT_SCHEDULER_RANKS_H_
#define TAKT_SCHEDULER_RANKS_H_

#include "takt/basic_scheduler.h"

namespace takt {

// What a key may depend on besides the request itself, as it is now.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Score(Record& record) {
  RequestState& state = record.state;
  state.computed = {KeptOf(record).computed};
  if (Holds()) state.cached = {CachedTokensOf(record)};
  if constexpr (RefreshingPolicy<Policy>) {
    if (queue_.policy().refresh_interval() > 0) {
      state.beside = static_cast<std::int32_t>(std::min<std::int64_t>(RunningTokens(), INT32_MAX));
    }
  }
  if constexpr (PredictingPause<Pause>) {
    if constexpr (requires { pause_.predicts(); }) {
      if (!pause_.predicts()) return;
    }
    if (!state.request.next_call) return;
    PauseView view = ViewOf(record);
    view.context = {record.known};  // it will all have been computed
    state.at_call = pause_.Predict(state, view);
  }
}

// A waiting request's key may have changed.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Rank(Slot slot) {
  Record& record = table_[slot];
  Score(record);
  queue_.Update(slot, record.state, now_);
}

// What its policy sees of a request that runs, brought up to date.
template <RankPolicy Policy, PausePolicy Pause>
RequestState& BasicScheduler<Policy, Pause>::StateOfRow(const Row& row) {
  RequestState& state = table_[row.slot].state;
  state.generated = {row.generated};
  state.has_run |= row.generated > 0;
  return state;
}

// A running request's key may have changed.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::RankRow(std::uint32_t lane) {
  const Row row = running_.Look(lane);
  RequestState& state = StateOfRow(row);
  state.computed = {row.computed};
  queue_.Enter(state, now_);
  victims_.keys[lane] = queue_.VictimKeyOf(state, now_);
}

// The next slice of those that wait is scored again.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::RefreshScores() {
  if constexpr (RefreshingPolicy<Policy>) {
    const std::int64_t interval = queue_.policy().refresh_interval();
    if (interval <= 0 || interval == kForever) return;
    const auto slots = static_cast<std::int64_t>(table_.slots());
    for (std::int64_t n = (slots + interval - 1) / interval; n > 0; --n) {
      if (counts_.refresh_next >= table_.slots()) counts_.refresh_next = 0;
      const Slot slot = counts_.refresh_next++;
      if (table_[slot].status == RequestStatus::kWaiting) Rank(slot);
    }
  }
}

// A policy that prices resources hears what the first of the queue waits for.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TellPressure() {
  if constexpr (PressurePolicy<Policy>) {
    const std::int64_t tokens = Counts() || kv_.oracle != nullptr ? std::int64_t{TotalBlocks()} * kv_.block_tokens : 0;
    const auto kv_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(tokens, INT32_MAX));
    queue_.TellPressure({queue_.empty() ? WaitsFor::kNothing : draft_.top_waits_for, budget_.limits, {kv_tokens}},
                        now_);
  }
}

// Whether the policy is to be told what steps have computed.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::TellsOfSteps() const {
  if constexpr (requires { queue_.policy().wants_scheduled(); }) return queue_.policy().wants_scheduled();
  return ScheduledPolicy<Policy>;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TellScheduled(const PlanEntry& entry, std::int32_t prefill, std::int32_t output) {
  if constexpr (ScheduledPolicy<Policy>) {
    if (!TellsOfSteps()) return;
    const Row& row = running_.Stored(entry.lane);  // of such a policy none stands
    RequestState& state = table_[row.slot].state;
    state.generated = {row.generated};
    if (queue_.Scheduled(state, Tokens{prefill}, Tokens{output}))
      victims_.keys[entry.lane] = queue_.VictimKeyOf(state, now_);
  }
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_RANKS_H_
