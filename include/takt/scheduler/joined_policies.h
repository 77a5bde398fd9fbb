// Implements PolicyPort for a rank policy and a pause policy.
#ifndef TAKT_SCHEDULER_JOINED_POLICIES_H_
#define TAKT_SCHEDULER_JOINED_POLICIES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/queue/rank_queue.h"
#include "takt/scheduler/policy_port.h"

namespace takt::internal {

// The PolicyPort of these policy types.
template <RankPolicy Policy, PausePolicy Pause>
class JoinedPolicies final : public PolicyPort {
 public:
  JoinedPolicies(Policy policy, Pause pause) : queue_(std::move(policy)), pause_(std::move(pause)) {
    Look();
    if constexpr (PredictingPause<Pause>) {
      predicts_ = true;
      if constexpr (requires { pause_.predicts(); }) predicts_ = pause_.predicts();
    }
    if constexpr (ReviewingPause<Pause>) {
      reviews_ = true;
      if constexpr (requires { pause_.reviews(); }) reviews_ = pause_.reviews();
    }
  }

  Policy& policy() { return queue_.policy(); }
  const Policy& policy() const { return queue_.policy(); }
  // First half of RankQueue::ChangePolicy.
  void PrepareChange(const Policy& policy) { queue_.PrepareChange(policy); }

  Slot Top() const override { return queue_.Top(); }
  bool contains(Slot slot) const override { return queue_.contains(slot); }
  void Update(Slot slot, const RequestState& state, TimePoint now) override { queue_.Update(slot, state, now); }
  void Enter(const RequestState& state, TimePoint now) override { queue_.Enter(state, now); }
  void Forget(Slot slot, const RequestState& state, TimePoint now) override { queue_.Forget(slot, state, now); }
  void NoteToolCall(Slot slot) override { queue_.ToolCalled(slot); }
  void ForEachInOrder(FunctionRef<bool(Slot)> visit) const override { queue_.ForEachInOrder(visit); }
  bool IsBefore(Slot a, Slot b) const override { return queue_.IsBefore(a, b); }
  bool Outranks(const RequestState& a, const RequestState& b, double margin, TimePoint now) override {
    return queue_.Outranks(a, b, margin, now);
  }
  FullRank VictimRankOf(const RequestState& r, TimePoint now) override { return queue_.VictimRankOf(r, now); }
  FullKey VictimKeyOf(const RequestState& r, TimePoint now) override { return queue_.VictimKeyOf(r, now); }
  Slot WorstNeverRun(TimePoint now, StateOf state_of) override { return queue_.WorstNeverRun(now, state_of); }
  bool Scheduled(const RequestState& state, Tokens prefill, Tokens output) override {
    return queue_.Scheduled(state, prefill, output);
  }
  void ScheduledAll([[maybe_unused]] const StandingTokens& tokens,
                    [[maybe_unused]] FunctionRef<void(std::uint32_t, const RequestState&)> changed) override {
    if constexpr (GroupChargePolicy<Policy>) {
      if (hooks_.group_charges) return ChargeGroups(tokens.run);
    }
    if constexpr (ScheduledPolicy<Policy>) {
      for (const PlanEntry& entry : tokens.run) {
        const RequestState& state = tokens.StateOf(entry);
        if (queue_.Scheduled(state, Tokens{0}, Tokens{1})) changed(entry.lane, state);
      }
    }
  }
  void ReportPressure(const QueuePressure& pressure, TimePoint now) override { queue_.ReportPressure(pressure, now); }
  void Observe(const Event& event, TimePoint now) override { queue_.Observe(event, now); }
  void Observe(const Epoch& epoch, TimePoint now) override { queue_.Observe(epoch, now); }
  void TrackWorst() override { queue_.TrackWorst(); }
  void PutBegunFirst() override { queue_.PutBegunFirst(); }
  void Reserve(std::size_t slots) override { queue_.Reserve(slots); }
  void ReserveLanes([[maybe_unused]] std::size_t lanes) override {
    if constexpr (GroupChargePolicy<Policy>) group_of_lane_.reserve(lanes);
  }
  void KeyHashes(std::uint64_t seed) override { queue_.KeyHashes(seed); }
  void ChangePolicy(TimePoint now, StateOf state_of) override {
    queue_.ChangePolicy(now, state_of);
    Look();
  }

