// The step loop of one engine, independent of its policies.
#ifndef TAKT_SCHEDULER_STEP_LOOP_H_
#define TAKT_SCHEDULER_STEP_LOOP_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/function_ref.h"
#include "takt/config.h"
#include "takt/kv/kv_use.h"
#include "takt/model/event.h"
#include "takt/model/fault.h"
#include "takt/model/step.h"
#include "takt/scheduler/explanation.h"
#include "takt/scheduler_options.h"
#include "takt/state/stats.h"
#include "takt/state/transition.h"
#include "takt/turns/held.h"

namespace takt {

class AnyGate;
class AnyRetention;
struct HoldValue;
class KvOracle;
class ReturnTimes;
struct ReturnTimesOptions;
struct SchedulerCounters;

namespace internal {

class PolicyPort;
struct LoopParts;

// A program may contain both the library's version and an inline version, so their names differ.
#ifndef TAKT_COMPILED
inline namespace header_only {
#endif

// Implements BasicScheduler, which documents the calls, on top of PolicyPort. The address of the parts does not change
// when the loop is moved. If a policy or an oracle throws, the call never completes, and ended() returns true.
class StepLoop {
 public:
  // `policies` and `oracle` (may be null) must outlive the loop.
  static absl::StatusOr<StepLoop> Create(const SchedulerOptions& options, PolicyPort& policies, KvOracle* oracle);
  StepLoop(StepLoop&&) noexcept;
  StepLoop& operator=(StepLoop&&) noexcept;
  ~StepLoop();

  template <class E>
  Ignored On(const E& event, TimePoint now);
  Ignored OnAny(const Event& event, TimePoint now);
  Ignored OnEpoch(const Epoch& epoch, TimePoint now);
  const StepPlan& Plan(TimePoint now, const StepLimits& limits);
  Ignored Commit(const StepResult& result, TimePoint now);
  // Calls `prepare`, which must have no effect if it throws, and then PolicyPort::ChangePolicy.
  void ChangePolicy(FunctionRef<void()> prepare, TimePoint now);
  absl::Status SetOptions(const SchedulerOptions& options, TimePoint now);
  absl::Status SetRetention(const AnyRetention& retention, const AnyGate& gate, const ReturnTimesOptions& times);
  void SetHints(const HoldValue& value, const ReturnTimesOptions& times);

  const ReturnTimes* return_times() const;
  Explanation Explain(RequestId id) const;
  Tokens GeneratedBy(RequestId id) const;
  HeldExplanation ExplainHeld(WorkflowId workflow, std::uint64_t branch);
  const Stats& stats() const;
  const Fault& last_fault() const;
  void HandleFaults(FaultHandler handler);
  void Watch(Observer observer);
  KvUse kv() const;
  bool ended() const;
  std::int64_t alive() const;
  Tokens paced_prefill() const;
  std::int64_t waiting() const;
  std::int64_t running() const;
  std::int64_t paused() const;
  std::int64_t blocked() const;
  bool draining() const;
  const SchedulerOptions& options() const;
  WaitingCounts WaitingByReason() const;
  WaitsFor HeadWaitsFor() const;
  const char* Inconsistency() const;

 private:
  friend struct takt::SchedulerCounters;  // for tests

  explicit StepLoop(std::unique_ptr<LoopParts> parts);
  // `whole`: the Event that contains `event`; null if the host passed none.
  template <class E>
  Ignored Take(const E& event, const Event* whole, TimePoint now);

  std::unique_ptr<LoopParts> parts_;
};

#ifndef TAKT_COMPILED
}  // namespace header_only
#endif

// Applies X(type) to each alternative of Event.
// clang-format off
#define TAKT_EVENTS(X) \
  X(Arrived) \
  X(Revised) \
  X(Blocked) \
  X(Unblocked) \
  X(ToolCalled) \
  X(ToolReturned) \
  X(Cancelled) \
  X(MoveDone) \
  X(KvFreed) \
  X(Drain) \
  X(NotReady) \
  X(KvArrived) \
  X(KvLost) \
  X(KvPinned) \
  X(TurnEnded) \
  X(TurnExpected) \
  X(WorkflowEnded)
// clang-format on

// True for each type of event, but not for a type that only converts to Event.
#define TAKT_IS(E) || std::same_as<T, E>
template <class T>
concept EventType = false TAKT_EVENTS(TAKT_IS);
#undef TAKT_IS
static_assert(std::variant_size_v<Event> == 17, "an event is missing in TAKT_EVENTS");

#ifdef TAKT_COMPILED
#define TAKT_EXTERN(E) extern template Ignored StepLoop::On<E>(const E&, TimePoint);
TAKT_EVENTS(TAKT_EXTERN)
#undef TAKT_EXTERN
#endif

}  // namespace internal
}  // namespace takt

#ifndef TAKT_COMPILED
#include "takt/scheduler/step_loop_inl.h"
#endif

#endif  // TAKT_SCHEDULER_STEP_LOOP_H_
