// A StageProfile that learns from ended workflows.
#ifndef TAKT_WORKFLOW_STAGE_LESSONS_H_
#define TAKT_WORKFLOW_STAGE_LESSONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "takt/base/slot.h"
#include "takt/workflow/stage_profile.h"
#include "takt/workflow/stage_progress.h"

namespace takt::internal {

// Invariant: profile() contains complete workflows only. The other members are scratch memory of Learn.
class StageLessons {
 public:
  explicit StageLessons(std::int64_t memory) : profile_(memory) { profile_.Reserve(256); }

  const StageProfile& profile() const { return profile_; }

  // The work after a stage is the most expensive chain of later stages. In a chain, each stage began after the previous
  // stage had ended.
  void Learn(std::span<const Stage> stages) {
    order_.clear();
    for (std::uint32_t i = 0; i < stages.size(); ++i) {
      if (stages[i].began()) order_.push_back(i);
    }
    const auto began = [&](std::uint32_t i) { return stages[i].began_at; };
    std::ranges::sort(order_, {}, began);
    from_.assign(order_.size() + 1, {});
    for (std::size_t k = order_.size(); k-- > 0;) {
      const Stage& stage = stages[order_[k]];
      const std::uint32_t over = stage.ended ? stage.ended_at : kNoSlot;
      const auto next = std::ranges::upper_bound(order_, over, {}, began) - order_.begin();
      const Outlook after = from_[static_cast<std::size_t>(next)];
      from_[k] = {stage.cost_s + after.cost_s, 1 + after.stages};
      if (Longer(from_[k + 1], from_[k])) from_[k] = from_[k + 1];
      if (stage.cost_s > 0) profile_.Learn(stage.site, stage.cost_s);
      profile_.LearnAfter(stage.site, stage.visit, after);
    }
  }

 private:
  StageProfile profile_;
  std::vector<std::uint32_t> order_;  // stages that have begun, in order of begin
  std::vector<Outlook> from_;  // most expensive chain from each stage on
};

}  // namespace takt::internal

#endif  // TAKT_WORKFLOW_STAGE_LESSONS_H_
