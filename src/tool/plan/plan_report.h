// A cascade plan in the forms in which it can be had.
#ifndef TAKT_SRC_TOOL_PLAN_PLAN_REPORT_H_
#define TAKT_SRC_TOOL_PLAN_PLAN_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/planning/cascade.h"

namespace takt::tool {

struct PlanRun {
  std::string workload;  // its file
  bool tells_wall = true;
  CascadeProblem problem;
  CascadeGoal goal;
  CascadePlan plan;
  std::optional<CascadePlan> alternation;  // the paper's, where it was asked for
  std::string alternation_fault;           // why there is none
  std::vector<FrontierPoint> frontier;
  std::size_t routings = 0;
  double utopia = 0, nadir = 0, best_quality = 0;
  double most = 0;     // [1/s] that these GPUs sustain at the plan's quality
  double measure_s = 0, plan_s = 0;  // wall clock: tables, and the plan itself
};

// "4 x tp2 pp2, 1 x tp8"
std::string ReplicasText(const ServedModel& model, const ModelPlan& plan);

// GPUs, replicas and the way of a request, as inline SVG.
std::string PlanPicture(const CascadeProblem& problem, const CascadePlan& plan);

std::string PlanText(const PlanRun& run, bool colour);
std::string PlanJson(const PlanRun& run);
std::string PlanHtml(const PlanRun& run);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_PLAN_PLAN_REPORT_H_
