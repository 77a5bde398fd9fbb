// Computes keys, and decides when to compute them again.
#ifndef TAKT_SCHEDULER_RANKS_H_
#define TAKT_SCHEDULER_RANKS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/turns.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/paused_requests.h"
#include "takt/scheduler/victims.h"

namespace takt::internal {

// Invariant: the key of a waiting request matches its state at its last scoring. The victim key of a row matches the
// state that the policy last observed.
class Ranks {
 public:
  Ranks(EngineState& s, Kv& kv, Turns& turns, Prefixes& prefixes, PausedRequests& pauses, Victims& victims)
      : s_(s), kv_(kv), turns_(turns), prefixes_(prefixes), pauses_(pauses), victims_(victims) {}

  // Updates the parts of a request's state that its key may depend on.
  void Score(Record& record) {
    RequestState& state = record.state;
    state.computed = {pauses_.KeptOf(record).computed};
    if (turns_.Holds()) state.cached = {prefixes_.CachedTokensOf(record)};
    if (s_.queue.refresh_interval() > 0) {
      state.beside = static_cast<std::int32_t>(std::min<std::int64_t>(pauses_.RunningTokens(), INT32_MAX));
    }
    if (!s_.queue.predicts() || !state.request.next_call) return;
    PauseView view = pauses_.ViewOf(record);
    view.context = {record.known};  // all known tokens will be computed at the next tool call
    state.at_call = s_.queue.Predict(state, view);
  }

  // Updates the key of a waiting request.
  void Rank(Slot slot) {
    Record& record = s_.table[slot];
    Score(record);
    s_.queue.Update(slot, record.state, s_.now);
  }

  // Updates the key of a running request.
  void RankRow(std::uint32_t lane) {
    const Row row = s_.running.Look(lane);
    RequestState& state = s_.StateOfRow(row);
    state.computed = {row.computed};
    s_.queue.Enter(state, s_.now);
    s_.queue.SetLane(lane, state);
    victims_.SetKey(lane, state);
  }

  // Scores the next slice of waiting requests again.
  void RefreshScores() {
    const std::int64_t interval = s_.queue.refresh_interval();
    if (interval <= 0 || interval == kForever) return;
    const auto slots = static_cast<std::int64_t>(s_.table.slots());
    for (std::int64_t n = (slots + interval - 1) / interval; n > 0; --n) {
      if (refresh_next_ >= s_.table.slots()) refresh_next_ = 0;
      const Slot slot = refresh_next_++;
      if (s_.table[slot].status == RequestStatus::kWaiting) Rank(slot);
    }
  }

  // If the policy prices resources, reports which resource the head of the queue waits for.
  void ReportPressure() {
    if (!s_.queue.hooks().pressure) return;
    const bool counted = kv_.Counts() || kv_.oracle != nullptr;
    const std::int64_t tokens = counted ? std::int64_t{kv_.TotalBlocks()} * kv_.block_tokens : 0;
    const auto kv_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(tokens, INT32_MAX));
    const WaitsFor top = s_.queue.empty() ? WaitsFor::kNothing : s_.draft.top_waits_for;
    s_.queue.ReportPressure({top, s_.budget.limits, {kv_tokens}}, s_.now);
  }

  // Returns true if the policy observes the tokens that steps compute.
  bool ReportsSteps() const { return s_.queue.hooks().scheduled; }

  void ReportScheduled(const PlanEntry& entry, std::int32_t prefill, std::int32_t output) {
    if (!ReportsSteps()) return;
    RequestState& state = s_.table[s_.running.Stored(entry.lane).slot].state;
    state.generated = {s_.running.Generated(entry.lane)};
    if (s_.queue.Scheduled(state, Tokens{prefill}, Tokens{output})) victims_.SetKey(entry.lane, state);
  }

  // Calls ReportScheduled with one output token for each of these entries of a standing plan.
  void ReportStanding(std::span<const PlanEntry> run, std::uint64_t plan) {
    if (!ReportsSteps() || run.empty()) return;
    s_.queue.ScheduledAll({run, plan, s_.running, s_.table},
                          [this](std::uint32_t lane, const RequestState& state) { victims_.SetKey(lane, state); });
  }

  // Updates the cached tokens of waiting requests, for at most kMostLooks slots per plan. A request's cached tokens
  // fall if blocks are evicted, and grow if another request computes a shared prefix.
  void LookUpHits() {
    if (to_look_up_ == 0) {
      const std::uint64_t lost = kv_.ledger.awaited_lost();
      if (lost == lost_ && Between(looked_up_, s_.now) < std::chrono::seconds(1)) return;
      lost_ = lost;
      looked_up_ = s_.now;
      to_look_up_ = s_.table.slots();
    }
    for (std::size_t n = std::min(to_look_up_, Gate::kMostLooks); n > 0; --n) {
      const auto slot = static_cast<Slot>(--to_look_up_);
      const Record& record = s_.table[slot];
      if (record.status != RequestStatus::kWaiting) continue;
      const std::int32_t cached = prefixes_.CachedTokensOf(record);
      if (cached != record.state.cached.value) Rank(slot);
    }
  }

 private:
  EngineState& s_;
  Kv& kv_;
  Turns& turns_;
  Prefixes& prefixes_;
  PausedRequests& pauses_;
  Victims& victims_;
  Slot refresh_next_ = 0;  // slot to score next
  // Time of the last lookup round, slots that remain in it, and awaited_lost() at its start.
  TimePoint looked_up_ = {};
  std::size_t to_look_up_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_RANKS_H_
