// The stages of living workflows, and the edges between them.
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
  std::uint32_t first = 0, log_room = 0;  // in the pool
  std::uint32_t size = 0, declared = 0;
  StageProgress progress = {};
  bool stale = false;
};

// The owner keeps a StageList per workflow. Faults leave out the workflow's id.
//
// Invariant: no stage waits for itself. Stage::missing counts the edges from stages that have not ended. Stage::after
// is the dearest path behind the stage, the longest of equal ones, unless the list is stale.
class StageGraph {
 public:
  void Reserve(std::size_t stages) { stages_.Reserve(stages), edges_.reserve(stages); }

  Stage& At(const StageList& w, std::uint32_t index) { return stages_[w.first + index]; }
  const Stage& At(const StageList& w, std::uint32_t index) const { return stages_[w.first + index]; }
  std::span<const Stage> Of(const StageList& w) const { return {&stages_[w.first], w.size}; }

  // A workflow begins with these stages. Close must follow, even after a fault.
  WorkflowFault Open(StageList& w, std::span<const WorkflowStage> told, const StageProfile& profile) {
    const auto room = static_cast<std::uint32_t>(std::bit_width(std::max<std::size_t>(told.size(), 4) - 1));
    w = {.first = stages_.Take(room), .log_room = room, .declared = static_cast<std::uint32_t>(told.size())};
    for (const WorkflowStage& stage : told) Add(w, stage, profile);
    WorkflowFault fault;
    for (std::uint32_t i = 0; i < told.size() && !fault; ++i) fault = Link(w, i, told[i]);
    return fault ? fault : LookAhead(w);
  }
  void Close(StageList& w) {
    for (std::uint32_t i = 0; i < w.size; ++i) {
      while (At(w, i).successors != kNoSlot) FreeEdge(At(w, i).successors);
    }
    stages_.Give(w.first, w.log_room);
  }

  // A stage comes in before the stages `before`. A fault leaves the graph as it was.
  WorkflowFault Grow(StageList& w, const WorkflowStage& told, std::span<const std::uint32_t> before,
                     const StageProfile& profile) {
    const std::uint32_t index = w.size;
    for (const std::uint32_t b : before) {
      if (b >= index) return {WorkflowFault::kDangling, {}, b, told.stage};
      if (At(w, b).ended) return FaultAt(w, WorkflowFault::kEnded, b);
      if (At(w, b).made > 0 && At(w, b).ready()) return FaultAt(w, WorkflowFault::kTooLate, b);
    }
    Add(w, told, profile);
    WorkflowFault fault = Link(w, index, told);
    if (!fault) {
      for (const std::uint32_t b : before) AddEdge(w, index, b);
      if (!before.empty()) fault = LookAhead(w);
      if (fault) {
        for (std::size_t i = before.size(); i-- > 0;) DropEdge(w, index);
      }
    }
    if (fault) {
      for (std::size_t i = Linked(w, index, told); i-- > 0;) DropEdge(w, told.after[i]);
      --w.size;
      w.stale = true;
      return fault;
    }
    ++w.declared;
    return {};
  }

  // A stage that nobody announced comes to the end of the list.
  void Append(StageList& w, StageId site, const StageProfile& profile) {
    Add(w, {.stage = site}, profile);
    At(w, w.size - 1).announced = false;
    At(w, w.size - 1).calls = 0;
  }
  // The stage gets no more calls.
  void Shut(StageList& w, std::uint32_t index) {
    At(w, index).calls = At(w, index).made;
    At(w, index).closed = true;
    w.stale = true;
  }
  // The stage ends. ready(stage) for each successor that waited for nothing else.
  template <class F>
  void Finish(StageList& w, std::uint32_t index, F&& ready) {
    Stage& stage = At(w, index);
    w.progress.End(stage);
    for (std::uint32_t e = stage.successors; e != kNoSlot; e = edges_[e].next) {
      Stage& next = At(w, edges_[e].to);
      if (--next.missing == 0) ready(next);
    }
  }

  // The dearest path behind a stage; of one that nobody announced, all that has not begun.
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
  static constexpr std::uint32_t kLookBack = 64;  // stages in which earlier visits to a call site are looked for
  static constexpr std::uint8_t kUnseen = 0, kOnPath = 1, kSeen = 2;

  struct Edge {
    std::uint32_t to = 0, next = kNoSlot;
  };

  WorkflowFault FaultAt(const StageList& w, WorkflowFault::Kind kind, std::uint32_t index) const {
    return {kind, {}, index, At(w, index).site};
  }

  void Add(StageList& w, const WorkflowStage& told, const StageProfile& profile) {
    if (w.size == std::uint32_t{1} << w.log_room) {
      const std::uint32_t first = stages_.Take(w.log_room + 1);
      for (std::uint32_t i = 0; i < w.size; ++i) stages_[first + i] = stages_[w.first + i];
      stages_.Give(w.first, w.log_room++);
      w.first = first;
    }
    Stage& stage = At(w, w.size);
    stage = {.site = told.stage, .calls = told.calls};
    stage.cost_s = IsCost(told.cost_s) ? told.cost_s : profile.CostOf(told.stage);
    for (std::uint32_t i = w.size; i-- > 0 && w.size - i <= kLookBack;) {
      if (At(w, i).site != told.stage) continue;
      stage.visit = At(w, i).visit + 1;
      break;
    }
    ++w.size;
  }

  // Draws the edges from its predecessors. A fault leaves those before it in place.
  WorkflowFault Link(StageList& w, std::uint32_t index, const WorkflowStage& told) {
    if (!told.stage) return FaultAt(w, WorkflowFault::kNoId, index);
    if (told.calls < 1) return FaultAt(w, WorkflowFault::kNoCalls, index);
    for (const std::uint32_t before : told.after) {
      if (before >= w.size) return FaultAt(w, WorkflowFault::kDangling, index);
      if (before == index) return FaultAt(w, WorkflowFault::kCycle, index);
      AddEdge(w, before, index);
      w.stale |= !At(w, before).ended || w.progress.ended_early();
    }
    return {};
  }
  // How many of its predecessors Link got to, for one that came to an end.
  static std::size_t Linked(const StageList& w, std::uint32_t index, const WorkflowStage& told) {
    if (!told.stage || told.calls < 1) return 0;
    const auto bad = std::ranges::find_if(told.after, [&](std::uint32_t b) { return b >= w.size || b == index; });
    return static_cast<std::size_t>(bad - told.after.begin());
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
  // Takes back the newest edge from a stage.
  void DropEdge(StageList& w, std::uint32_t from) {
    At(w, edges_[At(w, from).successors].to).missing -= At(w, from).ended ? 0u : 1u;
    FreeEdge(At(w, from).successors);
  }
  void FreeEdge(std::uint32_t& link) {
    const std::uint32_t edge = link;
    link = edges_[edge].next;
    edges_[edge].next = std::exchange(free_edge_, edge);
  }

  // Sets Stage::after of all stages. The fault is a cycle.
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
  std::vector<std::pair<std::uint32_t, std::uint32_t>> path_;  // of LookAhead: stages, and the next edge of each
};

}  // namespace takt::internal

#endif  // TAKT_WORKFLOW_STAGE_GRAPH_H_
