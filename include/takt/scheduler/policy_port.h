// The interface between the parts of a scheduler and its policies.
#ifndef TAKT_SCHEDULER_POLICY_PORT_H_
#define TAKT_SCHEDULER_POLICY_PORT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "takt/base/full_key.h"
#include "takt/base/function_ref.h"
#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/pause/pause_policy.h"
#include "takt/policy/rank_policy.h"
#include "takt/state/request_table.h"
#include "takt/state/running_set.h"

namespace takt::internal {

// Entries of unchanged standing rows, after a step that computed one output token for each of these rows.
struct StandingTokens {
  std::span<const PlanEntry> run;
  std::uint64_t plan = 0;
  const RunningSet& rows;
  RequestTable& table;

  // Returns the state of the entry's request after this token.
  RequestState& StateOf(const PlanEntry& entry) const {
    RequestState& state = table[rows.Stored(entry.lane).slot].state;
    state.generated = {rows.GeneratedAfter(entry.lane, plan)};
    return state;
  }
};

// The queue with its rank policy, and the pause policy. The parts are compiled once, and only the implementations of
// this interface are compiled per policy. An operation of the queue makes one virtual call. A standing row makes no
// virtual call. Copies of the queue's size and of the hooks here save further calls.
//
// Invariant: size() requests wait, and their status is kWaiting.
class PolicyPort {
 public:
  using StateOf = FunctionRef<const RequestState&(Slot)>;

  PolicyPort() = default;
  PolicyPort(const PolicyPort&) = delete;
  PolicyPort& operator=(const PolicyPort&) = delete;
  virtual ~PolicyPort() = default;

  // ---- the queue; see RankQueue
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void Push(Slot slot, const RequestState& state, TimePoint now, std::int64_t steps_run) {
    DoPush(slot, state, now, steps_run);
    ++size_;
  }
  void Erase(Slot slot, bool goes) {
    DoErase(slot, goes);
    --size_;
  }
  void Ran(Slot slot, std::int64_t steps_run) {
    if (ages_) DoRan(slot, steps_run);
  }
  void BeginPlan(TimePoint now, StateOf state_of) {
    if (ages_ || hooks_.timed || hooks_.moving || hooks_.begins || hooks_.groups) DoBeginPlan(now, state_of);
  }
  void EndPlan(bool something_ran) {
    if (ages_) DoEndPlan(something_ran);
  }
  bool Admits(const RequestState& state, TimePoint now) const { return !hooks_.declines || DoAdmits(state, now); }
  void Admitted(const RequestState& state, TimePoint now) {
    if (hooks_.declines) DoAdmitted(state, now);
  }
  // The request of a lane, at its admission and after each change of its state.
  void SetLane(std::uint32_t lane, const RequestState& state) {
    if (hooks_.group_charges) DoSetLane(lane, state);
  }
  bool promoted(Slot slot) const { return PromotedWith(slot, 0); }
  bool PromotedWith(Slot slot, std::int64_t steps_run) const { return ages_ && DoPromotedWith(slot, steps_run); }
  std::uint64_t VictimGroupOf(const RequestState& r) {
    return hooks_.groups && !hooks_.victims ? DoVictimGroupOf(r) : 0;
  }
  const PolicyHooks& hooks() const { return hooks_; }
  std::int64_t refresh_interval() const { return refresh_interval_; }
  virtual Slot Top() const = 0;
  virtual bool contains(Slot slot) const = 0;
  virtual void Update(Slot slot, const RequestState& state, TimePoint now) = 0;
  virtual void Enter(const RequestState& state, TimePoint now) = 0;
  virtual void Forget(Slot slot, const RequestState& state, TimePoint now) = 0;
  virtual void NoteToolCall(Slot slot) = 0;
  virtual void ForEachInOrder(FunctionRef<bool(Slot)> visit) const = 0;
  virtual bool IsBefore(Slot a, Slot b) const = 0;
  virtual bool Outranks(const RequestState& a, const RequestState& b, double margin, TimePoint now) = 0;
  virtual FullRank VictimRankOf(const RequestState& r, TimePoint now) = 0;
  virtual FullKey VictimKeyOf(const RequestState& r, TimePoint now) = 0;
  virtual Slot WorstNeverRun(TimePoint now, StateOf state_of) = 0;
  // Returns true if the key of the request has changed.
  virtual bool Scheduled(const RequestState& state, Tokens prefill, Tokens output) = 0;
  // Reports the tokens of each of these entries to the policy. Calls changed(lane, state) if the request's key has
  // changed.
  virtual void ScheduledAll(const StandingTokens& tokens,
                            FunctionRef<void(std::uint32_t, const RequestState&)> changed) = 0;
  virtual void ReportPressure(const QueuePressure& pressure, TimePoint now) = 0;
  virtual void Observe(const Event& event, TimePoint now) = 0;
  virtual void Observe(const Epoch& epoch, TimePoint now) = 0;
  virtual void TrackWorst() = 0;
  virtual void PutBegunFirst() = 0;
  virtual void Reserve(std::size_t slots) = 0;
  virtual void ReserveLanes(std::size_t lanes) = 0;
  virtual void KeyHashes(std::uint64_t seed) = 0;
  // Second half of RankQueue::ChangePolicy.
  virtual void ChangePolicy(TimePoint now, StateOf state_of) = 0;

  // ---- for diagnosis
  virtual FullKey PeekKey(const RequestState& r, TimePoint now) const = 0;
  virtual KeyParts PartsOf(const RequestState& r) const = 0;
  virtual std::int64_t Ahead(Slot slot) const = 0;
  virtual std::uint64_t promotions() const = 0;
  virtual std::uint64_t nan_keys() const = 0;

  // ---- the pause policy
  bool predicts() const { return predicts_; }
  bool reviews() const { return reviews_; }
  virtual PauseDecision AtCall(const RequestState& r, const ToolCalled& call, const PauseView& view) const = 0;
  virtual KvAction Predict(const RequestState& r, const PauseView& view) const = 0;
  virtual PauseDecision Review(const RequestState& r, const ToolCalled& call, TimePoint since,
                               const PauseView& view) const = 0;

 protected:
  virtual void DoPush(Slot slot, const RequestState& state, TimePoint now, std::int64_t steps_run) = 0;
  virtual void DoErase(Slot slot, bool goes) = 0;
  virtual void DoRan(Slot slot, std::int64_t steps_run) = 0;
  virtual void DoSetLane(std::uint32_t lane, const RequestState& state) = 0;
  virtual void DoBeginPlan(TimePoint now, StateOf state_of) = 0;
  virtual void DoEndPlan(bool something_ran) = 0;
  virtual bool DoAdmits(const RequestState& state, TimePoint now) const = 0;
  virtual void DoAdmitted(const RequestState& state, TimePoint now) = 0;
  virtual std::uint64_t DoVictimGroupOf(const RequestState& r) = 0;
  virtual bool DoPromotedWith(Slot slot, std::int64_t steps_run) const = 0;

  // Properties of the current policy.
  PolicyHooks hooks_;
  bool ages_ = false;
  std::int64_t refresh_interval_ = 0;

  bool predicts_ = false, reviews_ = false;

 private:
  std::size_t size_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_POLICY_PORT_H_
