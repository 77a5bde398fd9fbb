// BasicScheduler, continued: how a plan is built.
#ifndef TAKT_SCHEDULER_PLAN_H_
#define TAKT_SCHEDULER_PLAN_H_

#include "takt/basic_scheduler.h"

namespace takt {

template <RankPolicy Policy, PausePolicy Pause>
const StepPlan& BasicScheduler<Policy, Pause>::Plan(TimePoint now, const StepLimits& limits) {
  const internal::Owner::Inside one_thread(owner_);
  faults_.Begin();
  if (!MayPlan()) return steps_.after_the_end();
  inside_ = true;
  Clock(now);
  ++stats_.plans;
  internal::Step& step = steps_.Next();
  draft_.plan = &step.plan;
  draft_.of = &step;
  draft_.plan->tokens = {0};
  draft_.entries = step.entries.data();
  draft_.step = step.bits;
  draft_.planned = 0;
  draft_.kept_out = false;
  step.standing_plan = 0, step.standing = 0;
  round_.BeginPlan();
  budget_.BeginPlan(limits);
  if (const std::int32_t most = budget_.MisalignedAt(); most > 0) [[unlikely]] {
    Blame(&Stats::limits_misaligned,
          {.kind = FaultKind::kChunkAlign, .said = limits.chunk_align.value, .expected = most});
  }
  search_.asks_left = std::max(options_.admission_window, 1);
  held_.refused = false;
  victims_.way_for = kNoSlot;
  Expire(now_);
  EndPins();
  Review();
  RefreshScores();
  const bool builds = !steps_.full();
  if (builds) {
    if (!queue_.empty()) queue_.BeginPlan(now_, StateOf());
    std::int32_t free = 0;  // blocks, where nothing runs: what those that are shed held may be enough for others
    do {
      do {
        Build();
      } while (draft_.planned == 0 && Unstick());
      if (draft_.planned == 0) free = FreeBlocks();
      ShedDownTo(options_.max_waiting);
    } while (draft_.planned == 0 && FreeBlocks() > free);
  }
  victims_.heap.Clear();
  victims_.gathered = false;

  // What was noted since the last plan, and while this one was built.
  const auto say = [](auto& said, auto& noted) {
    said.clear();
    said.swap(noted);
    return std::span(std::as_const(said));
  };
  draft_.plan->moves = say(step.said.moves, notices_.moves);
  draft_.plan->preempted = say(step.said.preempted, notices_.preempted);
  draft_.plan->failed = say(step.said.failed, notices_.failed);
  draft_.plan->released = say(step.said.released, notices_.released);
  draft_.plan->dropped = say(step.said.dropped, kv_.ledger.dropped());
  if (held_.hints) {
    draft_.plan->hints = say(step.said.hints, notices_.hints);
    held_.hints->SetCapacity(std::int64_t{kv_.snapshot.total.value} * kv_.block_tokens);
  }
  draft_.plan->host_chunks = say(step.said.host_chunks, kv_.ledger.told());

  budget_.EndPlan();

  for (Slot slot : ended_) table_.Erase(slot);
  ended_.clear();

  draft_.plan->run = std::span(draft_.entries, draft_.planned);
  const bool runs = draft_.planned > 0;
  queue_.EndPlan(runs);
  if (builds) TellPressure();
  if (runs) draft_.crowded_plans = draft_.crowded && !draft_.prompts_first ? draft_.crowded_plans + 1 : 0;
  if (runs) steps_.Depart(step);
  if (!runs && step.standing_plan != 0) running_.ForgetStanding(step.standing_plan);
  if (builds) draft_.last = draft_.entries;
  stats_.plans_idle += runs ? 0 : 1;
  stats_.rows_scheduled += draft_.planned;
  draft_.plan->idle = runs ? Idle::kBusy : WhyIdle();
  if (builds && !left_out_.empty()) {
    for (const std::uint32_t lane : left_out_) running_.Stored(lane).left_out = false;
    left_out_.clear();
  }
  draft_.plan->wake_at = std::min(fresh_.expiries.next(), reviews_.next());
  if (!runs && held_.refused) draft_.plan->wake_at = std::min(draft_.plan->wake_at, AskGateAt());
  if (const Slot next = queue_.Top(); next != kNoSlot) table_.Prefetch(next);
  inside_ = false;
  return *draft_.plan;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Build() {
  budget_.BeginBuild();
  // What had no memory last time is asked first: else what was freed for it goes to admissions, again and again.
  const bool lacked_kv = draft_.short_of_kv || draft_.row_refused;
  draft_.prompts_first = draft_.crowded_plans >= kMostCrowdedPlans && !lacked_kv;
  const bool running_first = (options_.order == StepOrder::kRunningFirst && !draft_.prompts_first) || lacked_kv;
  draft_.short_of_kv = draft_.displaced = draft_.refused = draft_.row_refused = false;
  draft_.crowded = false;
  draft_.top_waits_for = WaitsFor::kItsTurn;
  draft_.head = kNoSlot;
  round_.Clear();

  if (running_first) {
    PlanRunning();
    if (!draft_.prompts.empty()) PlanPrompts();
    AdmitWaiting();
  } else {
    PlanPrefills();
    if (!draft_.prompts.empty()) PlanPrompts();
    AdmitWaiting();
    PlanLongPrompts();
    PlanDecodes();
    if (!draft_.prompts.empty()) PlanPrompts();
  }
  PlanLongPrompts();
  if (!draft_.offers.empty()) PlanDrafts();
  if (!round_.empty()) AskOracle();
  CloseGaps();
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_PLAN_H_
