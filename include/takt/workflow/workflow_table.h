// All running workflows: which calls may be sent, and how much time each may take.
//
//   WorkflowTable table;
//   table.Declare({.id = {7}, .deadline = deadline, .stages = {{.stage = plan}, {.stage = write, .after = {0}}}}, now);
//   const auto made = table.Make(slot, {7}, plan, cost_s, now);   // a call; made.ready: may be sent
//   request.deadline = table.DeadlineOf(slot, cost_s, now);       // when it is sent
//   table.Ended(slot, now);                                       // released(): calls that waited for it
#ifndef TAKT_WORKFLOW_WORKFLOW_TABLE_H_
#define TAKT_WORKFLOW_WORKFLOW_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/slot.h"
#include "takt/base/time.h"
#include "takt/config.h"
#include "takt/model/workflow.h"
#include "takt/workflow/call_table.h"
#include "takt/workflow/slo_budget.h"
#include "takt/workflow/stage_graph.h"
#include "takt/workflow/stage_lessons.h"
#include "takt/workflow/stage_profile.h"
#include "takt/workflow/stage_progress.h"
#include "takt/workflow/workflow_records.h"

namespace takt {

struct WorkflowTableOptions {
  std::vector<SloClass> classes = {};  // by tenant; tenants without a class have no deadline
  Duration silence = std::chrono::hours(1);  // time without a report after which a workflow fails; max: never
  std::int32_t max_stages = 100'000;  // maximum stages of a workflow, so that an endless loop does not use up memory
  std::int64_t memory = 1000;  // number of observations that a learnt mean counts as
  std::int64_t reserve_workflows = 256;  // number of workflows for which memory is reserved at creation
  std::int64_t reserve_stages = 4096;  // number of stages, and of predecessors, for which memory is reserved
  std::int64_t reserve_calls = 1024;  // number of calls that have not ended for which memory is reserved
};

// Thread-compatible and deterministic. Invalid input changes nothing and returns a WorkflowFault. A time that goes back
// counts as the latest time.
//
// A call belongs to the first declared stage of its call site that lacks calls. If no stage lacks calls, the workflow
// grows by an undeclared stage. Further calls of the site join this stage until it ends. A call is ready if all
// predecessors of its stage have ended; until then it is held. A stage ends when all its calls have ended. The owner
// names each call by a handle, a small number (a slot).
//
// Parts: WorkflowRecords, StageGraph, CallTable and StageLessons. Cost: O(1) per call, and O(successors) at the end of
// a stage, if calls come roughly in order of declaration. The worst case, and the cost after a change of the graph, is
// O(stages of the workflow). Memory grows only with the peak number in use.
class WorkflowTable {
 public:
  using Handle = std::uint32_t;

  explicit WorkflowTable(WorkflowTableOptions options = {})
      : max_stages_(options.max_stages),
        lessons_(options.memory),
        workflows_(std::move(options.classes), options.silence) {
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(std::max<std::int64_t>(0, n)); };
    workflows_.Reserve(size(options.reserve_workflows));
    graph_.Reserve(size(options.reserve_stages));
    calls_.Reserve(size(options.reserve_calls));
    released_.reserve(size(options.reserve_calls));
    dropped_.reserve(size(options.reserve_calls));
    ended_.reserve(size(options.reserve_workflows));
  }

  // ---- inputs -----------------------------------------------------------------------------------------------------

  // Adds a workflow. A cycle or an unknown predecessor is a fault that names the stage; the workflow is then not added.
  WorkflowFault Declare(const Workflow& w, TimePoint now) {
    workflows_.Clock(now);
    if (!w.id) return {WorkflowFault::kNoId};
    if (alive(w.id)) return {WorkflowFault::kAlive, w.id};
    const auto count = static_cast<std::uint32_t>(std::min<std::size_t>(w.stages.size(), UINT32_MAX));
    if (std::cmp_greater(count, max_stages_)) return {WorkflowFault::kTooLarge, w.id, count};
    const Slot slot = workflows_.Insert(w);
    const WorkflowFault fault = graph_.Open(workflows_[slot].stages, w.stages, profile());
    if (fault) Erase(slot);
    return About(w.id, fault);
  }

  // Adds a stage before the stages `before`, none of which may have begun. WorkflowStage::after lists its predecessors.
  // The new stage's index is the previous number of stages.
  WorkflowFault Grow(WorkflowId id, const WorkflowStage& stage, std::span<const std::uint32_t> before, TimePoint now) {
    workflows_.Clock(now);
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {WorkflowFault::kUnknown, id};
    StageList& stages = workflows_[slot].stages;
    if (IsFull(stages)) return {WorkflowFault::kTooLarge, id, stages.size, stage.stage};
    const WorkflowFault fault = graph_.Grow(stages, stage, before, profile());
    if (!fault) workflows_.Touch(slot);
    return About(id, fault);
  }

