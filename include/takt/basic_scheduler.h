// One engine's end of takt: events in, a plan for the next iteration out, results back in.
#ifndef TAKT_BASIC_SCHEDULER_H_
#define TAKT_BASIC_SCHEDULER_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/config.h"
#include "takt/fwd.h"
#include "takt/kv/kv_oracle.h"
#include "takt/model/event.h"
#include "takt/model/fault.h"
#include "takt/model/step.h"
#include "takt/pause/pause_policy.h"
#include "takt/policy/rank_policy.h"
#include "takt/scheduler/explanation.h"
#include "takt/scheduler/joined_policies.h"
#include "takt/scheduler/step_loop.h"
#include "takt/scheduler/step_ring.h"
#include "takt/scheduler_options.h"
#include "takt/state/stats.h"
#include "takt/turns/gates/any_gate.h"
#include "takt/turns/retention/any_retention.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/return_times.h"

namespace takt {

// The policy of a scheduler that is given none. That of one which chooses it at run time is in scheduler.h.
template <RankPolicy Policy>
struct DefaultPolicy {
  static Policy Make() { return {}; }
};

// Decides, at every iteration of one engine replica, what runs. Thread-compatible: the step loop owns it.
//
// Events may come at any time and in any order; what names no living request is counted and ignored. Each plan
// stays valid until its own Commit, an empty one until the next Plan. Up to three plans may be outstanding; a plan
// with an empty `run` needs no Commit. Time never runs backwards in here: an earlier `now` is taken as the latest.
//
// It moves and does not copy. Plans that the host holds stay valid, and then belong to the one that it was moved to; a
// scheduler that was moved from may be assigned to or destroyed, and nothing else.
//
// No call throws, blocks or reads a clock. After warm-up (storage as reserved in the options) none allocates. Where the
// host's operator new throws, and the host catches it, the call was not made, or the scheduler has ended(): it has not
// been made wherever memory was for the scheduler itself, or for a policy of takt's. No hook, and no oracle, may call
// the scheduler that calls it.
template <RankPolicy Policy, PausePolicy Pause = KeepAll>
class BasicScheduler {
 public:
  static constexpr int kMaxStepsInFlight = internal::StepRing::kMostInFlight;

  // InvalidArgument names every option at fault. kOracle needs an oracle, which must outlive the scheduler.
  static absl::StatusOr<BasicScheduler> Create(SchedulerOptions options, Policy policy = DefaultPolicy<Policy>::Make(),
                                               Pause pause = {}, KvOracle* oracle = nullptr) {
    auto policies = std::make_unique<Policies>(std::move(policy), std::move(pause));
    absl::StatusOr<internal::StepLoop> loop = internal::StepLoop::Create(options, *policies, oracle);
    if (!loop.ok()) return loop.status();
    return BasicScheduler(std::move(policies), *std::move(loop));
  }

  BasicScheduler(const BasicScheduler&) = delete;
  BasicScheduler& operator=(const BasicScheduler&) = delete;
  BasicScheduler(BasicScheduler&&) noexcept = default;
  BasicScheduler& operator=(BasicScheduler&&) noexcept = default;
  ~BasicScheduler() = default;

  // What it could not believe of the event is ignored, and returned.
  Ignored On(const Event& event, TimePoint now) { return loop_.OnAny(event, now); }

  // The same without the detour over a variant.
  template <class E>
    requires std::constructible_from<Event, const E&> && (!std::same_as<E, Event>)
  Ignored On(const E& event, TimePoint now) {
    if constexpr (internal::EventType<E>) return loop_.On(event, now);
    return loop_.OnAny(Event(event), now);
  }

  // Tables that policies by agent go by.
  Ignored On(const Epoch& epoch, TimePoint now) { return loop_.OnEpoch(epoch, now); }

  // Another order from here on: all that waits is ranked anew, O(waiting), and no policy keeps what it had learnt. Only
  // where the policy is chosen at run time.
  void ChangePolicy(const Policy& policy, TimePoint now)
    requires std::same_as<Policy, AnyPolicy>
  {
    loop_.ChangePolicy([&] { policies_->PrepareChange(policy); }, now);
  }

  // From here on what turns of workflows leave in the prefix cache is held by this policy, told by TurnEnded and
  // WorkflowEnded, and what would take it asks this gate. What was learnt of turns is forgotten. A host that never
  // calls it has HoldValue and the gate Price from the first TurnEnded or WorkflowEnded on, and until then, and for
  // what has no workflow, what was used least recently goes first, without a gate. InvalidArgument: without kLedger
  // and prefix_cache, where those events change nothing.
  absl::Status SetRetention(const AnyRetention& retention, const AnyGate& gate = {},
                            const ReturnTimesOptions& times = {}) {
    return loop_.SetRetention(retention, gate, times);
  }
  // kOracle: plans bear hints for the host's cache from here on, by these values; nothing else changes. A host that
  // never calls it has those of HoldValue from the first TurnEnded or WorkflowEnded on.
  void SetHints(const HoldValue& value = {}, const ReturnTimesOptions& times = {}) { loop_.SetHints(value, times); }
  // What it has learnt of how long workflows stay away; null without retention.
  const ReturnTimes* return_times() const { return loop_.return_times(); }

  const StepPlan& Plan(TimePoint now, const StepLimits& limits) { return loop_.Plan(now, limits); }

  // What it could not believe of the result is ignored, and returned.
  Ignored Commit(const StepResult& result, TimePoint now) { return loop_.Commit(result, now); }

  Explanation Explain(RequestId id) const { return loop_.Explain(id); }
  // What a workflow's branch holds in the prefix cache, and what would go before it. For people: O(what could go).
  HeldExplanation ExplainHeld(WorkflowId workflow, std::uint64_t branch = 0) {
    return loop_.ExplainHeld(workflow, branch);
  }

  const Stats& stats() const { return loop_.stats(); }

  // The last thing that the host said and cannot be, of stats().faults().
  const Fault& last_fault() const { return loop_.last_fault(); }
  // Hears of each from here on.
  void HandleFaults(FaultHandler handler) { loop_.HandleFaults(handler); }

  KvUse kv() const { return loop_.kv(); }

  // An exception has left a call half-way, from a policy or an oracle of the host's, say. Events and results are
  // ignored from then on, and counted; plans are empty, and say Idle::kEnded. It answers for no request: the host fails
  // them, or gives them to another scheduler.
  bool ended() const { return loop_.ended(); }

  std::int64_t alive() const { return loop_.alive(); }
  std::int64_t waiting() const { return loop_.waiting(); }
  std::int64_t running() const { return loop_.running(); }
  std::int64_t paused() const { return loop_.paused(); }
  std::int64_t blocked() const { return loop_.blocked(); }
  bool draining() const { return loop_.draining(); }
  const SchedulerOptions& options() const { return loop_.options(); }
  const Policy& policy() const { return policies_->policy(); }

  // Checks every redundant count against a recount; for tests, O(all). Empty where they agree.
  const char* Inconsistency() const { return loop_.Inconsistency(); }

 private:
  using Policies = internal::JoinedPolicies<Policy, Pause>;

  friend struct SchedulerCounters;  // of tests: years of planning in no time

  BasicScheduler(std::unique_ptr<Policies> policies, internal::StepLoop loop)
      : policies_(std::move(policies)), loop_(std::move(loop)) {}

  std::unique_ptr<Policies> policies_;
  internal::StepLoop loop_;  // of these policies
};

}  // namespace takt

#endif  // TAKT_BASIC_SCHEDULER_H_
