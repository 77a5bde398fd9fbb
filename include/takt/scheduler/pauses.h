// BasicScheduler, continued: requests that wait for a tool.
#ifndef TAKT_SCHEDULER_PAUSES_H_
#define TAKT_SCHEDULER_PAUSES_H_

#include "takt/basic_scheduler.h"

namespace takt {

// The KV that a request has, or will have once the steps in flight for it have resolved.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::KeptOf(const Record& record) const -> Kept {
  if (record.lane == kNoLane) return {record.computed, record.blocks};
  const Row row = running_.Look(record.lane);
  if (record.status == RequestStatus::kRunning || record.leave_action == KvAction::kKeep)
    return {row.computed, row.blocks};
  if (record.leave_action == KvAction::kDrop) return {};
  const bool part = record.cpu_blocks < row.blocks;
  return {part ? std::min(row.computed, record.cpu_blocks * kv_.block_tokens) : row.computed, row.blocks};
}

// Context of all that run; counted once a plan.
template <RankPolicy Policy, PausePolicy Pause>
std::int64_t BasicScheduler<Policy, Pause>::RunningTokens() {
  if (counts_.context_of == steps_.last()) return counts_.context;
  counts_.context_of = steps_.last();
  counts_.context = 0;
  for (std::uint32_t lane : running_.order()) {
    if (const Row row = running_.Look(lane); Runs(row)) counts_.context += row.computed;
  }
  return counts_.context;
}

template <RankPolicy Policy, PausePolicy Pause>
PauseView BasicScheduler<Policy, Pause>::ViewOf(const Record& record) {
  const Kept kept = KeptOf(record);
  return {.now = now_,
          .context = {kept.computed},
          .running_tokens = RunningTokens(),
          .held = {kept.blocks},
          .kv_free = {kv_.oracle != nullptr ? HostsKv().free.value : kv_.ledger.use().free.value},
          .swap_free = {std::min(kv_.ledger.cpu_free(), std::max(budget_.swap_out, 0))}};
}

// How many blocks move out by a decision; 0: none, or none may.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::BlocksOut(const Record& record, const PauseDecision& decision,
                                                      const PauseView& view) const {
  if (decision.action != KvAction::kOut || record.cpu_blocks > 0 || record.fetching > 0) return 0;
  const std::int32_t blocks = std::clamp(decision.out.value, 0, view.held.value);
  const bool may = blocks <= std::min(kv_.ledger.cpu_free(), budget_.swap_out) &&
                   HasOwnKv(record, blocks, std::min(view.context.value, blocks * kv_.block_tokens));
  return may ? blocks : 0;
}

// KV that a paused request without a lane holds: so many blocks move out, and the rest is dropped.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::LetGo(Slot slot, std::int32_t out) {
  Record& record = table_[slot];
  if (out == 0) return FreeKv(record);
  AllocateCpu(record, out);
  MoveOut(slot);
}

// Asked again at that time, if ever.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::ReviewAt(Slot slot, TimePoint at, const internal::PausedCall& call) {
  if (at != kNever) reviews_.Add(slot, at, call);
}

// The pause policy is asked again about those whose tool takes long.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Review() {
  if constexpr (ReviewingPause<Pause>) {
    constexpr Duration kSoon = std::chrono::milliseconds(1);
    for (Slot slot = reviews_.PopDue(now_); slot != kNoSlot; slot = reviews_.PopDue(now_)) {
      Record& record = table_[slot];
      const internal::PausedCall call = reviews_.call(slot);
      if (record.transit != Transit::kNone) {  // steps in flight name it
        ReviewAt(slot, After(now_, kSoon), call);
        continue;
      }
      if (record.blocks == 0) continue;  // others needed it more
      const PauseView view = ViewOf(record);
      const PauseDecision decision = pause_.Review(record.state, call.call, call.since, view);
      if (decision.action == KvAction::kKeep || decision.action == KvAction::kIn) {
        ReviewAt(slot, std::max(decision.review_at, After(now_, kSoon)), call);
        continue;
      }
      ++stats_.pauses_let_go;
      LetGo(slot, BlocksOut(record, decision, view));
    }
  }
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_PAUSES_H_
