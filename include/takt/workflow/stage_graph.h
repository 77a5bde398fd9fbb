// The stages of running workflows, and the edges between them.
#ifndef TAKT_WORKFLOW_STAGE_GRAPH_H_
#define TAKT_WORKFLOW_STAGE_GRAPH_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/array_pool.h"
#include "takt/base/id.h"
#include "takt/base/slot.h"
#include "takt/model/workflow.h"
#include "takt/workflow/stage_profile.h"
#include "takt/workflow/stage_progress.h"

namespace takt::internal {

// The stages of one workflow, by index.
struct StageList {
  std::uint32_t first = 0, log_room = 0;  // first edge in the pool, and logarithm of the room there
  std::uint32_t size = 0, declared = 0;
  StageProgress progress = {};
  bool stale = false;
};

// The owner keeps a StageList per workflow. Faults do not contain the workflow's id.
//
// Invariant: no stage waits for itself. Stage::missing counts edges from stages that have not ended. Unless the list is
// stale, Stage::after is the most expensive path after the stage; ties: the longest.
class StageGraph {
 public:
  void Reserve(std::size_t stages) { stages_.Reserve(stages), edges_.reserve(stages); }

  Stage& At(const StageList& w, std::uint32_t index) { return stages_[w.first + index]; }
  const Stage& At(const StageList& w, std::uint32_t index) const { return stages_[w.first + index]; }
  std::span<const Stage> Of(const StageList& w) const { return {&stages_[w.first], w.size}; }

  // Opens a workflow with these stages. Close must follow, even after a fault.
  WorkflowFault Open(StageList& w, std::span<const WorkflowStage> declared, const StageProfile& profile) {
    const auto room = static_cast<std::uint32_t>(std::bit_width(std::max<std::size_t>(declared.size(), 4) - 1));
    w = {.first = stages_.Take(room), .log_room = room, .declared = static_cast<std::uint32_t>(declared.size())};
    for (const WorkflowStage& stage : declared) Add(w, stage, profile);
    WorkflowFault fault;
    for (std::uint32_t i = 0; i < declared.size() && !fault; ++i) fault = Link(w, i, declared[i]);
    return fault ? fault : LookAhead(w);
  }
  void Close(StageList& w) {
    for (std::uint32_t i = 0; i < w.size; ++i) {
      while (At(w, i).successors != kNoSlot) FreeEdge(At(w, i).successors);
    }
    stages_.Give(w.first, w.log_room);
  }

  // Adds a stage before the stages `before`. A fault leaves the graph unchanged.
  WorkflowFault Grow(StageList& w, const WorkflowStage& declared, std::span<const std::uint32_t> before,
                     const StageProfile& profile) {
    const std::uint32_t index = w.size;
    for (const std::uint32_t b : before) {
      if (b >= index) return {WorkflowFault::kDangling, {}, b, declared.stage};
      if (At(w, b).ended) return FaultAt(w, WorkflowFault::kEnded, b);
      if (At(w, b).made > 0 && At(w, b).ready()) return FaultAt(w, WorkflowFault::kTooLate, b);
    }
    Add(w, declared, profile);
    WorkflowFault fault = Link(w, index, declared);
    if (!fault) {
      for (const std::uint32_t b : before) AddEdge(w, index, b);
      if (!before.empty()) fault = LookAhead(w);
      if (fault) {
        for (std::size_t i = before.size(); i-- > 0;) DropEdge(w, index);
      }
    }
    if (fault) {
      for (std::size_t i = Linked(w, index, declared); i-- > 0;) DropEdge(w, declared.after[i]);
      --w.size;
      w.stale = true;
      return fault;
    }
    ++w.declared;
    return {};
  }

  // Appends a stage that was not declared.
  void Append(StageList& w, StageId site, const StageProfile& profile) {
    Add(w, {.stage = site}, profile);
    At(w, w.size - 1).announced = false;
    At(w, w.size - 1).calls = 0;
  }
  // Closes the stage to further calls.
  void Shut(StageList& w, std::uint32_t index) {
    At(w, index).calls = At(w, index).made;
    At(w, index).closed = true;
    w.stale = true;
  }
  // Ends the stage. Calls ready(stage) for each successor that waited only for this stage.
  template <class F>
  void Finish(StageList& w, std::uint32_t index, F&& ready) {
    Stage& stage = At(w, index);
    w.progress.End(stage);
    for (std::uint32_t e = stage.successors; e != kNoSlot; e = edges_[e].next) {
      Stage& next = At(w, edges_[e].to);
      if (--next.missing == 0) ready(next);
    }
  }

