// Converts a cascade plan for the router of a cascade.
#ifndef TAKT_PLANNING_CASCADE_STAGES_H_
#define TAKT_PLANNING_CASCADE_STAGES_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "takt/cascade_router.h"
#include "takt/planning/cascade.h"

namespace takt {

// Returns each model's threshold, the share of its answers that goes on, and whether it has GPUs.
inline std::vector<CascadeStage> StagesOf(const CascadePlan& plan) {
  std::vector<CascadeStage> stages;
  for (std::size_t i = 0; i < plan.models.size(); ++i) {
    const ModelPlan& model = plan.models[i];
    CascadeStage stage{.served = model.gpus > 0};
    if (i < plan.thresholds.size()) stage.accept_at = plan.thresholds[i];
    if (i + 1 < plan.models.size() && model.share > 0) {
      stage.escalated_share = std::clamp(plan.models[i + 1].share / model.share, 0.0, 1.0);
    }
    stages.push_back(stage);
  }
  return stages;
}

}  // namespace takt

#endif  // TAKT_PLANNING_CASCADE_STAGES_H_
