// The runs of the Cascadia scenario: takt and its rivals on one table each, simulated with the same requests.
#ifndef TAKT_BENCH_LAB_CASCADIA_STUDY_H_
#define TAKT_BENCH_LAB_CASCADIA_STUDY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lab/cascadia/systems.h"
#include "tool/run/runner.h"
#include "takt/planning/cascade.h"

namespace takt::tool {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr std::size_t kProfiled = 2000;  // sampled requests, before the start

// One system under one set of conditions.
struct CascadiaResult {
  std::string why;  // reason why it has no plan; empty: it has one
  // True: it has a plan for a lower rate only. Latencies are lower bounds, at the largest rate that it serves.
  bool bound = false;
  CascadePlan plan;
  std::vector<std::string> replicas;  // by model, as text
  double e2e = 0;      // p95 along the path [s]; 0: not simulated
  double slowest = 0;  // p95 of the slowest model [s]
  double quality = 0;  // mean over the requests
  double sustains = 0;          // requests/s at this quality

  bool feasible() const { return why.empty() && measured(); }
  bool measured() const { return e2e > 0; }
};

struct CascadiaCase {
  CascadiaCascade cascade = CascadiaCascade::kLlama;
  int trace = 1;
  double quality = 80;
  double load = 0.7;  // share of the rate that takt's plan sustains at quality 80
  double rate = 0;    // requests/s
  double alone_s = 0;  // unit of SLO scales (CascadiaAlone)
  std::array<CascadiaResult, kCascadiaSystems> systems;

  const CascadiaResult& of(CascadiaSystem s) const { return systems[static_cast<std::size_t>(s)]; }
};

// Regime paper: correlation of a request's difficulty with its length. Chosen; the paper has no figure.
inline constexpr double kHarder = 0.5;
// Regime paper: load fitted to SLO scales of baselines, of the loads that have a run at all qualities.
inline constexpr double kPaperLoad = 0.4;

struct CascadiaSettings {
  std::int32_t gpus = 32;
  std::uint64_t seed = 1;  // draws the requests and their arrivals
  double minutes = 10;  // time of arrivals in a run
  std::vector<double> qualities = {70, 75, 80, 85, 90};
  std::vector<double> loads = {0.4, 0.7, 0.9};  // loads above 0.7 only at quality 80
  bool full = false;
  bool published = true;  // rivals as published; false: all rivals with takt's knowledge
  CascadiaEngine engine = {};
  double load = 0.7;  // of judges, prefix caching and the changing workload; in regime paper also of claimed latencies
  double harder = 0;  // correlation of difficulty and length (workload/cascadia.h)
};

// Compares takt's own plan with all possible plans.
struct CascadiaOptimality {
  CascadiaCascade cascade = CascadiaCascade::kLlama;
  int trace = 1;
  double quality = 80;
  std::int32_t gpus = 32;
  double takt = 0, alternation = 0, exhaustive = 0;  // L by the tables [s]; 0: none
  double takt_soft = 0, alternation_soft = 0;  // J with the paper's penalty of 100 s
  std::int64_t plans = 0;  // plans that the exhaustive search examined
};

// The same comparison with each plan simulated.
struct CascadiaSimulated {
  std::int32_t gpus = 8;
  double rate = 0;
  std::int64_t plans = 0;
  double takt_slowest = 0, best_slowest = 0;  // p95 of the slowest model [s], simulated
  double takt_e2e = 0, path_e2e = 0, best_e2e = 0;  // p95 along the path [s]; path: planned for it
  std::string takt_plan, best_plan;
};

struct CascadiaJudge {
  std::string name;
  double deviation = 0;  // difference of its scores from the first judge's, %
  double share = 0;  // share of requests that reach the larger model
  double p95 = 0;  // s, simulated, along the path
  double slowest = 0;  // s, by the tables
  double quality = 0;  // quality by the first judge's scores
  std::string why;  // reason why there is no plan
};

// Perfect prefix caching: share by which it lowers p95 along the path [%] (Appendix M).
struct CascadiaPrefix {
  double takt = 0, alone = 0;
};

// The planners of a cascade and trace, which all its cases share.
class CascadiaStudy {
 public:
  CascadiaStudy(CascadiaCascade cascade, int trace, CascadiaSettings settings)
      : cascade_(cascade), trace_(trace), settings_(std::move(settings)) {}

  // Measures, plans and simulates all cases. Interrupted cases are missing.
  absl::Status Run(const RunProgress& progress);
  const std::vector<CascadiaCase>& cases() const { return cases_; }
  const std::vector<CascadiaOptimality>& optimality() const { return optimality_; }
  const std::vector<FrontierPoint>& frontier() const { return frontier_; }
  double sustains() const { return sustains_; }  // takt's at quality 80
  // Largest rate of the best shape over that of the worst, on eight GPUs; the largest of all models (Figure 2).
  double parallelism_gain() const { return parallelism_gain_; }
  // The middle model's rate on four replicas of tp 2, over that on two of tp 4 (section 4.3, trace 1); 0: none.
  double middle_tp2() const { return middle_tp2_; }
  double planning_80_s() const { return planning_80_s_; }  // likewise, for 80 GPUs; 0: not measured
  double planning_s() const { return planning_s_; }  // wall clock of one planner, tables included, on one thread

 private:
  absl::StatusOr<CascadePlanner> Planner(std::vector<ServedModel> models, std::vector<CascadeSample> sample) const;
  void Judge(CascadiaCase& c, const CascadePlanner& takt, const struct CascadiaPlanners& planners) const;

  CascadiaCascade cascade_;
  int trace_;
  CascadiaSettings settings_;
  std::vector<CascadiaCase> cases_;
  std::vector<CascadiaOptimality> optimality_;
  std::vector<FrontierPoint> frontier_;
  double sustains_ = 0, planning_s_ = 0, planning_80_s_ = 0, parallelism_gain_ = 0, middle_tp2_ = 0;
};

// Every threshold, split and mix of replicas of few GPUs, simulated; Llama cascade, trace 1, quality 80.
absl::StatusOr<CascadiaSimulated> SimulateAllPlans(std::int32_t gpus, std::int64_t requests,
                                                   const CascadiaSettings& settings, const RunProgress& progress);

// A plan and the stand-alone model with prompts that are all in the prefix cache; Llama, trace 1, quality 80.
absl::StatusOr<CascadiaPrefix> ComparePrefixCaching(const CascadiaSettings& settings);

// Weaker and learned judges (Appendices K and N); Llama cascade, trace 1, quality 80.
absl::StatusOr<std::vector<CascadiaJudge>> CompareJudges(const CascadiaSettings& settings, const RunProgress& progress);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CASCADIA_STUDY_H_
