// Definitions of StepLoop, inline or compiled into the library.
#ifndef TAKT_SCHEDULER_STEP_LOOP_INL_H_
#define TAKT_SCHEDULER_STEP_LOOP_INL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "takt/scheduler/explain.h"
#include "takt/scheduler/loop_parts.h"
#include "takt/scheduler/step_loop.h"

namespace takt::internal {

TAKT_INLINE absl::StatusOr<StepLoop> StepLoop::Create(const SchedulerOptions& options, PolicyPort& policies,
                                                      KvOracle* oracle) {
  if (absl::Status status = options.Validate(); !status.ok()) return status;
  if ((options.kv == KvMode::kOracle) != (oracle != nullptr)) {
    return absl::InvalidArgumentError("kv: kOracle requires an oracle, and other modes allow none");
  }
  auto parts = std::make_unique<LoopParts>(options, policies, oracle);
  if (const std::int32_t tokens = parts->kv.block_tokens; oracle != nullptr && (tokens < 1 || tokens > 1 << 20)) {
    return absl::InvalidArgumentError("oracle: block_tokens() is " + std::to_string(tokens) + ": must be 1 to 1048576");
  }
  return StepLoop(std::move(parts));
}
TAKT_INLINE StepLoop::StepLoop(std::unique_ptr<LoopParts> parts) : parts_(std::move(parts)) {}
TAKT_INLINE StepLoop::StepLoop(StepLoop&&) noexcept = default;
TAKT_INLINE StepLoop& StepLoop::operator=(StepLoop&&) noexcept = default;
TAKT_INLINE StepLoop::~StepLoop() = default;

template <class E>
Ignored StepLoop::On(const E& event, TimePoint now) {
  return Take(event, nullptr, now);
}

template <class E>
Ignored StepLoop::Take(const E& event, const Event* whole, TimePoint now) {
  LoopParts& p = *parts_;
  const Owner::Inside one_thread(p.owner);
  p.faults.desk.Begin();
  if (!p.MayEnter()) return p.faults.desk.Summary(0);
  p.storage.MakeRoomFor(event);
  const TimePoint at = p.Enter(now);
  if (p.state.queue.hooks().observes) {
    if (whole != nullptr) p.state.queue.Observe(*whole, at);
    else p.state.queue.Observe(Event(event), at);
  }
  p.events.Handle(event, at);
  p.faults.desk.Leave();
  return p.faults.desk.Summary(0);
}

TAKT_INLINE Ignored StepLoop::OnAny(const Event& event, TimePoint now) {
  return std::visit([&](const auto& e) { return Take(e, &event, now); }, event);
}

// Passes tables to policies that rank by agent.
TAKT_INLINE Ignored StepLoop::OnEpoch(const Epoch& epoch, TimePoint now) {
  LoopParts& p = *parts_;
  const Owner::Inside one_thread(p.owner);
  p.faults.desk.Begin();
  if (!p.MayEnter()) return p.faults.desk.Summary(0);
  p.state.queue.Observe(epoch, p.Enter(now));
  p.faults.desk.Leave();
  return p.faults.desk.Summary(0);
}

TAKT_INLINE const StepPlan& StepLoop::Plan(TimePoint now, const StepLimits& limits) {
  LoopParts& p = *parts_;
  const Owner::Inside one_thread(p.owner);
  p.faults.desk.Begin();
  if (!p.MayEnter()) return p.state.steps.after_the_end();
  p.storage.MakeRoomForPlan();
  p.Enter(now);
  ++p.state.stats.plans;
  Step& step = p.state.steps.Next();
  p.state.draft.plan = &step.plan;
  p.state.draft.of = &step;
  p.state.draft.plan->tokens = {0};
  p.state.draft.entries = step.entries.data();
  p.state.draft.step = step.bits;
  p.state.draft.planned = 0;
  p.state.draft.kept_out = false;
  step.standing_plan = 0, step.standing = 0;
  p.kv.round.BeginPlan();
  p.state.budget.BeginPlan(limits);
  if (const std::int32_t most = p.state.budget.MisalignedAt(); most > 0) [[unlikely]] {
    p.faults.Blame(&Stats::limits_misaligned,
                   {.kind = FaultKind::kChunkAlign, .received = limits.chunk_align.value, .expected = most});
  }
  p.state.pacer.BeginPlan(limits.chunk_align.value);
  p.walk.BeginPlan();
  p.gate.BeginPlan();
  p.displacing.BeginPlan();
  if (p.state.ceilings != nullptr) p.ceilings.BeginPlan();
  p.lives.Expire(p.state.now);
  p.turns.EndPins();
  p.pauses.Review();
  p.ranks.RefreshScores();
  const bool builds = !p.state.steps.full();
  if (builds) {
    if (!p.state.queue.empty()) p.state.queue.BeginPlan(p.state.now, p.state.StateOf());
    std::int32_t free = 0;  // free blocks before requests are shed, if nothing runs
    do {
      do {
        p.Build();
      } while (p.state.draft.planned == 0 && p.idle.Unstick());
      if (p.state.draft.planned == 0) free = p.kv.FreeBlocks();
      p.lives.ShedAll();
    } while (p.state.draft.planned == 0 && p.kv.FreeBlocks() > free);
  }
  p.victims.EndPlan();

  // Publishes all notices since the last plan.
  const auto publish = [](auto& views, auto& noted) {
    views.clear();
    views.swap(noted);
    return std::span(std::as_const(views));
  };
  p.state.draft.plan->moves = publish(step.notices.moves, p.state.notices.moves);
  p.state.draft.plan->preempted = publish(step.notices.preempted, p.state.notices.preempted);
  p.state.draft.plan->failed = publish(step.notices.failed, p.state.notices.failed);
  p.state.draft.plan->released = publish(step.notices.released, p.state.notices.released);
  p.state.draft.plan->dropped = publish(step.notices.dropped, p.kv.ledger.dropped());
  if (p.turns.hints() != nullptr) {
    p.state.draft.plan->hints = publish(step.notices.hints, p.state.notices.hints);
    p.turns.hints()->SetCapacity(std::int64_t{p.kv.last_total().value} * p.kv.block_tokens);
  }
  p.state.draft.plan->host_chunks = publish(step.notices.host_chunks, p.kv.ledger.host_chunks());

  p.state.budget.EndPlan();

  for (Slot slot : p.state.ended) p.state.table.Erase(slot);
  p.state.ended.clear();

  p.state.draft.plan->run = std::span(p.state.draft.entries, p.state.draft.planned);
  const bool runs = p.state.draft.planned > 0;
  p.state.queue.EndPlan(runs);
  if (builds) p.ranks.ReportPressure();
  if (runs)
    p.state.draft.crowded_plans =
        p.state.draft.crowded && !p.state.draft.prompts_first ? p.state.draft.crowded_plans + 1 : 0;
  if (runs) {
    p.state.steps.Depart(step);
    p.state.pacer.EndPlan(step.plan.id, step.plan.run, p.state.now);
    p.state.stats.steps_paced += p.state.pacer.limited() ? 1u : 0u;
  }
  if (!runs && step.standing_plan != 0) p.state.running.ForgetStanding(step.standing_plan);
  if (builds) p.state.draft.last = p.state.draft.entries;
  p.state.stats.plans_idle += runs ? 0 : 1;
  p.state.stats.rows_scheduled += p.state.draft.planned;
  p.state.draft.plan->idle = runs ? Idle::kBusy : p.idle.WhyIdle();
  if (builds && !p.state.left_out.empty()) {
    for (const std::uint32_t lane : p.state.left_out) p.state.running.Stored(lane).left_out = false;
    p.state.left_out.clear();
  }
  p.state.draft.plan->wake_at = std::min(p.lives.fresh().next_expiry(), p.pauses.next_review());
  if (!runs && p.gate.refused())
    p.state.draft.plan->wake_at = std::min(p.state.draft.plan->wake_at, p.gate.AskGateAt());
  if (p.state.ceilings != nullptr && !p.state.queue.empty())
    p.state.draft.plan->wake_at = std::min(p.state.draft.plan->wake_at, p.ceilings.next_end());
  if (const Slot next = p.state.queue.Top(); next != kNoSlot) p.state.table.Prefetch(next);
  p.faults.desk.Leave();
  return *p.state.draft.plan;
}

TAKT_INLINE Ignored StepLoop::Commit(const StepResult& result, TimePoint now) {
  LoopParts& p = *parts_;
  const Owner::Inside one_thread(p.owner);
  const std::uint64_t dead = p.state.stats.rows_dead;
  p.faults.desk.Begin();
  if (!p.MayEnter()) return p.faults.desk.Summary(0);
  Step* const step = p.state.steps.Find(result.step);
  if (step != nullptr) p.storage.MakeRoomForResult(*step);
  p.Enter(now);
  p.kv.changes += p.kv.oracle != nullptr ? 1u : 0u;
  if (step == nullptr) {
    p.faults.Blame(&Stats::commits_unknown, {.kind = FaultKind::kUnknownStep, .step = result.step});
    p.faults.desk.Leave();
    return p.faults.desk.Summary(0);
  }
  p.state.steps.Return(*step);
  ++p.state.stats.commits;
  p.state.stats.steps_late += p.state.pacer.Committed(step->plan.id, p.state.now) ? 1u : 0u;
  p.results.Read(*step, result);
  p.faults.desk.Leave();
  return p.faults.desk.Summary(p.state.stats.rows_dead - dead);
}

TAKT_INLINE void StepLoop::ChangePolicy(FunctionRef<void()> prepare, TimePoint now) {
  LoopParts& p = *parts_;
  const Owner::Inside one_thread(p.owner);
  if (!p.MayEnter()) return;
  prepare();
  p.state.queue.ChangePolicy(p.Enter(now), p.state.StateOf());
  for (std::uint32_t lane : p.state.running.order()) {
    const Row& row = p.state.running.Stored(lane);
    if (row.state == RowState::kFree || row.state == RowState::kLeaving) continue;
    p.ranks.RankRow(lane);
    p.state.queue.Admitted(p.state.StateOfRow(p.state.running.Look(lane)), p.state.now);
  }
  p.faults.desk.Leave();
}

TAKT_INLINE absl::Status StepLoop::SetOptions(const SchedulerOptions& options, TimePoint now) {
  LoopParts& p = *parts_;
  const Owner::Inside one_thread(p.owner);
  if (absl::Status status = p.state.options.ValidateChange(options); !status.ok()) return status;
  if (!p.MayEnter()) return absl::FailedPreconditionError("the scheduler has ended");
  p.storage.MakeRoomFor(options);
  p.Enter(now);
  const SchedulerOptions before = std::exchange(p.state.options, options);
  p.kv.ReadWatermark();
  p.state.pacer.SetDefault(options.token_pace, options.least_prefill.value);
  p.ceilings.OptionsChanged(before);
  p.lives.fresh().OptionsChanged(before);
  p.memory.Forget();
  p.faults.desk.Leave();
  return absl::OkStatus();
}

TAKT_INLINE absl::Status StepLoop::SetRetention(const AnyRetention& retention, const AnyGate& gate,
                                                const ReturnTimesOptions& times) {
  return parts_->turns.SetRetention(retention, gate, times);
}
TAKT_INLINE void StepLoop::SetHints(const HoldValue& value, const ReturnTimesOptions& times) {
  parts_->turns.SetHints(value, times);
}
TAKT_INLINE const ReturnTimes* StepLoop::return_times() const { return parts_->turns.times(); }

TAKT_INLINE Explanation StepLoop::Explain(RequestId id) const {
  return ended() ? Explanation{} : internal::Explain(*parts_, id);
}
TAKT_INLINE Tokens StepLoop::GeneratedBy(RequestId id) const {
  return ended() ? Tokens{0} : internal::GeneratedBy(*parts_, id);
}
TAKT_INLINE HeldExplanation StepLoop::ExplainHeld(WorkflowId workflow, std::uint64_t branch) {
  return ended() ? HeldExplanation{} : parts_->turns.ExplainHeld(workflow, branch);
}

TAKT_INLINE const Stats& StepLoop::stats() const {
  Stats& stats = parts_->state.stats;
  stats.promoted = parts_->state.queue.promotions();
  stats.keys_not_a_number = parts_->state.queue.nan_keys();
  if (parts_->turns.Holds()) {
    const Holdings& holdings = *parts_->kv.ledger.holdings();
    stats.pins_broken = holdings.pins_broken();
    stats.pins_refused = holdings.pins_refused();
    stats.holdings_crowded_out = holdings.crowded_out();
    stats.pins_crowded_out = holdings.pins_crowded_out();
  }
  return stats;
}

TAKT_INLINE const Fault& StepLoop::last_fault() const { return parts_->faults.desk.log().last(); }
TAKT_INLINE void StepLoop::HandleFaults(FaultHandler handler) { parts_->faults.desk.log().Handle(handler); }

TAKT_INLINE void StepLoop::Watch(Observer observer) { parts_->state.observer = observer; }

TAKT_INLINE KvUse StepLoop::kv() const {
  const Kv& kv = parts_->kv;
  if (kv.oracle == nullptr) return kv.ledger.use();
  const KvSnapshot now = kv.oracle->Snapshot();
  const Blocks cpu = parts_->state.options.cpu_blocks;
  return {now.total, now.total - now.free, now.free, {0}, now.pending, cpu, cpu - Blocks{kv.ledger.cpu_free()}};
}

TAKT_INLINE bool StepLoop::ended() const { return parts_->faults.desk.inside(); }
TAKT_INLINE std::int64_t StepLoop::alive() const {
  return static_cast<std::int64_t>(parts_->state.table.size() - parts_->state.ended.size());
}
TAKT_INLINE Tokens StepLoop::paced_prefill() const { return {parts_->state.pacer.paced()}; }
TAKT_INLINE std::int64_t StepLoop::waiting() const { return static_cast<std::int64_t>(parts_->state.queue.size()); }
TAKT_INLINE std::int64_t StepLoop::running() const { return parts_->state.counts.rows; }
TAKT_INLINE std::int64_t StepLoop::paused() const { return parts_->state.counts.paused; }
TAKT_INLINE std::int64_t StepLoop::blocked() const { return parts_->state.counts.blocked; }
TAKT_INLINE bool StepLoop::draining() const { return parts_->state.draining; }
TAKT_INLINE const SchedulerOptions& StepLoop::options() const { return parts_->state.options; }
TAKT_INLINE WaitingCounts StepLoop::WaitingByReason() const {
  return ended() ? WaitingCounts{} : internal::WaitingByReason(*parts_);
}
TAKT_INLINE WaitsFor StepLoop::HeadWaitsFor() const {
  return ended() ? WaitsFor::kNothing : internal::HeadWaitsFor(*parts_);
}
TAKT_INLINE const char* StepLoop::Inconsistency() const { return ended() ? nullptr : internal::Inconsistency(*parts_); }

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_STEP_LOOP_INL_H_