  FullKey PeekKey(const RequestState& r, TimePoint now) const override { return queue_.PeekKey(r, now); }
  KeyParts PartsOf(const RequestState& r) const override { return queue_.PartsOf(r); }
  std::int64_t Ahead(Slot slot) const override { return queue_.Ahead(slot); }
  std::uint64_t promotions() const override { return queue_.promotions(); }
  std::uint64_t nan_keys() const override { return queue_.nan_keys(); }

  PauseDecision AtCall(const RequestState& r, const ToolCalled& call, const PauseView& view) const override {
    return pause_.AtCall(r, call, view);
  }
  KvAction Predict([[maybe_unused]] const RequestState& r, [[maybe_unused]] const PauseView& view) const override {
    if constexpr (PredictingPause<Pause>) return pause_.Predict(r, view);
    return KvAction::kKeep;
  }
  PauseDecision Review([[maybe_unused]] const RequestState& r, [[maybe_unused]] const ToolCalled& call,
                       [[maybe_unused]] TimePoint since, [[maybe_unused]] const PauseView& view) const override {
    if constexpr (ReviewingPause<Pause>) return pause_.Review(r, call, since, view);
    return {};
  }

 private:
  void Look() {
    hooks_ = queue_.hooks();
    ages_ = queue_.ages();
    refresh_interval_ = RefreshIntervalOf(queue_.policy());
  }
  void DoSetLane([[maybe_unused]] std::uint32_t lane, [[maybe_unused]] const RequestState& state) override {
    if constexpr (GroupChargePolicy<Policy>) {
      if (lane >= group_of_lane_.size()) group_of_lane_.resize(lane + 1);
      group_of_lane_[lane] = queue_.policy().Group(state);
    }
  }
  // Reports one output token per entry, summed by group. Groups that share a place of `sums` take turns.
  void ChargeGroups([[maybe_unused]] std::span<const PlanEntry> run) {
    if constexpr (GroupChargePolicy<Policy>) {
      if (run.size() < 8) {  // results out of order report rows one by one
        for (const PlanEntry& entry : run) queue_.policy().ScheduledGroup(group_of_lane_[entry.lane], {}, {1});
        return;
      }
      constexpr int kBits = 6;
      struct Sum {
        std::uint64_t group = 0;
        std::int32_t tokens = 0;
      };
      std::array<Sum, 1 << kBits> sums = {};
      const auto charge = [this](Sum& sum) {
        if (sum.tokens > 0) queue_.policy().ScheduledGroup(sum.group, {}, {std::exchange(sum.tokens, 0)});
      };
      for (const PlanEntry& entry : run) {
        const std::uint64_t group = group_of_lane_[entry.lane];
        Sum& sum = sums[group * 0x9e3779b97f4a7c15 >> (64 - kBits)];
        if (sum.group != group) charge(sum), sum.group = group;
        ++sum.tokens;
      }
      for (Sum& sum : sums) charge(sum);
    }
  }
  void DoPush(Slot slot, const RequestState& state, TimePoint now, std::int64_t steps_run) override {
    queue_.Push(slot, state, now, steps_run);
  }
  void DoErase(Slot slot, bool goes) override { queue_.Erase(slot, goes); }
  void DoRan(Slot slot, std::int64_t steps_run) override { queue_.Ran(slot, steps_run); }
  void DoBeginPlan(TimePoint now, StateOf state_of) override { queue_.BeginPlan(now, state_of); }
  void DoEndPlan(bool something_ran) override { queue_.EndPlan(something_ran); }
  bool DoAdmits(const RequestState& state, TimePoint now) const override { return queue_.Admits(state, now); }
  void DoAdmitted(const RequestState& state, TimePoint now) override { queue_.Admitted(state, now); }
  std::uint64_t DoVictimGroupOf(const RequestState& r) override { return queue_.VictimGroupOf(r); }
  bool DoPromotedWith(Slot slot, std::int64_t steps_run) const override { return queue_.PromotedWith(slot, steps_run); }

  RankQueue<Policy> queue_;
  std::vector<std::uint64_t> group_of_lane_;  // if the policy charges groups
  Pause pause_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_JOINED_POLICIES_H_
