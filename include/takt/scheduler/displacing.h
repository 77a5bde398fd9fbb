// BasicScheduler, continued: rows that give way.
#ifndef TAKT_SCHEDULER_DISPLACING_H_
#define TAKT_SCHEDULER_DISPLACING_H_

#include "takt/basic_scheduler.h"

namespace takt {

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Preempt(std::uint32_t lane, bool by_rank) {
  draft_.displaced |= Unplan(lane);
  const Row& row = running_[lane];
  const bool swap = options_.preempt_action == KvAction::kOut && HasOwnKv(table_[row.slot], row.blocks, row.computed) &&
                    row.blocks <= kv_.ledger.cpu_free() && row.blocks <= budget_.swap_out &&
                    row.sequences == Sequences(table_[row.slot]);
  const KvAction action = swap ? KvAction::kOut : KvAction::kDrop;
  ++(swap ? stats_.preempted_swap : stats_.preempted_recompute);
  stats_.preempted_by_rank += by_rank ? 1 : 0;
  notices_.preempted.push_back({row.request, action});
  Depart(lane, action, RequestStatus::kWaiting, row.blocks);
}

// Steps of the row before this plan. A row that gives way in this plan does not run the step that was planned for it.
template <RankPolicy Policy, PausePolicy Pause>
std::int64_t BasicScheduler<Policy, Pause>::StepsBefore(const Row& row) const {
  return row.steps - ((row.in_flight & draft_.step) != 0 ? 1 : 0);
}

// Promoted rows are better than all others; then by rank, as of now.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::RankOfRow(std::uint32_t lane) -> Victim {
  const Row row = running_.Look(lane);
  const RequestState& state = StateOfRow(row);
  return {state.request.preemptible,
          {!queue_.PromotedWith(row.slot, StepsBefore(row)),
           {queue_.VictimGroupOf(state), queue_.moving() ? queue_.VictimKeyOf(state, now_) : victims_.keys[lane]}}};
}

// The row to preempt first; kNoLane where there is none. The first question of a plan looks at all rows, and keeps them
// in order: their ranks change between plans.
template <RankPolicy Policy, PausePolicy Pause>
std::uint32_t BasicScheduler<Policy, Pause>::Worst(bool preemptible_only) {
  if (!std::exchange(victims_.gathered, true)) {
    for (std::uint32_t lane : running_.order()) {
      if (Runs(running_.Stored(lane)) && !victims_.heap.contains(lane)) victims_.heap.Push(lane, {});
    }
    victims_.heap.UpdateAll([this](std::uint32_t lane) { return RankOfRow(lane); });
  }
  const std::uint32_t worst = victims_.heap.Top();
  return preemptible_only && worst != kNoLane && !victims_.heap.TopKey().preemptible ? kNoLane : worst;
}

// A waiting request may displace a running one; equal ranks never swap. One that was let in runs a step first: else two
// requests whose keys follow their waiting could displace each other for ever.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Outranks(Slot slot, std::uint32_t lane) {
  const Row row = running_.Look(lane);
  const std::int64_t steps = StepsBefore(row);
  if (steps == 0 || queue_.PromotedWith(row.slot, steps)) return false;
  if (queue_.promoted(slot)) return true;
  return queue_.Outranks(table_[slot].state, StateOfRow(row), options_.preempt_margin, now_);
}

// PreemptMode::kByRank: frees a row's place, or its memory, for the first of the queue. False: nothing to gain.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::MakeWayFor(Slot slot) {
  if (slot == kNoSlot || (draft_.top_waits_for != WaitsFor::kSequences && draft_.top_waits_for != WaitsFor::kKv))
    return false;
  const Record& record = table_[slot];
  if (record.refused_at > kv_.freed_at) return false;  // as it would be again, perhaps: no row loses its place for that
  const std::uint32_t worst = Worst(true);
  if (worst == kNoLane || !Outranks(slot, worst)) return false;
  if (kv_.block_tokens > 0) {
    // Those that it outranks, up to the first that it does not, must be enough together, or nothing is gained.
    const std::int64_t need = std::max(BlocksFor(record), record.cpu_blocks) - record.blocks + kv_.watermark;
    const std::int64_t missing = need - FreeBlocks() - Pending();
    if (missing > 0 && (victims_.way_for != slot || victims_.way_blocks < missing)) {
      victims_.way_for = slot;
      victims_.way_blocks = 0;
      victims_.heap.VisitInOrder([&](std::uint32_t lane) {
        const Row row = running_.Look(lane);
        if (!table_[row.slot].state.request.preemptible || !Outranks(slot, lane)) return false;
        victims_.way_blocks += row.blocks;
        return victims_.way_blocks < missing;
      });
      if (victims_.way_blocks < missing) return false;
    }
    if (draft_.top_waits_for == WaitsFor::kKv && Pending() > 0) return false;
  }
  if (victims_.way_for == slot) victims_.way_blocks -= running_.Look(worst).blocks;  // the first of them
  const bool resolved = running_.Look(worst).in_flight == 0;
  const Slot victim = running_.Stored(worst).slot;
  Preempt(worst, true);
  draft_.displaced = true;
  // The displaced request may come first even so, since its key follows what it has done: then it would displace back.
  if (queue_.contains(victim) && queue_.IsBefore(victim, slot)) return false;
  return resolved || draft_.top_waits_for == WaitsFor::kSequences;
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_DISPLACING_H_
