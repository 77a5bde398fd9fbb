// All living workflows: which of their calls may be made, and how much time each may take.
//
//   WorkflowTable table;
//   table.Declare({.id = {7}, .deadline = deadline, .stages = {{.stage = plan}, {.stage = write, .after = {0}}}}, now);
//   const auto made = table.Make(slot, {7}, plan, cost_s, now);   // a call; made.ready: may be sent
//   request.deadline = table.DeadlineOf(slot, cost_s, now);       // when it is sent
//   table.Ended(slot, now);                                       // released(): calls that waited for it
#ifndef TAKT_WORKFLOW_WORKFLOW_TABLE_H_
#define TAKT_WORKFLOW_WORKFLOW_TABLE_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/id.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"
#include "takt/config.h"
#include "takt/model/workflow.h"
#include "takt/workflow/slo_budget.h"
#include "takt/workflow/stage_profile.h"

namespace takt {

struct WorkflowTableOptions {
  std::vector<SloClass> classes = {};  // by tenant; a tenant in none has no deadline
  Duration silence = std::chrono::hours(1);  // a workflow of which nothing was heard for so long has failed; max: never
  std::int32_t max_stages = 100'000;  // of one workflow: a loop that never ends takes no more memory
  std::int64_t memory = 1000;  // observations that a learned mean weighs
  std::int64_t reserve_workflows = 256;  // storage made ready at creation; up to here nothing allocates
  std::int64_t reserve_stages = 4096;  // of all of them, and as many predecessors
  std::int64_t reserve_calls = 1024;  // alive at once
};

namespace internal {

// Arrays of 2^k elements in one vector. Freed ones are reused, never split: no more memory than the peaks of each size.
template <class T>
class ArrayPool {
 public:
  void Reserve(std::size_t n) { items_.reserve(n); }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }

  std::uint32_t Take(std::uint32_t k) {
    if (free_[k].empty()) {
      free_[k].push_back(static_cast<std::uint32_t>(items_.size()));
      items_.resize(items_.size() + (std::size_t{1} << k));
    }
    const std::uint32_t first = free_[k].back();
    free_[k].pop_back();
    return first;
  }
  void Give(std::uint32_t first, std::uint32_t k) { free_[k].push_back(first); }

 private:
  std::vector<T> items_;
  std::array<std::vector<std::uint32_t>, 32> free_;
};

}  // namespace internal

// Thread-compatible; deterministic; total: whatever is said in whatever order either holds or is a WorkflowFault that
// changes nothing. Times that step back count as the latest one told.
//
// A call is made at a stage of its workflow: the first of its call site, in the order of declaration, that lacks calls.
// Where none does, the workflow grows by a stage that was not announced; further calls of that site join it until it
// ends. A call is ready once all predecessors of its stage have ended; until then it is held. A stage ends when as many
// of its calls have ended as it has. All calls are told by a handle, a small number of the owner's choice (a slot).
//
// Cost: O(1) per call, and O(successors) when a stage ends, where calls come in about the order of declaration;
// O(stages of the workflow) at worst, and after a change of its graph. Nothing is allocated beyond the peaks of what is
// alive.
class WorkflowTable {
 public:
  using Handle = std::uint32_t;

