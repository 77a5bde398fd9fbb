// Progress of one workflow: stages that lack calls, and when each stage began and ended.
#ifndef TAKT_WORKFLOW_STAGE_PROGRESS_H_
#define TAKT_WORKFLOW_STAGE_PROGRESS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "takt/base/id.h"
#include "takt/base/slot.h"
#include "takt/workflow/stage_profile.h"

namespace takt::internal {

struct Stage {
  StageId site = {};
  double cost_s = 0;  // cost of a call [s]: the largest reported cost, else the declared or learnt cost
  Outlook after = {};  // work after the stage, valid unless the workflow is stale
  std::int32_t calls = 0, made = 0, ended_calls = 0;
  std::uint32_t missing = 0;  // number of predecessors that have not ended
  std::uint32_t successors = kNoSlot;  // first edge to a successor
  std::uint32_t first_held = kNoSlot;  // handle of the first held call
  std::uint32_t began_at = kNoSlot, ended_at = 0;  // times of the stage's begin and end, as moments of the workflow
  std::uint32_t visit = 0;  // number of the visit to its call site
  std::uint8_t mark = 0;  // used by StageGraph
  bool announced = true, closed = false, ended = false, cost_known = false;

  bool began() const { return began_at != kNoSlot; }
  bool ready() const { return missing == 0; }
  bool over() const { return ended_calls >= calls; }
  bool lacks_calls() const { return !ended && !closed && (!announced || made < calls); }
};

// Invariant: no stage before lacking_ lacks calls. A moment is the start or end of one stage; moments_ counts them.
class StageProgress {
 public:
  std::uint32_t ended() const { return ended_; }  // number of ended stages
  // Returns true if a stage has ended before one of its predecessors.
  bool ended_early() const { return ended_early_; }

  // Returns the first stage of the site that lacks calls; if no stage lacks calls, the number of stages.
  std::uint32_t Lacking(std::span<const Stage> stages, StageId site) {
    while (lacking_ < stages.size() && !stages[lacking_].lacks_calls()) ++lacking_;
    std::uint32_t i = lacking_;
    while (i < stages.size() && !(stages[i].site == site && stages[i].lacks_calls())) ++i;
    return i;
  }

  // Records a call of the stage. cost_s: its expected time [s]; 0: unknown.
  void Make(Stage& stage, double cost_s) {
    if (!stage.announced) ++stage.calls;
    ++stage.made;
    if (!IsCost(cost_s)) return;
    stage.cost_s = stage.cost_known ? std::max(stage.cost_s, cost_s) : cost_s;
    stage.cost_known = true;
  }
  // Records that a call of stage `index` must be made again.
  void Lose(Stage& stage, std::uint32_t index) {
    --stage.made;
    lacking_ = std::min(lacking_, index);
    if (!stage.announced || stage.closed) --stage.calls;
  }

  // Returns false if the stage has already begun.
  bool Begin(Stage& stage) {
    if (stage.began()) return false;
    stage.began_at = moments_++;
    return true;
  }
  void End(Stage& stage) {
    stage.ended = true;
    ended_early_ |= !stage.ready();
    stage.ended_at = moments_++;
    ++ended_;
  }

 private:
  std::uint32_t lacking_ = 0, moments_ = 0, ended_ = 0;
  bool ended_early_ = false;
};

}  // namespace takt::internal

#endif  // TAKT_WORKFLOW_STAGE_PROGRESS_H_