  struct Made {
    WorkflowFault fault = {};
    std::uint32_t stage = 0;  // index of the call's stage
    bool ready = false;  // false: held until released() names it
  };

  // Makes a call at a call site. cost_s: expected time of the call alone, averaged over the instances [s]; 0: unknown.
  // `call` must not be in use.
  Made Make(Handle call, WorkflowId id, StageId site, double cost_s, TimePoint now) {
    workflows_.Clock(now);
    TAKT_ASSERT(!contains(call));
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {{WorkflowFault::kUnknown, id, 0, site}};
    Record& w = workflows_[slot];
    const std::uint32_t index = w.stages.progress.Lacking(graph_.Of(w.stages), site);
    if (index == w.stages.size) {
      if (IsFull(w.stages)) return {{WorkflowFault::kTooLarge, id, index, site}};
      graph_.Append(w.stages, site, profile());
    }
    Stage& stage = graph_.At(w.stages, index);
    w.stages.progress.Make(stage, cost_s);
    if (stage.ready()) Begin(w, stage);
    calls_.Join(call, {slot, index}, w.calls, stage.first_held, !stage.ready());
    workflows_.Touch(slot);
    return {{}, index, stage.ready()};
  }

  // Ends a call that succeeded. Returns false if the call is unknown.
  bool Ended(Handle call, TimePoint now) { return Left(call, true, now); }
  // Ends a call that failed, so its stage lacks a call again. Without a new call, the workflow fails after `silence`.
  bool Lost(Handle call, TimePoint now) { return Left(call, false, now); }

  // Closes a stage to further calls, for example when a loop ends early or a branch is skipped. The stage ends with the
  // calls made so far.
  WorkflowFault EndStage(WorkflowId id, std::uint32_t index, TimePoint now) {
    workflows_.Clock(now);
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {WorkflowFault::kUnknown, id};
    StageList& stages = workflows_[slot].stages;
    if (index >= stages.size) return {WorkflowFault::kDangling, id, index};
    if (const Stage& stage = graph_.At(stages, index); stage.ended) {
      return {WorkflowFault::kEnded, id, index, stage.site};
    }
    graph_.Shut(stages, index);
    workflows_.Touch(slot);
    FinishIfOver(slot, index);
    return {};
  }

  // Ends the workflow, also before its last stage. dropped() then has its remaining calls. A cancelled one teaches
  // nothing.
  WorkflowFault End(WorkflowId id, bool cancelled, TimePoint now) {
    workflows_.Clock(now);
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {WorkflowFault::kUnknown, id};
    Close(slot, cancelled ? WorkflowEnd::kCancelled : WorkflowEnd::kCompleted);
    return {};
  }

  // Fails workflows without a report for too long, if none of their calls could run.
  void Advance(TimePoint now) {
    workflows_.Clock(now);
    for (Slot slot; (slot = workflows_.Silent()) != kNoSlot;) {
      if (workflows_[slot].calls.running > 0) workflows_.Touch(slot);
      else Close(slot, WorkflowEnd::kSilent);
    }
  }
  // Returns the next time at which Advance may have work.
  TimePoint wake_at() const { return workflows_.silent_at(); }

  // ---- results; the owner clears them
  // ---------------------------------------------------------------------------------

  std::vector<Handle>& released() { return released_; }  // held calls that may be sent now
  std::vector<Handle>& dropped() { return dropped_; }  // calls of workflows that are over, removed from the table
  std::vector<WorkflowEnd>& ended() { return ended_; }

  // ---- budgets ----------------------------------------------------------------------------------------------------

  // Returns the time by which the call must end if it is sent now; kNever without a deadline. own_s: expected time of
  // the call alone, averaged over the instances [s]; 0: the time given to Make. The most expensive call of a parallel
  // stage counts. O(stages) after a change of the graph and for an undeclared stage; else O(1).
  TimePoint DeadlineOf(Handle call, double own_s, TimePoint now, const BudgetOptions& options = {}) {
    const TimePoint deadline = WorkflowOf(call).deadline;
    return deadline == kNever ? kNever : Later(now, BudgetOf(call, own_s, now, options));
  }
  // Returns the time that the call may take from now [s]; meaningless without a deadline.
  double BudgetOf(Handle call, double own_s, TimePoint now, const BudgetOptions& options = {}) {
    const double own = std::max(own_s, StageOf(call).cost_s);
    return SloBudget(SecondsBetween(now, WorkflowOf(call).deadline), own, After(call).cost_s, options);
  }