  explicit WorkflowTable(WorkflowTableOptions options = {}) : options_(std::move(options)), profile_(options_.memory) {
    options_.silence = std::max(options_.silence, Duration(1));
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(std::max<std::int64_t>(0, n)); };
    workflows_.Reserve(size(options_.reserve_workflows));
    stages_.Reserve(size(options_.reserve_stages));
    edges_.reserve(size(options_.reserve_stages));
    calls_.reserve(size(options_.reserve_calls));
    released_.reserve(size(options_.reserve_calls));
    dropped_.reserve(size(options_.reserve_calls));
    ended_.reserve(size(options_.reserve_workflows));
    profile_.Reserve(256);
  }

  // ---- what is told ---------------------------------------------------------------------------------------------

  // A workflow begins. A cycle or a dangling predecessor is told by the stage at fault, and the workflow is not there.
  WorkflowFault Declare(const Workflow& w, TimePoint now) {
    Clock(now);
    if (!w.id) return {WorkflowFault::kNoId};
    if (alive(w.id)) return {WorkflowFault::kAlive, w.id};
    if (std::cmp_greater(w.stages.size(), options_.max_stages))
      return {WorkflowFault::kTooLarge, w.id, Count(w.stages)};
    const std::uint32_t slot = Insert(w);
    for (const WorkflowStage& stage : w.stages) AddStage(slot, stage);
    WorkflowFault fault;
    for (std::uint32_t i = 0; i < w.stages.size() && !fault; ++i) fault = Link(slot, i, w.stages[i]);
    if (!fault) fault = LookAhead(slot);
    if (fault) Erase(slot);
    return fault;
  }

  // The workflow grows by a stage (WorkflowStage::after: its predecessors) that comes before the stages `before`, none
  // of which may have begun. Its index is the number of stages that there were.
  WorkflowFault Grow(WorkflowId id, const WorkflowStage& stage, std::span<const std::uint32_t> before, TimePoint now) {
    Clock(now);
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {WorkflowFault::kUnknown, id};
    Record& w = workflows_[slot];
    const std::uint32_t index = w.stages;
    const auto fault_at = [&](WorkflowFault::Kind kind, std::uint32_t at) {
      return WorkflowFault{kind, id, at, at < w.stages ? At(w, at).site : stage.stage};
    };
    if (std::cmp_greater_equal(index, options_.max_stages)) return fault_at(WorkflowFault::kTooLarge, index);
    for (const std::uint32_t b : before) {
      if (b >= index) return fault_at(WorkflowFault::kDangling, b);
      if (At(w, b).ended) return fault_at(WorkflowFault::kEnded, b);
      if (At(w, b).made > 0 && At(w, b).missing == 0) return fault_at(WorkflowFault::kTooLate, b);
    }
    AddStage(slot, stage);
    WorkflowFault fault = Link(slot, index, stage);
    if (!fault) {
      for (const std::uint32_t b : before) AddEdge(w, index, b);
      if (!before.empty()) fault = LookAhead(slot);
      if (fault) {
        for (std::size_t i = before.size(); i-- > 0;) DropEdge(w, index);
      }
    }
    if (fault) {
      for (std::size_t i = Linked(w, index, stage); i-- > 0;) DropEdge(w, stage.after[i]);
      --w.stages;
      w.stale = true;
      return fault;
    }
    ++w.declared;
    Touch(slot);
    return {};
  }

  struct Made {
    WorkflowFault fault = {};
    std::uint32_t stage = 0;  // that it is a call of
    bool ready = false;  // false: held until released() names it
  };

  // A call is made at a call site. cost_s: its expected time alone, mean over the instances [s]; 0: not known.
  // `call` must not be in use.
  Made Make(Handle call, WorkflowId id, StageId site, double cost_s, TimePoint now) {
    Clock(now);
    TAKT_ASSERT(!contains(call));
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {{WorkflowFault::kUnknown, id, 0, site}};
    Record& w = workflows_[slot];
    std::uint32_t index = Lacking(w, site);
    if (index == w.stages) {
      if (std::cmp_greater_equal(index, options_.max_stages)) return {{WorkflowFault::kTooLarge, id, index, site}};
      AddStage(slot, {.stage = site});
      At(w, index).announced = false;
      At(w, index).calls = 0;
    }
    Stage& stage = At(w, index);
    if (!stage.announced) ++stage.calls;
    ++stage.made;
    if (cost_s > 0 && cost_s <= 1e15) {
      stage.cost_s = stage.cost_told ? std::max(stage.cost_s, cost_s) : cost_s;
      stage.cost_told = true;
    }
    const bool ready = stage.missing == 0;
    if (ready) Begin(w, stage);
    Join(call, slot, index, !ready);
    Touch(slot);
    return {{}, index, ready};
  }

  // The call has ended well. False where there is no such call (any more).
  bool Ended(Handle call, TimePoint now) {
    Clock(now);
    if (!contains(call)) return false;
    const std::uint32_t slot = calls_[call].workflow, index = calls_[call].stage;
    Leave(call);
    Touch(slot);
    Stage& stage = At(workflows_[slot], index);
    if (++stage.ended_calls >= stage.calls) Finish(slot, index);
    return true;
  }

  // The call will not end well; its stage lacks it again. Where it is not made again, silence ends the workflow.
  bool Lost(Handle call, TimePoint now) {
    Clock(now);
    if (!contains(call)) return false;
    const std::uint32_t slot = calls_[call].workflow, index = calls_[call].stage;
    Leave(call);
    Touch(slot);
    Record& w = workflows_[slot];
    Stage& stage = At(w, index);
    --stage.made;
    w.lacking = std::min(w.lacking, index);
    if (!stage.announced || stage.closed) --stage.calls;
    if (stage.ended_calls >= stage.calls) Finish(slot, index);
    return true;
  }

  // No further calls are made at the stage: it ends with those that have been made (a loop ends early, a branch is not
  // taken).
  WorkflowFault EndStage(WorkflowId id, std::uint32_t index, TimePoint now) {
    Clock(now);
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {WorkflowFault::kUnknown, id};
    Record& w = workflows_[slot];
    if (index >= w.stages) return {WorkflowFault::kDangling, id, index};
    Stage& stage = At(w, index);
    if (stage.ended) return {WorkflowFault::kEnded, id, index, stage.site};
    stage.calls = stage.made;
    stage.closed = true;
    w.stale = true;
    Touch(slot);
    if (stage.ended_calls >= stage.calls) Finish(slot, index);
    return {};
  }

  // The workflow is over, early or not; or it is cancelled, and nothing is learnt of it. Calls that are alive are
  // dropped().
  WorkflowFault End(WorkflowId id, bool cancelled, TimePoint now) {
    Clock(now);
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {WorkflowFault::kUnknown, id};
    Close(slot, cancelled ? WorkflowEnd::kCancelled : WorkflowEnd::kCompleted);
    return {};
  }

  // Fails the workflows of which nothing was heard for too long while none of their calls could run.
  void Advance(TimePoint now) {
    Clock(now);
    while (wake_at() != kNever && wake_at() <= now_) {
      const std::uint32_t slot = by_age_.oldest();
      if (workflows_[slot].running > 0) {
        Touch(slot);
      } else {
        Close(slot, WorkflowEnd::kSilent);
      }
    }
  }
  // When Advance may have something to do.
  TimePoint wake_at() const {
    if (by_age_.empty() || options_.silence == Duration::max()) return kNever;
    return takt::After(workflows_[by_age_.oldest()].heard, options_.silence);
  }

  // ---- what follows; the owner clears -----------------------------------------------------------------------------

  std::vector<Handle>& released() { return released_; }  // held calls that may be sent now
  std::vector<Handle>& dropped() { return dropped_; }  // calls of workflows that are over: not in the table any more
  std::vector<WorkflowEnd>& ended() { return ended_; }

  // ---- budgets ----------------------------------------------------------------------------------------------------

  // By when the call must end if it is sent now; kNever where its workflow has no deadline. own_s: its expected time
  // alone, mean over the instances [s], 0: as told when it was made. Of a parallel stage, the dearest call counts.
  // O(stages) after a change of the graph, and for a stage that was not announced; else O(1).
  TimePoint DeadlineOf(Handle call, double own_s, TimePoint now, const BudgetOptions& options = {}) {
    const TimePoint deadline = workflows_[calls_[call].workflow].deadline;
    return deadline == kNever ? kNever : Later(now, BudgetOf(call, own_s, now, options));
  }
  // The time that it may take from now [s]; meaningless without a deadline.
  double BudgetOf(Handle call, double own_s, TimePoint now, const BudgetOptions& options = {}) {
    const Record& w = workflows_[calls_[call].workflow];
    const double own = std::max(own_s, At(w, calls_[call].stage).cost_s);
    return SloBudget(SecondsBetween(now, w.deadline), own, After(call).cost_s, options);
  }

  // What is to be expected after the call's stage: the dearest path through the declared graph; else what is left of
  // the expected stages, one after the other; else what was learnt of its call site.
  Outlook After(Handle call) {
    const std::uint32_t slot = calls_[call].workflow, index = calls_[call].stage;
    const Record& w = workflows_[slot];
    const Stage& stage = At(w, index);
    if (w.declared > 0) {
      if (w.stale) static_cast<void>(LookAhead(slot));
      return stage.announced ? stage.after : AllThatHasNotBegun(w);
    }
    return w.expected ? Expected(w) : profile_.After(stage.site, stage.visit);
  }

  // ---- what is there ----------------------------------------------------------------------------------------------

  std::size_t size() const { return workflows_.size(); }
  bool contains(Handle call) const { return call < calls_.size() && calls_[call].workflow != kNoSlot; }
  bool held(Handle call) const { return contains(call) && calls_[call].held; }
  const StageProfile& profile() const { return profile_; }

  struct View {
    TenantId tenant = {};
    TimePoint arrival{}, deadline = kNever;
    std::uint32_t stages = 0, ended = 0;  // known so far
    std::uint32_t calls = 0, running = 0;  // alive, and of these not held
  };
  // Nothing but zeros where it is not alive.
  View Find(WorkflowId id) const {
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot) return {};
    const Record& w = workflows_[slot];
    return {w.tenant, w.arrival, w.deadline, w.stages, w.ended, w.calls, w.running};
  }
  void KeyHashes(std::uint64_t seed) { workflows_.KeyHashes(seed); }

  bool alive(WorkflowId id) const { return workflows_.Find(id) != kNoSlot; }
  // All predecessors of the stage have ended, and it has not.
  bool StageReady(WorkflowId id, std::uint32_t stage) const {
    const Slot slot = workflows_.Find(id);
    if (slot == kNoSlot || stage >= workflows_[slot].stages) return false;
    const Stage& s = At(workflows_[slot], stage);
    return s.missing == 0 && !s.ended;
  }

 private:
  static constexpr std::uint32_t kLookBack = 64;  // stages in which earlier visits to a call site are looked for

  struct Stage {
    StageId site = {};
    double cost_s = 0;  // of a call; the dearest told, else as declared or learnt
    Outlook after = {};  // valid unless the workflow is stale
    std::int32_t calls = 0, made = 0, ended_calls = 0;
    std::uint32_t missing = 0;  // predecessors that have not ended
    std::uint32_t successors = kNoSlot;  // its first edge
    std::uint32_t first_held = kNoSlot;  // calls, by handle
    std::uint32_t began_at = kNoSlot, ended_at = 0;  // counting the moments of its workflow
    std::uint32_t visit = 0;  // to its call site
    std::uint8_t mark = 0;  // of LookAhead
    bool announced = true, closed = false, ended = false, cost_told = false;
  };
  struct Edge {
    std::uint32_t to = 0, next = kNoSlot;
  };
  struct Record {
    WorkflowId id;
    TenantId tenant;
    TimePoint arrival{}, deadline = kNever, heard{};
    std::shared_ptr<const ExpectedStages> expected;
    std::uint64_t expecting = 0;  // a bit for each expected stage that is still to come
    std::uint32_t first = 0, log_room = 0;  // its stages in stages_
    std::uint32_t stages = 0, ended = 0, declared = 0;
    std::uint32_t lacking = 0;  // no stage before this one lacks calls
    std::uint32_t moments = 0;
    std::uint32_t calls = 0, running = 0, first_call = kNoSlot;
    AgeLink age = {};  // by when they were last heard of
    bool open = false, stale = false;
    bool ended_early = false;  // a stage has, before one ahead of it: what grows behind it is behind that one, too
  };
  struct Call {
    std::uint32_t workflow = kNoSlot, stage = 0;
    std::uint32_t previous = kNoSlot, next = kNoSlot;  // of its workflow
    std::uint32_t next_held = kNoSlot;
    bool held = false;
  };

  Stage& At(const Record& w, std::uint32_t index) { return stages_[w.first + index]; }
  const Stage& At(const Record& w, std::uint32_t index) const { return stages_[w.first + index]; }
  static std::uint32_t Count(const std::vector<WorkflowStage>& stages) {
    return static_cast<std::uint32_t>(std::min<std::size_t>(stages.size(), UINT32_MAX));
  }
  void Clock(TimePoint now) { now_ = std::max(now_, now); }

  // ---- workflows --------------------------------------------------------------------------------------------------

  std::uint32_t Insert(const Workflow& w) {
    const Slot slot = workflows_.Insert(w.id);
    const auto room = static_cast<std::uint32_t>(std::bit_width(std::max<std::size_t>(w.stages.size(), 4) - 1));
    Record& r = workflows_[slot];
    r = {.id = w.id, .tenant = w.tenant, .expected = w.expected, .first = stages_.Take(room), .log_room = room};
    r.open = w.open || w.stages.empty();
    r.arrival = w.arrival == kUnset ? now_ : w.arrival;
    r.deadline = w.deadline == kUnset ? ClassDeadline(w.tenant, r.arrival) : w.deadline;
    r.declared = Count(w.stages);
    if (w.expected) {
      const std::size_t n = std::min(w.expected->stages.size(), ExpectedStages::kMost);
      r.expecting = n == 0 ? 0 : UINT64_MAX >> (ExpectedStages::kMost - n);
    }
    r.heard = now_;
    by_age_.Append(workflows_, slot);
    return slot;
  }

  TimePoint ClassDeadline(TenantId tenant, TimePoint arrival) const {
    for (const SloClass& c : options_.classes) {
      if (c.tenant == tenant) return c.slo == Duration::max() ? kNever : Later(arrival, ToSeconds(c.slo));
    }
    return kNever;
  }

  void Close(std::uint32_t slot, WorkflowEnd::How how) {
    const Record& w = workflows_[slot];
    std::uint32_t unfinished = 0;
    while (how == WorkflowEnd::kSilent && unfinished < w.stages && At(w, unfinished).ended) ++unfinished;
    ended_.push_back({w.id, how, w.arrival, now_, w.deadline, unfinished});
    if (how == WorkflowEnd::kCompleted) Learn(w);
    for (std::uint32_t call = w.first_call; call != kNoSlot; call = w.first_call) {
      dropped_.push_back(call);
      Leave(call);
    }
    Erase(slot);
  }

  void Erase(std::uint32_t slot) {
    Record& w = workflows_[slot];
    for (std::uint32_t i = 0; i < w.stages; ++i) {
      while (At(w, i).successors != kNoSlot) FreeEdge(At(w, i).successors);
    }
    stages_.Give(w.first, w.log_room);
    by_age_.Remove(workflows_, slot);
    w.expected.reset();
    workflows_.Erase(slot, w.id);
  }

  // The list of workflows, by when they were last heard of.
  void Touch(std::uint32_t slot) {
    workflows_[slot].heard = now_;
    by_age_.MoveToEnd(workflows_, slot);
  }

  // ---- stages -----------------------------------------------------------------------------------------------------

  void AddStage(std::uint32_t slot, const WorkflowStage& told) {
    Record& w = workflows_[slot];
    if (w.stages == std::uint32_t{1} << w.log_room) {
      const std::uint32_t first = stages_.Take(w.log_room + 1);
      for (std::uint32_t i = 0; i < w.stages; ++i) stages_[first + i] = stages_[w.first + i];
      stages_.Give(w.first, w.log_room++);
      w.first = first;
    }
    Stage& stage = At(w, w.stages);
    stage = {.site = told.stage, .calls = told.calls};
    stage.cost_s = told.cost_s > 0 && told.cost_s <= 1e15 ? told.cost_s : profile_.CostOf(told.stage);
    for (std::uint32_t i = w.stages; i-- > 0 && w.stages - i <= kLookBack;) {
      if (At(w, i).site != told.stage) continue;
      stage.visit = At(w, i).visit + 1;
      break;
    }
    ++w.stages;
  }

  // Draws the edges from its predecessors. A fault leaves those before it in place.
  WorkflowFault Link(std::uint32_t slot, std::uint32_t index, const WorkflowStage& told) {
    Record& w = workflows_[slot];
    const auto fault = [&](WorkflowFault::Kind kind) { return WorkflowFault{kind, w.id, index, told.stage}; };
    if (!told.stage) return fault(WorkflowFault::kNoId);
    if (told.calls < 1) return fault(WorkflowFault::kNoCalls);
    for (const std::uint32_t before : told.after) {
      if (before >= w.stages) return fault(WorkflowFault::kDangling);
      if (before == index) return fault(WorkflowFault::kCycle);
      AddEdge(w, before, index);
      w.stale |= !At(w, before).ended || w.ended_early;
    }
    return {};
  }
  // How many of its predecessors Link got to, for one that came to an end.
  static std::size_t Linked(const Record& w, std::uint32_t index, const WorkflowStage& told) {
    if (!told.stage || told.calls < 1) return 0;
    const auto bad = std::ranges::find_if(told.after, [&](std::uint32_t b) { return b >= w.stages || b == index; });
    return static_cast<std::size_t>(bad - told.after.begin());
  }

  void AddEdge(Record& w, std::uint32_t from, std::uint32_t to) {
    std::uint32_t edge = free_edge_;
    if (edge == kNoSlot) {
      edge = static_cast<std::uint32_t>(edges_.size());
      edges_.emplace_back();
    } else {
      free_edge_ = edges_[edge].next;
    }
    edges_[edge] = {to, std::exchange(At(w, from).successors, edge)};
    At(w, to).missing += At(w, from).ended ? 0u : 1u;
  }
  // Takes back the newest edge from a stage.
  void DropEdge(Record& w, std::uint32_t from) {
    At(w, edges_[At(w, from).successors].to).missing -= At(w, from).ended ? 0u : 1u;
    FreeEdge(At(w, from).successors);
  }
  void FreeEdge(std::uint32_t& link) {
    const std::uint32_t edge = link;
    link = edges_[edge].next;
    edges_[edge].next = std::exchange(free_edge_, edge);
  }

  // The first stage of the site that lacks calls; the number of stages where none does.
  std::uint32_t Lacking(Record& w, StageId site) {
    const auto lacks = [](const Stage& s) { return !s.ended && !s.closed && (!s.announced || s.made < s.calls); };
    while (w.lacking < w.stages && !lacks(At(w, w.lacking))) ++w.lacking;
    std::uint32_t i = w.lacking;
    while (i < w.stages && !(At(w, i).site == site && lacks(At(w, i)))) ++i;
    return i;
  }

  void Begin(Record& w, Stage& stage) {
    if (stage.began_at != kNoSlot) return;
    stage.began_at = w.moments++;
    if (!w.expected) return;
    bool met = false;
    for (std::uint64_t left = w.expecting; left != 0; left &= left - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(left));
      const ExpectedStages::Stage& e = w.expected->stages[i];
      const bool is_it = !met && e.stage == stage.site;
      met |= is_it;
      if (is_it || (e.ended_by && e.ended_by == stage.site)) w.expecting &= ~(std::uint64_t{1} << i);
    }
  }

  // The stage is over: its successors lose a predecessor, and the workflow ends with its last stage.
  void Finish(std::uint32_t slot, std::uint32_t index) {
    Record& w = workflows_[slot];
    Stage& stage = At(w, index);
    stage.ended = true;
    w.ended_early |= stage.missing > 0;
    stage.ended_at = w.moments++;
    ++w.ended;
    for (std::uint32_t e = stage.successors; e != kNoSlot; e = edges_[e].next) {
      Stage& next = At(w, edges_[e].to);
      if (--next.missing == 0) Release(w, next);
    }
    if (w.ended == w.stages && !w.open) Close(slot, WorkflowEnd::kCompleted);
  }

  // Sets Stage::after of all stages: of the dearest path, the longest of those. The fault is a cycle.
  WorkflowFault LookAhead(std::uint32_t slot) {
    Record& w = workflows_[slot];
    for (std::uint32_t i = 0; i < w.stages; ++i) At(w, i).mark = kUnseen;
    for (std::uint32_t root = 0; root < w.stages; ++root) {
      if (At(w, root).mark != kUnseen) continue;
      Enter(w, root);
      while (!path_.empty()) {
        auto& [index, edge] = path_.back();
        Stage& stage = At(w, index);
        if (edge == kNoSlot) {
          stage.mark = kSeen;
          path_.pop_back();
          if (!path_.empty()) Take(At(w, path_.back().first).after, stage);
          continue;
        }
        const std::uint32_t to = edges_[edge].to;
        edge = edges_[edge].next;
        if (At(w, to).mark == kSeen) {
          Take(stage.after, At(w, to));
        } else if (At(w, to).mark == kUnseen) {
          Enter(w, to);
        } else {
          path_.clear();
          return {WorkflowFault::kCycle, w.id, to, At(w, to).site};
        }
      }
    }
    w.stale = false;
    return {};
  }
  void Enter(const Record& w, std::uint32_t index) {
    Stage& stage = At(w, index);
    stage.mark = kOnPath;
    stage.after = {};
    path_.push_back({index, stage.successors});
  }
  static bool Longer(const Outlook& a, const Outlook& b) {
    return std::tie(a.cost_s, a.stages) > std::tie(b.cost_s, b.stages);
  }
  static Outlook Through(const Stage& stage) {
    if (stage.ended) return stage.after;
    return {stage.after.cost_s + stage.cost_s, stage.after.stages + 1};
  }
  static void Take(Outlook& after, const Stage& next) {
    if (const Outlook through = Through(next); Longer(through, after)) after = through;
  }

  Outlook AllThatHasNotBegun(const Record& w) const {
    Outlook most;
    for (std::uint32_t i = 0; i < w.stages; ++i) {
      const Stage& s = At(w, i);
      if (s.announced && s.began_at == kNoSlot && !s.ended) Take(most, s);
    }
    return most;
  }

  Outlook Expected(const Record& w) const {
    Outlook sum;
    for (std::uint64_t left = w.expecting; left != 0; left &= left - 1) {
      const ExpectedStages::Stage& e = w.expected->stages[static_cast<std::size_t>(std::countr_zero(left))];
      sum.cost_s += e.cost_s > 0 && e.cost_s <= 1e15 ? e.cost_s : profile_.CostOf(e.stage);
      ++sum.stages;
    }
    return sum;
  }

  // What came after a stage is the dearest chain of stages of which each began after the one before had ended.
  void Learn(const Record& w) {
    order_.clear();
    for (std::uint32_t i = 0; i < w.stages; ++i) {
      if (At(w, i).began_at != kNoSlot) order_.push_back(i);
    }
    const auto began = [&](std::uint32_t i) { return At(w, i).began_at; };
    std::ranges::sort(order_, {}, began);
    from_.assign(order_.size() + 1, {});
    for (std::size_t k = order_.size(); k-- > 0;) {
      const Stage& stage = At(w, order_[k]);
      const std::uint32_t over = stage.ended ? stage.ended_at : kNoSlot;
      const auto next = std::ranges::upper_bound(order_, over, {}, began) - order_.begin();
      const Outlook after = from_[static_cast<std::size_t>(next)];
      from_[k] = {stage.cost_s + after.cost_s, 1 + after.stages};
      if (Longer(from_[k + 1], from_[k])) from_[k] = from_[k + 1];
      if (stage.cost_s > 0) profile_.Learn(stage.site, stage.cost_s);
      profile_.LearnAfter(stage.site, stage.visit, after);
    }
  }

  // ---- calls ------------------------------------------------------------------------------------------------------

  void Join(Handle call, std::uint32_t slot, std::uint32_t index, bool held) {
    if (call >= calls_.size()) calls_.resize(std::size_t{call} + 1);
    Record& w = workflows_[slot];
    Stage& stage = At(w, index);
    Call& c = calls_[call];
    c = {.workflow = slot, .stage = index, .next = std::exchange(w.first_call, call), .held = held};
    if (c.next != kNoSlot) calls_[c.next].previous = call;
    if (held) c.next_held = std::exchange(stage.first_held, call);
    ++w.calls;
    w.running += held ? 0u : 1u;
  }

  void Leave(Handle call) {
    Call& c = calls_[call];
    Record& w = workflows_[c.workflow];
    if (c.held) {
      std::uint32_t* link = &At(w, c.stage).first_held;
      while (*link != call) link = &calls_[*link].next_held;
      *link = c.next_held;
    }
    (c.previous == kNoSlot ? w.first_call : calls_[c.previous].next) = c.next;
    if (c.next != kNoSlot) calls_[c.next].previous = c.previous;
    --w.calls;
    w.running -= c.held ? 0u : 1u;
    c.workflow = kNoSlot;
  }

  // In the order in which they were made.
  void Release(Record& w, Stage& stage) {
    if (stage.first_held != kNoSlot) Begin(w, stage);
    const std::size_t first = released_.size();
    for (std::uint32_t call = std::exchange(stage.first_held, kNoSlot); call != kNoSlot;
         call = calls_[call].next_held) {
      calls_[call].held = false;
      ++w.running;
      released_.push_back(call);
    }
    std::reverse(released_.begin() + static_cast<std::ptrdiff_t>(first), released_.end());
  }

  static constexpr std::uint8_t kUnseen = 0, kOnPath = 1, kSeen = 2;

  WorkflowTableOptions options_;
  StageProfile profile_;
  IdTable<WorkflowId, Record> workflows_;
  internal::ArrayPool<Stage> stages_;
  std::vector<Edge> edges_;
  std::uint32_t free_edge_ = kNoSlot;
  std::vector<Call> calls_;  // by handle
  AgeList by_age_;
  TimePoint now_ = kUnset;

  std::vector<Handle> released_, dropped_;
  std::vector<WorkflowEnd> ended_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> path_;  // of LookAhead: stages, and the next edge of each
  std::vector<std::uint32_t> order_;  // of Learn
  std::vector<Outlook> from_;
};

}  // namespace takt

#endif  // TAKT_WORKFLOW_WORKFLOW_TABLE_H_
