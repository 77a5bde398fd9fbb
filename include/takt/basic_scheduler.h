// The scheduler of one engine. Its input is events and results; its output is a plan for each iteration.
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
#include "takt/state/transition.h"
#include "takt/turns/gates/any_gate.h"
#include "takt/turns/retention/any_retention.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/turns/return_times.h"

namespace takt {

// The default policy of a scheduler. scheduler.h specializes this template for policies chosen at run time.
template <RankPolicy Policy>
struct DefaultPolicy {
  static Policy Make() { return {}; }
};

// Decides at every iteration of one engine replica which requests run. Thread-compatible: the step loop owns it.
//
// Events may come at any time and in any order; the scheduler counts and ignores events about unknown requests. A plan
// is valid until its own Commit; an empty plan is valid until the next Plan. Up to three plans may await their Commit.
// A plan with an empty `run` needs no Commit. If `now` is earlier than in the last call, the last call's time is used.
//
// The scheduler can be moved but not copied. Plans stay valid after a move and belong to the new object. A moved-from
// scheduler can only be assigned to or destroyed.
//
// No call throws, blocks or reads a clock. After warm-up (storage as reserved in the options) no call allocates. If an
// allocation of takt itself throws and the host catches the exception, the call has no effect. After any other
// exception, ended() returns true. Hooks and oracles must not call the scheduler that calls them.
template <RankPolicy Policy, PausePolicy Pause = KeepAll>
class BasicScheduler {
 public:
  static constexpr int kMaxStepsInFlight = internal::StepRing::kMostInFlight;

  // Creates a scheduler. InvalidArgument lists all invalid options. kOracle requires an oracle that outlives the
  // scheduler.
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

  // Applies an event. Returns the invalid input that it ignored.
  Ignored On(const Event& event, TimePoint now) { return loop_.OnAny(event, now); }

  // Same as On(event), for one type of event.
  template <class E>
    requires std::constructible_from<Event, const E&> && (!std::same_as<E, Event>)
  Ignored On(const E& event, TimePoint now) {
    if constexpr (internal::EventType<E>) return loop_.On(event, now);
    return loop_.OnAny(Event(event), now);
  }

  // Sets the tables of policies that rank by agent.
  Ignored On(const Epoch& epoch, TimePoint now) { return loop_.OnEpoch(epoch, now); }

  // Replaces the policy and ranks all waiting requests again, O(waiting). Learned state is lost. Requires a policy that
  // is chosen at run time.
  void ChangePolicy(const Policy& policy, TimePoint now)
    requires std::same_as<Policy, AnyPolicy>
  {
    loop_.ChangePolicy([&] { policies_->PrepareChange(policy); }, now);
  }

  // Changes options while requests run. `options` may differ from options() in SchedulerOptions::kMayChange only.
  // InvalidArgument names all other fields, and nothing changes. The next plan sheds what exceeds a smaller bound.
  // Waiting requests join their classes again, in order of arrival and by their present priorities. A wait that had a
  // limit ends by the new one, counted from its begin; a wait that had none counts from this call. O(n log n) for n
  // living requests.
  absl::Status SetOptions(const SchedulerOptions& options, TimePoint now) { return loop_.SetOptions(options, now); }

  // Sets the policy that chooses which cached KV to evict after a turn, and the gate that decides which requests may
  // evict it. Learned return times are lost. Without this call, HoldValue and the gate Price are set at the first
  // TurnEnded or WorkflowEnded. Before that event, and for requests without a workflow, the least recently used KV is
  // evicted, without a gate. Without kLedger and prefix_cache, returns InvalidArgument; the two events then have no
  // effect.
  absl::Status SetRetention(const AnyRetention& retention, const AnyGate& gate = {},
                            const ReturnTimesOptions& times = {}) {
    return loop_.SetRetention(retention, gate, times);
  }
  // In mode kOracle, adds hints for the host's cache to plans, based on these values. Without this call, plans have
  // hints based on HoldValue from the first TurnEnded or WorkflowEnded on.
  void SetHints(const HoldValue& value = {}, const ReturnTimesOptions& times = {}) { loop_.SetHints(value, times); }
  // Returns the learned times between turns; null without retention.
  const ReturnTimes* return_times() const { return loop_.return_times(); }

  const StepPlan& Plan(TimePoint now, const StepLimits& limits) { return loop_.Plan(now, limits); }

  // Applies the results of a step. Returns the invalid input that it ignored.
  Ignored Commit(const StepResult& result, TimePoint now) { return loop_.Commit(result, now); }

  Explanation Explain(RequestId id) const { return loop_.Explain(id); }
  // Counts the requests that wait for each reason of Explain. O(living requests).
  WaitingCounts WaitingByReason() const { return loop_.WaitingByReason(); }
  // Returns the reason of Explain for the first waiting request; kNothing if none waits. O(1).
  WaitsFor HeadWaitsFor() const { return loop_.HeadWaitsFor(); }
  // Returns the output tokens per sequence of a living request so far; 0 if the request is unknown. O(1).
  Tokens GeneratedBy(RequestId id) const { return loop_.GeneratedBy(id); }
  // Explains what a branch holds in the prefix cache and which blocks would be evicted first, for diagnosis.
  // O(evictable blocks).
  HeldExplanation ExplainHeld(WorkflowId workflow, std::uint64_t branch = 0) {
    return loop_.ExplainHeld(workflow, branch);
  }

  const Stats& stats() const { return loop_.stats(); }

  // Returns the most recent fault; stats().faults() counts them.
  const Fault& last_fault() const { return loop_.last_fault(); }
  // Calls the handler for each later fault.
  void HandleFaults(FaultHandler handler) { loop_.HandleFaults(handler); }
  // Passes each later transition of a request to the observer, which must outlive the scheduler or be replaced by {}.
  void Watch(Observer observer) { loop_.Watch(observer); }

  KvUse kv() const { return loop_.kv(); }

  // Returns true if an exception interrupted a call, for example in a host's policy or oracle. Later events and results
  // are only counted, and later plans are empty, with Idle::kEnded. The host must fail its requests or pass them to
  // another scheduler.
  bool ended() const { return loop_.ended(); }

  std::int64_t alive() const { return loop_.alive(); }
  std::int64_t waiting() const { return loop_.waiting(); }
  // Returns the prompt tokens that the pace of running requests allows in the newest plan; Tokens::Max(): any number.
  Tokens paced_prefill() const { return loop_.paced_prefill(); }
  std::int64_t running() const { return loop_.running(); }
  std::int64_t paused() const { return loop_.paused(); }
  std::int64_t blocked() const { return loop_.blocked(); }
  bool draining() const { return loop_.draining(); }
  const SchedulerOptions& options() const { return loop_.options(); }
  const Policy& policy() const { return policies_->policy(); }

  // Checks all redundant counts by a recount, for tests. Returns an empty text if the counts are right. O(all).
  const char* Inconsistency() const { return loop_.Inconsistency(); }

 private:
  using Policies = internal::JoinedPolicies<Policy, Pause>;

  friend struct SchedulerCounters;  // for tests that simulate years of planning

  BasicScheduler(std::unique_ptr<Policies> policies, internal::StepLoop loop)
      : policies_(std::move(policies)), loop_(std::move(loop)) {}

  std::unique_ptr<Policies> policies_;
  internal::StepLoop loop_;  // the loop uses `policies_`
};

}  // namespace takt

#endif  // TAKT_BASIC_SCHEDULER_H_