  // Returns the most expensive path after a stage; for an undeclared stage, all stages that have not begun.
  Outlook After(StageList& w, const Stage& stage) {
    if (w.stale) static_cast<void>(LookAhead(w));
    if (stage.announced) return stage.after;
    Outlook most;
    for (const Stage& s : Of(w)) {
      if (s.announced && !s.began() && !s.ended) Take(most, s);
    }
    return most;
  }

 private:
  static constexpr std::uint32_t kLookBack = 64;  // number of stages searched for earlier visits to a call site
  static constexpr std::uint8_t kUnseen = 0, kOnPath = 1, kSeen = 2;

  struct Edge {
    std::uint32_t to = 0, next = kNoSlot;
  };

  WorkflowFault FaultAt(const StageList& w, WorkflowFault::Kind kind, std::uint32_t index) const {
    return {kind, {}, index, At(w, index).site};
  }

  void Add(StageList& w, const WorkflowStage& declared, const StageProfile& profile) {
    if (w.size == std::uint32_t{1} << w.log_room) {
      const std::uint32_t first = stages_.Take(w.log_room + 1);
      for (std::uint32_t i = 0; i < w.size; ++i) stages_[first + i] = stages_[w.first + i];
      stages_.Give(w.first, w.log_room++);
      w.first = first;
    }
    Stage& stage = At(w, w.size);
    stage = {.site = declared.stage, .calls = declared.calls};
    stage.cost_s = IsCost(declared.cost_s) ? declared.cost_s : profile.CostOf(declared.stage);
    for (std::uint32_t i = w.size; i-- > 0 && w.size - i <= kLookBack;) {
      if (At(w, i).site != declared.stage) continue;
      stage.visit = At(w, i).visit + 1;
      break;
    }
    ++w.size;
  }

  // Adds the edges from the predecessors to a stage. If an edge is a fault, the edges before it stay.
  WorkflowFault Link(StageList& w, std::uint32_t index, const WorkflowStage& declared) {
    if (!declared.stage) return FaultAt(w, WorkflowFault::kNoId, index);
    if (declared.calls < 1) return FaultAt(w, WorkflowFault::kNoCalls, index);
    for (const std::uint32_t before : declared.after) {
      if (before >= w.size) return FaultAt(w, WorkflowFault::kDangling, index);
      if (before == index) return FaultAt(w, WorkflowFault::kCycle, index);
      AddEdge(w, before, index);
      w.stale |= !At(w, before).ended || w.progress.ended_early();
    }
    return {};
  }
  // Returns the number of predecessors that Link processed before a fault.
  static std::size_t Linked(const StageList& w, std::uint32_t index, const WorkflowStage& declared) {
    if (!declared.stage || declared.calls < 1) return 0;
    const auto bad = std::ranges::find_if(declared.after, [&](std::uint32_t b) { return b >= w.size || b == index; });
    return static_cast<std::size_t>(bad - declared.after.begin());
  }

  void AddEdge(StageList& w, std::uint32_t from, std::uint32_t to) {
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
  // Removes the newest edge from a stage.
  void DropEdge(StageList& w, std::uint32_t from) {
    At(w, edges_[At(w, from).successors].to).missing -= At(w, from).ended ? 0u : 1u;
    FreeEdge(At(w, from).successors);
  }
  void FreeEdge(std::uint32_t& link) {
    const std::uint32_t edge = link;
    link = edges_[edge].next;
    edges_[edge].next = std::exchange(free_edge_, edge);
  }

  // Sets Stage::after of all stages. Returns a fault if there is a cycle.
  WorkflowFault LookAhead(StageList& w) {
    for (std::uint32_t i = 0; i < w.size; ++i) At(w, i).mark = kUnseen;
    for (std::uint32_t root = 0; root < w.size; ++root) {
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
          return FaultAt(w, WorkflowFault::kCycle, to);
        }
      }
    }
    w.stale = false;
    return {};
  }
  void Enter(const StageList& w, std::uint32_t index) {
    Stage& stage = At(w, index);
    stage.mark = kOnPath;
    stage.after = {};
    path_.push_back({index, stage.successors});
  }
  static Outlook Through(const Stage& stage) {
    if (stage.ended) return stage.after;
    return {stage.after.cost_s + stage.cost_s, stage.after.stages + 1};
  }
  static void Take(Outlook& after, const Stage& next) {
    if (const Outlook through = Through(next); Longer(through, after)) after = through;
  }

  ArrayPool<Stage> stages_;
  std::vector<Edge> edges_;
  std::uint32_t free_edge_ = kNoSlot;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> path_;  // used by LookAhead: stages, and each one's next edge
};

}  // namespace takt::internal

#endif  // TAKT_WORKFLOW_STAGE_GRAPH_H_