  // Returns the expected work after the call's stage: the most expensive path in the declared graph; else the remaining
  // expected stages in sequence; else the learnt mean of its call site.
  Outlook After(Handle call) {
    Record& w = WorkflowOf(call);
    const Stage& stage = StageOf(call);
    if (w.stages.declared > 0) return graph_.After(w.stages, stage);
    return w.expected ? w.expected.Sum(profile()) : profile().After(stage.site, stage.visit);
  }

  // ---- state
  // ----------------------------------------------------------------------------------------------------------

  std::size_t size() const { return workflows_.size(); }
  bool contains(Handle call) const { return calls_.contains(call); }
  bool held(Handle call) const { return calls_.held(call); }
  const StageProfile& profile() const { return lessons_.profile(); }

  struct View {
    TenantId tenant = {};
    TimePoint arrival{}, deadline = kNever;
    std::uint32_t stages = 0, ended = 0;  // number of known stages and of ended stages
    std::uint32_t calls = 0, running = 0;  // number of calls that have not ended, and number of these that are not held
  };
  // Returns the workflow's state; zeros if it is unknown or over.
  View Find(WorkflowId id) const {
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {};
    const Record& w = workflows_[slot];
    return {w.tenant, w.arrival, w.deadline, w.stages.size, w.stages.progress.ended(), w.calls.size, w.calls.running};
  }
  void KeyHashes(std::uint64_t seed) { workflows_.KeyHashes(seed); }
  bool alive(WorkflowId id) const { return workflows_.Find(id) != kNoSlot; }
  // Returns true if all predecessors of the stage have ended, and the stage has not.
  bool StageReady(WorkflowId id, std::uint32_t stage) const {
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot || stage >= workflows_[slot].stages.size) return false;
    const Stage& s = graph_.At(workflows_[slot].stages, stage);
    return s.ready() && !s.ended;
  }

 private:
  using Stage = internal::Stage;
  using StageList = internal::StageList;
  using Record = internal::WorkflowRecord;

  bool IsFull(const StageList& stages) const { return std::cmp_greater_equal(stages.size, max_stages_); }
  static WorkflowFault About(WorkflowId id, WorkflowFault fault) {
    if (fault) fault.workflow = id;
    return fault;
  }

  void Close(Slot slot, WorkflowEnd::How how) {
    const Record& w = workflows_[slot];
    const std::span<const Stage> stages = graph_.Of(w.stages);
    std::uint32_t unfinished = 0;
    while (how == WorkflowEnd::kSilent && unfinished < stages.size() && stages[unfinished].ended) ++unfinished;
    ended_.push_back({w.id, how, w.arrival, workflows_.now(), w.deadline, unfinished});
    if (how == WorkflowEnd::kCompleted) lessons_.Learn(stages);
    for (Handle call; (call = w.calls.first) != kNoSlot; Leave(call)) dropped_.push_back(call);
    Erase(slot);
  }

  void Erase(Slot slot) {
    graph_.Close(workflows_[slot].stages);
    workflows_.Erase(slot);
  }

  void Begin(Record& w, Stage& stage) {
    if (w.stages.progress.Begin(stage)) w.expected.Begin(stage.site);
  }

  Record& WorkflowOf(Handle call) { return workflows_[calls_.PlaceOf(call).workflow]; }
  Stage& StageOf(Handle call) { return graph_.At(WorkflowOf(call).stages, calls_.PlaceOf(call).stage); }
  void Leave(Handle call) { calls_.Leave(call, WorkflowOf(call).calls, StageOf(call).first_held); }

  bool Left(Handle call, bool well, TimePoint now) {
    workflows_.Clock(now);
    if (!contains(call)) return false;
    const auto [slot, index] = calls_.PlaceOf(call);
    Stage& stage = StageOf(call);
    Leave(call);
    workflows_.Touch(slot);
    if (well) ++stage.ended_calls;
    else workflows_[slot].stages.progress.Lose(stage, index);
    FinishIfOver(slot, index);
    return true;
  }

  // If the stage is over, releases the calls of its successors. The workflow ends with its last stage.
  void FinishIfOver(Slot slot, std::uint32_t index) {
    Record& w = workflows_[slot];
    if (!graph_.At(w.stages, index).over()) return;
    graph_.Finish(w.stages, index, [&](Stage& next) {
      if (next.first_held != kNoSlot) Begin(w, next);
      calls_.Release(w.calls, next.first_held, released_);
    });
    if (w.stages.progress.ended() == w.stages.size && !w.open) Close(slot, WorkflowEnd::kCompleted);
  }

  std::int32_t max_stages_;
  internal::StageLessons lessons_;
  internal::WorkflowRecords workflows_;
  internal::StageGraph graph_;
  internal::CallTable calls_;
  std::vector<Handle> released_, dropped_;
  std::vector<WorkflowEnd> ended_;
};

}  // namespace takt

#endif  // TAKT_WORKFLOW_WORKFLOW_TABLE_H_
