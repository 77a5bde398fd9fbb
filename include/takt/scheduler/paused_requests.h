// Requests that wait for a tool.
#ifndef TAKT_SCHEDULER_PAUSED_REQUESTS_H_
#define TAKT_SCHEDULER_PAUSED_REQUESTS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "takt/scheduler/state.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/review_list.h"
#include "takt/scheduler/resting_kv.h"

namespace takt::internal {

// Invariant: a request has a review if and only if it is paused, its KV is kept, and the pause policy requested a
// review.
class PausedRequests {
 public:
  PausedRequests(EngineState& s, Kv& kv, RestingKv& resting) : s_(s), kv_(kv), resting_(resting) {}

  struct Kept {
    std::int32_t computed = 0, blocks = 0;
  };
  void Reserve(std::size_t slots) {
    if (s_.queue.reviews()) reviews_.Reserve(slots);
  }
  std::size_t reviews() const { return reviews_.size(); }
  TimePoint next_review() const { return reviews_.next(); }
  void Forget(Slot slot) { reviews_.Erase(slot); }

  // Returns the KV that a request will hold after its steps in flight.
  Kept KeptOf(const Record& record) const {
    if (record.lane == kNoLane) return {record.computed, record.blocks};
    const Row row = s_.running.Look(record.lane);
    if (record.status == RequestStatus::kRunning || record.leave_action == KvAction::kKeep)
      return {row.computed, row.blocks};
    if (record.leave_action == KvAction::kDrop) return {};
    const bool part = record.cpu_blocks < row.blocks;
    return {part ? std::min(row.computed, record.cpu_blocks * kv_.block_tokens) : row.computed, row.blocks};
  }

  // Returns the context tokens of all running requests, counted once per plan.
  std::int64_t RunningTokens() {
    if (context_of_ == s_.steps.last()) return context_;
    context_of_ = s_.steps.last();
    context_ = 0;
    for (std::uint32_t lane : s_.running.order()) {
      if (const Row row = s_.running.Look(lane); s_.Runs(row)) context_ += row.computed;
    }
    return context_;
  }

  PauseView ViewOf(const Record& record) {
    const Kept kept = KeptOf(record);
    return {.now = s_.now,
            .context = {kept.computed},
            .running_tokens = RunningTokens(),
            .held = {kept.blocks},
            .kv_free = {kv_.oracle != nullptr ? kv_.HostsKv().free.value : kv_.ledger.use().free.value},
            .swap_free = {std::min(kv_.ledger.cpu_free(), std::max(s_.budget.swap_out, 0))}};
  }

  // Returns the number of blocks that move to host memory after this decision.
  std::int32_t BlocksOut(const Record& record, const PauseDecision& decision, const PauseView& view) const {
    if (decision.action != KvAction::kOut || record.cpu_blocks > 0 || record.fetching > 0) return 0;
    const std::int32_t blocks = std::clamp(decision.out.value, 0, view.held.value);
    const bool may = blocks <= std::min(kv_.ledger.cpu_free(), s_.budget.swap_out) &&
                     kv_.HasOwnKv(record, blocks, std::min(view.context.value, blocks * kv_.block_tokens));
    return may ? blocks : 0;
  }

  // Schedules a review at this time; kNever: none.
  void ReviewAt(Slot slot, TimePoint at, const PausedCall& call) {
    if (at != kNever) reviews_.Add(slot, at, call);
  }

  // Asks the pause policy again about calls whose review is due.
  void Review() {
    if (!s_.queue.reviews()) return;
    constexpr Duration kSoon = std::chrono::milliseconds(1);
    for (Slot slot = reviews_.PopDue(s_.now); slot != kNoSlot; slot = reviews_.PopDue(s_.now)) {
      Record& record = s_.table[slot];
      const PausedCall call = reviews_.call(slot);
      if (record.transit != Transit::kNone) {  // a step or move in flight uses its KV
        ReviewAt(slot, After(s_.now, kSoon), call);
        continue;
      }
      if (record.blocks == 0) continue;  // its KV was dropped
      const PauseView view = ViewOf(record);
      const PauseDecision decision = s_.queue.Review(record.state, call.call, call.since, view);
      if (decision.action == KvAction::kKeep || decision.action == KvAction::kIn) {
        ReviewAt(slot, std::max(decision.review_at, After(s_.now, kSoon)), call);
        continue;
      }
      ++s_.stats.pauses_let_go;
      resting_.LetGo(slot, BlocksOut(record, decision, view));
    }
  }

 private:
  EngineState& s_;
  Kv& kv_;
  RestingKv& resting_;
  ReviewList reviews_;
  std::int64_t context_ = 0;  // context tokens of all running requests, as of plan context_of_
  std::uint64_t context_of_ = UINT64_MAX;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_PAUSED_REQUESTS_H_
