// The order alone, for hosts that keep admission and KV to themselves (level L1): what waits, ranked by a policy.
#ifndef TAKT_QUEUE_WAITING_QUEUE_H_
#define TAKT_QUEUE_WAITING_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/queue/rank_queue.h"
#include "takt/state/request_table.h"
#include "takt/state/revise.h"

namespace takt {

// A loop over it: TopK says which requests come first; the host admits those that it can; EndIteration names those.
// What was picked stays known here until Erase: it counts as run by every iteration until Return or Pause.
//
// Total functions: ids that are not known, or not where the call expects them, change nothing, and the call returns
// false. No allocation once as many requests have lived here at the same time. Where the host's operator new throws,
// and the host catches it, the call was not made, or the queue has ended(). Thread-compatible.
template <RankPolicy Policy>
class WaitingQueue {
 public:
  // A request on the host's engine, and the KV that preempting it would free.
  struct Running {
    RequestId request;
    Blocks blocks{0};
  };

  // `hash_seed` as in SchedulerOptions.
  explicit WaitingQueue(Policy policy, std::size_t reserve = 0, std::uint64_t hash_seed = 0)
      : queue_(std::move(policy)) {
    table_.KeyHashes(hash_seed);
    queue_.KeyHashes(hash_seed);
    ReserveSlots(reserve);
  }

  std::size_t size() const { return queue_.size(); }  // requests that wait
  bool empty() const { return queue_.empty(); }
  bool contains(RequestId id) const { return In(id, RequestStatus::kWaiting) != kNoSlot; }
  const Policy& policy() const { return queue_.policy(); }
  Policy& policy() { return queue_.policy(); }

  // An exception has left a call half-way, from a policy of the host's, say. Nobody is known from then on, and nothing
  // happens any more.
  bool ended() const { return inside_; }

  // A new request; unset times are taken as the present. False where its id is zero or known already, or where it has
  // no sequence.
  bool Push(const Request& request, TimePoint now) {
    if (inside_ || !request.id || request.sequences < 1 || Find(request.id) != kNoSlot) return false;
    if (!table_.HasSlot() && table_.slots() >= slots_reserved_) {
      ReserveSlots(std::max<std::size_t>(2 * slots_reserved_, 16));
    }
    inside_ = true;
    now_ = std::max(now, now_);
    const Slot slot = table_.Insert(request);
    Request& r = table_[slot].state.request;
    internal::Believe(r, now);
    Tell(Arrived{r}, now);
    Wait(slot, now, 0);
    return Done();
  }

  // Ended or cancelled, wherever it was.
  bool Erase(RequestId id) {
    const Slot slot = Find(id);
    if (slot == kNoSlot) return false;
    inside_ = true;
    Leave(slot);
    queue_.Forget(slot, table_[slot].state, now_);
    table_.Erase(slot);
    return Done();
  }

  // New knowledge about a request, waiting or not.
  bool Update(const Revised& e, TimePoint now) {
    const Slot slot = Find(e.request);
    if (slot == kNoSlot) return false;
    inside_ = true;
    internal::Revise(table_[slot].state.request, e);
    Tell(e, now);
    if (table_[slot].status == RequestStatus::kWaiting) {
      queue_.Update(slot, table_[slot].state, now);
    } else {
      queue_.Enter(table_[slot].state, now);
    }
    return Done();
  }

  // Replaces `first` by the best k, or all if fewer wait, best first. Once per iteration: it promotes those that are
  // due.
  void TopK(std::size_t k, TimePoint now, std::vector<RequestId>& first) {
    first.clear();
    if (inside_) return;
    first.reserve(std::min(k, size()));
    inside_ = true;
    now_ = std::max(now, now_);
    queue_.BeginPlan(now, [this](Slot slot) -> const RequestState& { return table_[slot].state; });
    queue_.TopK(k, [&](Slot slot) { first.push_back(table_[slot].state.request.id); });
    inside_ = false;
  }

  // An iteration is over: `picked` left the queue for it. Waiting is counted in iterations in which anything ran.
  void EndIteration(std::span<const RequestId> picked) {
    if (inside_) return;
    inside_ = true;
    for (RequestId id : picked) {
      const Slot slot = FindIn(id, RequestStatus::kWaiting);
      if (slot == kNoSlot) continue;
      Leave(slot);
      table_[slot].status = RequestStatus::kRunning;
      table_[slot].state.has_run = true;
      picked_at_[slot] = iterations_;
      ++running_;
    }
    const bool something_ran = running_ > 0;
    queue_.EndPlan(something_ran);
    iterations_ += something_ran ? 1 : 0;
    inside_ = false;
  }

  // For policies that price resources: what kept the first of the queue out of an iteration, as the host saw it.
  void Pressure(const QueuePressure& pressure, TimePoint now) {
    if (inside_) return;
    inside_ = true;
    queue_.TellPressure(pressure, now);
    inside_ = false;
  }

  // For policies that charge for tokens: what an iteration computed for a request that was picked.
  bool Computed(RequestId id, Tokens prefill, Tokens output) {
    const Slot slot = In(id, RequestStatus::kRunning);
    if (slot == kNoSlot) return false;
    inside_ = true;
    RequestState& state = table_[slot].state;
    state.generated += output;
    queue_.Scheduled(state, prefill, output);
    return Done();
  }

