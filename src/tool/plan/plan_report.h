// Reports of a cascade plan: text, JSON and HTML.
#ifndef TAKT_SRC_TOOL_PLAN_PLAN_REPORT_H_
#define TAKT_SRC_TOOL_PLAN_PLAN_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/planning/cascade.h"

namespace takt::tool {

struct PlanRun {
  std::string workload;  // file of the workload
  bool tells_wall = true;
  CascadeProblem problem;
  CascadeGoal goal;
  CascadePlan plan;
  std::optional<CascadePlan> alternation;  // the paper's alternation, if requested
  std::string alternation_fault;  // reason if there is none
  std::vector<FrontierPoint> frontier;
  std::size_t routings = 0;
  double utopia = 0, nadir = 0, best_quality = 0;
  double most = 0;  // requests/s that these GPUs sustain at the plan's quality
  double measure_s = 0, plan_s = 0;  // wall-clock seconds for the tables, and for the plan
};

// Returns the replicas of a model: "4 x tp2 pp2, 1 x tp8".
std::string ReplicasText(const ServedModel& model, const ModelPlan& plan);

// Draws GPUs, replicas and the path of requests as inline SVG.
std::string PlanPicture(const CascadeProblem& problem, const CascadePlan& plan);

std::string PlanText(const PlanRun& run, bool colour);
std::string PlanJson(const PlanRun& run);
std::string PlanHtml(const PlanRun& run);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_PLAN_PLAN_REPORT_H_
