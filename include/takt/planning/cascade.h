// Plans a cascade: the GPUs and replicas of each model, and the judge's score below which an answer goes on to the next
// model. Minimizes latency at a promised quality. After Cascadia (Jiang et al.).
//
// Every request starts at the first model. A judge scores the answers of all models but the last, and accepts an answer
// of model i if its score is at least h_i. The thresholds determine which requests reach each model. They also
// determine the quality Q, which is the mean score of accepted answers. Q is measured on a sample of requests that all
// models have answered. The latency L is the p95 of the slowest model. Each model uses the best mix of replicas for its
// GPUs (planning/parallelism.h, planning/allocation.h).
//
// Cascadia alternates between a MILP for the GPUs and a search for thresholds, and ends 2 to 6 % above the optimum.
// This planner computes the exact optimum L(theta) for all thresholds of a grid, of which the best is the joint
// optimum.
//
// A model's rate is measured in work: tokens times their cost. A model with longer requests thus has a higher rate and
// the same rate curve. A simulation with each model's actual requests shows the remaining error.
#ifndef TAKT_PLANNING_CASCADE_H_
#define TAKT_PLANNING_CASCADE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/parallel.h"
#include "takt/planning/parallelism.h"
#include "takt/workload/cascade_sample.h"

namespace takt {

struct CascadeProblem {
  std::vector<ServedModel> models = {};  // models in the order of the cascade
  std::vector<CascadeSample> sample = {};
  double rate = 1;  // arriving requests [1/s]
  std::int32_t gpus = 32;
  double judge_s = 0.27;  // time of the judge per answer (Cascadia, Appendix H)
  double gpu_usd_per_hour = 2.67;  // price of an H100 (Cascadia, Appendix L)

  absl::Status Validate() const;  // Returns InvalidArgument with all faults.
};

struct CascadeOptions {
  // Ascending thresholds for each model. Scores are 0 to 100, so a threshold of 0 accepts all answers, and a threshold
  // above 100 accepts none. Empty: 0, 1, ..., 101.
  std::vector<double> grid = {};
  // One grid for each model except the last; replaces `grid`. Grids of one value fix the routing.
  std::vector<std::vector<double>> grids = {};
  RateOptions rates = {};
  double latency_step = 0.01;  // ratio of adjacent latencies of the grid, minus 1
  std::uint64_t seed = 1;  // seed of the arrivals in simulations of plans
  // Requests in the simulation of a plan, up to eight times as many if queues grow slowly; 0: no simulation.
  std::int64_t simulated = 8000;
};

// Returns L plus mu times the missing quality, as a share of the range between best and worst quality (section 3.3).
// With infinite mu, missing quality is not allowed.
double QualityPenalised(double latency, double quality, double floor, double utopia, double nadir, double mu);
// Returns the objective for a latency budget (Appendix C): -Q plus nu times the excess latency.
double LatencyPenalised(double quality, double latency, double budget, double least, double most, double nu);

struct CascadeGoal {
  enum class Kind : std::uint8_t { kQualityFloor, kLatencyBudget };
  Kind kind = Kind::kQualityFloor;
  double quality_floor = 80;  // minimum quality at which latency is minimized
  double latency_budget = 0;  // maximum p95 latency, within which quality is maximized [s]
  // Penalty mu or nu. If it is infinite, a plan must meet the goal. Cascadia's example uses 100.
  double penalty = std::numeric_limits<double>::infinity();
  // With a quality floor, minimizes the simulated p95 along the path of each request, instead of the slowest model's
  // p95 in the tables. For a few dozen routings, a local search from the tables' optimum moves GPUs between models.
  bool end_to_end = false;

  absl::Status Validate() const;
};

struct ModelPlan {
  std::string name;
  std::int32_t gpus = 0;
  std::vector<ReplicaCount> replicas;
  double share = 0;  // share of requests that reach the model
  double rate = 0;  // requests that reach the model [1/s]
  double p95 = 0;  // p95 latency from the tables [s]
  double simulated_p95 = 0;  // simulated p95 latency of the requests that reach the model [s]; 0: not simulated
  bool replaced = false;  // true: a mix that is faster in simulation has replaced the table's mix
  double utilisation = 0;
};

struct CascadePlan {
  std::vector<double> thresholds;  // thresholds of all models except the last
  std::vector<ModelPlan> models;
  double latency = 0;  // L, the p95 of the slowest model [s]
  double quality = 0;  // Q on the sample
  double objective = 0;  // penalised objective of the goal
  double simulated_latency = 0;  // simulated p95 of the slowest model [s]
  double simulated_e2e = 0;  // simulated p95 over the whole path of a request, with judges [s]
  double simulated_quality = 0;
  std::int32_t gpus = 0;
  double usd_per_hour = 0;
  double usd_per_1000 = 0;  // price of 1,000 requests
  int rounds = 0;  // rounds of the paper's alternation; 0: the joint optimum
};

struct FrontierPoint {
  double quality = 0;
  double latency = 0;  // [s]
  std::vector<double> thresholds;
  std::vector<std::int32_t> gpus;
};

struct CascadeArrival {
  double time = 0;  // [s]
  std::uint32_t sample = 0;
};

struct CascadeRun {
  std::vector<MixRun> models;
  std::vector<double> shares;  // share of requests that reach each model
  std::vector<double> latency;  // latency of each request over its whole path, with judges [s]
  std::vector<double> quality;  // judge's score of each request's answer
  double p95 = 0;  // p95 of `latency`, without the first quarter of requests, as in MixRun
  double mean_quality = 0;
};

// Serves requests in order of arrival by each model's replicas. An answer that the judge rejects arrives at the next
// model after its judgement.
CascadeRun SimulateCascade(const CascadeProblem& problem, std::span<const double> thresholds,
                           std::span<const std::vector<ReplicaCount>> replicas,
                           std::span<const CascadeArrival> arrivals, double quantile = 0.95);

// Returns Poisson arrivals at the rate, which cycle through the sample.
std::vector<CascadeArrival> DrawCascadeArrivals(std::size_t sample, double rate, std::int64_t requests,
                                                std::uint64_t seed);

// Measures rate curves once, then plans for any rate and goal. Immutable.
class CascadePlanner {
 public:
  // Measures the models. InvalidArgument: all faults of the problem or the options. FailedPrecondition: a model fits
  // into no shape. Cancelled: `progress` returned false. Keeps neither callback.
  static absl::StatusOr<CascadePlanner> Create(CascadeProblem problem, CascadeOptions options = {},
                                               const ParallelFor& parallel = SerialFor, const Progress& progress = {});