  // A request that was picked waits again: preempted, or back from a tool.
  bool Return(RequestId id, TimePoint now) {
    const Slot slot = Find(id);
    if (slot == kNoSlot || table_[slot].status == RequestStatus::kWaiting) return false;
    inside_ = true;
    const std::int64_t steps_run = Leave(slot);
    Wait(slot, now, steps_run);
    return Done();
  }

  // A request leaves for a tool call; Return brings it back.
  bool Pause(RequestId id, TimePoint now) {
    const Slot slot = Find(id);
    if (slot == kNoSlot || table_[slot].status == RequestStatus::kPaused) return false;
    inside_ = true;
    Tell(ToolCalled{.request = id}, now);
    queue_.ToolCalled(slot);
    queue_.Ran(slot, Leave(slot));
    table_[slot].status = RequestStatus::kPaused;
    return Done();
  }

  // Whom of `running` to preempt for `needed` blocks: fills `victims`, worst rank first, promoted ones last, never
  // one that is not preemptible or was not picked here. With a waiting `beneficiary`, only requests that it outranks;
  // equal keys never swap. False, and no victims, where all together would not free enough. O(running log running).
  bool ChooseVictims(std::span<const Running> running, Blocks needed, TimePoint now, std::vector<RequestId>& victims,
                     RequestId beneficiary = {}) {
    victims.clear();
    candidates_.clear();
    candidates_.reserve(running.size());
    victims.reserve(running.size());
    const Slot better = In(beneficiary, RequestStatus::kWaiting);
    for (const Running& r : running) {
      const Slot slot = In(r.request, RequestStatus::kRunning);
      if (slot == kNoSlot || !table_[slot].state.request.preemptible) continue;
      if (better != kNoSlot && !Outranks(better, slot, now)) continue;
      const bool promoted = queue_.PromotedWith(slot, StepsRun(slot));
      candidates_.push_back({{!promoted, queue_.VictimRankOf(table_[slot].state, now)}, r.blocks});
    }
    std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) { return b.rank < a.rank; });
    std::int64_t missing = needed.value;
    for (auto c = candidates_.begin(); missing > 0 && c != candidates_.end(); ++c) {
      victims.push_back(c->rank.rank.key.id);
      missing -= c->blocks.value;
    }
    if (missing > 0) victims.clear();
    return missing <= 0;
  }

 private:
  struct Candidate {
    internal::VictimRank rank;
    Blocks blocks{0};
  };

  // By rank, as the scheduler does; a policy's own order of victims only says which goes first.
  bool Outranks(Slot waiting, Slot running, TimePoint now) {
    if (queue_.PromotedWith(running, StepsRun(running))) return false;
    return queue_.promoted(waiting) || queue_.Outranks(table_[waiting].state, table_[running].state, 0, now);
  }

  Slot Find(RequestId id) const { return inside_ ? kNoSlot : table_.Find(id); }
  Slot In(RequestId id, RequestStatus status) const { return inside_ ? kNoSlot : FindIn(id, status); }
  Slot FindIn(RequestId id, RequestStatus status) const {
    const Slot slot = table_.Find(id);
    return slot != kNoSlot && table_[slot].status == status ? slot : kNoSlot;
  }

  // As the scheduler does: room first, then the change, which leaves `inside_` set where an exception ends it.
  void ReserveSlots(std::size_t slots) {
    table_.Reserve(slots);
    queue_.Reserve(slots);
    picked_at_.resize(slots);
    slots_reserved_ = slots;
  }
  bool Done() {
    inside_ = false;
    return true;
  }

  std::int64_t StepsRun(Slot slot) const {
    return table_[slot].status == RequestStatus::kRunning ? iterations_ - picked_at_[slot] : 0;
  }

  void Wait(Slot slot, TimePoint now, std::int64_t steps_run) {
    table_[slot].status = RequestStatus::kWaiting;
    table_[slot].state.enqueued = now;
    queue_.Push(slot, table_[slot].state, now, steps_run);
  }

  // Out of wherever it is. The steps that ran it since it was picked.
  std::int64_t Leave(Slot slot) {
    const std::int64_t steps_run = StepsRun(slot);
    if (table_[slot].status == RequestStatus::kWaiting) queue_.Erase(slot);
    if (table_[slot].status == RequestStatus::kRunning) --running_;
    return steps_run;
  }

  template <class E>
  void Tell(const E& event, TimePoint now) {
    if constexpr (ObservingPolicy<Policy>) queue_.policy().Observe(Event(event), now);
  }

  internal::RankQueue<Policy> queue_;
  internal::RequestTable table_;
  std::vector<std::int64_t> picked_at_;  // by slot: iterations_ when it was picked
  TimePoint now_ = kUnset;  // the latest that was told
  std::int64_t iterations_ = 0;  // in which something ran
  std::int64_t running_ = 0;
  bool inside_ = false;  // a call; between calls: one was left half-way
  std::size_t slots_reserved_ = 0;
  std::vector<Candidate> candidates_;  // of ChooseVictims
};

}  // namespace takt

#endif  // TAKT_QUEUE_WAITING_QUEUE_H_