  // Returns the joint optimum over all thresholds of the grid; `rate` 0: the problem's rate. FailedPrecondition: no
  // plan exists; the message names the violated constraint and the missing amount.
  absl::StatusOr<CascadePlan> Plan(const CascadeGoal& goal, double rate = 0) const;

  // Runs the paper's alternation (algorithm 1) on the same tables. It starts from proportional routing, in which model
  // i gets 1/i of the requests. It finds the best GPUs for the routing, then the best routing for the GPUs, until the
  // best objective has not changed for `stable` rounds. If the GPUs cannot serve proportional routing, it starts from
  // the nearest routing that they can serve.
  absl::StatusOr<CascadePlan> Alternate(const CascadeGoal& goal, double rate = 0, int stable = 5) const;

  // Returns the Pareto-optimal routings in quality and latency, in order of falling quality.
  std::vector<FrontierPoint> Frontier(double rate = 0) const;

  // Returns, to 0.1 %, the largest rate with a plan of this quality, at any latency on the curves.
  double SustainableRate(double quality_floor) const;

  const CascadeProblem& problem() const { return problem_; }
  const MixTable& table() const { return table_; }
  std::span<const ModelRates> rates() const { return rates_; }
  std::size_t routings() const { return quality_.size(); }
  double quality(std::size_t routing) const { return quality_[routing]; }
  std::span<const double> shares(std::size_t routing) const { return Of(shares_, routing); }
  std::vector<double> thresholds(std::size_t routing) const;
  // Returns each model's rate of work for the tables.
  std::vector<double> RatesOf(std::size_t routing, double rate) const;
  double utopia() const { return utopia_; }  // quality if all requests go to the last model
  double nadir() const { return nadir_; }  // quality if all requests go to the first model
  double best_quality() const;  // highest quality of any routing

  // Simulates the plan with CascadeOptions::simulated requests. Takes for each model in turn the mix that is fastest in
  // simulation. Curves assume Poisson arrivals, but each of many replicas gets more regular arrivals. So the tables'
  // latencies are too large near saturation.
  void Simulate(CascadePlan& plan, double rate) const;

  // Returns candidate mixes of these GPUs for a rate: the table's mix, the mixes for higher latencies (which serve
  // more), and each single shape.
  std::vector<std::vector<ReplicaCount>> Mixes(std::size_t model, std::int32_t gpus, double rate) const;

  // Returns the plan of a routing with its best GPUs; routings are numbered as in at(routing).
  absl::StatusOr<CascadePlan> PlanOf(std::size_t routing, double rate = 0) const;

 private:
  CascadePlanner(CascadeProblem problem, CascadeOptions options, std::vector<ModelRates> rates, MixTable table)
      : problem_(std::move(problem)),
        options_(std::move(options)),
        rates_(std::move(rates)),
        table_(std::move(table)) {}

  std::span<const double> Of(const std::vector<double>& values, std::size_t routing) const {
    return std::span(values).subspan(routing * problem_.models.size(), problem_.models.size());
  }
  double RateOr(double rate) const { return rate > 0 ? rate : problem_.rate; }
  void Enumerate();
  std::size_t LevelOf(std::size_t routing, double rate) const;
  std::vector<std::size_t> Levels(double rate) const;
  absl::Status WhyNone(const CascadeGoal& goal, double rate) const;
  std::int32_t GpusOf(std::size_t routing, std::size_t level, double rate) const;
  std::vector<std::int32_t> Allocate(std::size_t routing, std::size_t level, double rate) const;
  CascadePlan Build(std::size_t routing, std::span<const std::int32_t> gpus, double rate) const;
  std::vector<CascadeArrival> Arrivals(double rate, double latency) const;
  CascadePlan FastestPath(std::span<const std::size_t> levels, const CascadeGoal& goal, double rate) const;

  CascadeProblem problem_;
  CascadeOptions options_;
  std::vector<ModelRates> rates_;
  MixTable table_;
  // By routing. Routings that let the same requests through are merged.
  std::vector<double> thresholds_;  // thresholds of each routing, models - 1 values each
  std::vector<double> quality_;
  std::vector<double> shares_;  // share of requests that reach each model, by routing and model
  std::vector<double> work_;  // work if all requests reached the model, by routing and model
  double utopia_ = 0, nadir_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLANNING_CASCADE_H_
