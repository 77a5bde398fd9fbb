// A cascade plan: how many GPUs and which replicas each model gets, and below which judge's score an answer goes on to
// the next model, so that latency is least at the quality that was promised. After Cascadia (Jiang et al.).
//
// Every request goes to the first model; a judge scores the answers of all models but the last, and model i's is
// accepted where score >= h_i. The thresholds decide which requests reach each model, and the quality Q: the mean score
// of the accepted answers of a sample of requests that all models have answered. The latency L is that of the slowest
// model (p95), each with the best mix of replicas (planning/parallelism.h) of the GPUs that it gets
// (planning/allocation.h).
//
// Cascadia alternates between a MILP for the GPUs and a search for thresholds, and ends 2 to 6 % above the optimum.
// Here L(theta) is the exact optimum for each of all thresholds on a grid, so that the best of them is the joint
// optimum of the grid. Rate curves do not depend on the thresholds: what the thresholds change is taken to be the rate
// of each model's work. A request counts as the work that it is (tokens times what they cost), so that a model which
// gets the longer requests gets the higher rate; what is left of the difference shows where the plan is simulated with
// the requests that the thresholds let through.
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
  std::vector<ServedModel> models = {};  // in the order of the cascade
  std::vector<CascadeSample> sample = {};
  double rate = 1;  // of requests [1/s]
  std::int32_t gpus = 32;
  double judge_s = 0.27;  // the judge takes so long per answer (Cascadia, Appendix H)
  double gpu_usd_per_hour = 2.67;  // H100, Cascadia, Appendix L

  absl::Status Validate() const;  // all faults at once
};

struct CascadeOptions {
  // Thresholds that each model may have, rising; a score is at least 0 and at most 100, so that 0 accepts all and
  // anything above 100 nothing. Empty: 0, 1 .. 101.
  std::vector<double> grid = {};
  // A grid for each model but the last instead; one value each fixes the routing.
  std::vector<std::vector<double>> grids = {};
  RateOptions rates = {};
  double latency_step = 0.01;  // of the grid of latencies, as a share
  std::uint64_t seed = 1;  // of the arrivals that plans are simulated with
  // Requests that a plan is simulated with, up to eight times as many where queues need longer to show; 0: it is not.
  std::int64_t simulated = 8000;
};

// L plus mu times the shortfall from the floor, in units of what separates the best quality from the worst (section
// 3.3). Infinite mu: no shortfall is allowed.
double QualityPenalised(double latency, double quality, double floor, double utopia, double nadir, double mu);
// Its mirror image for a latency budget (Appendix C): -Q plus nu times the excess.
double LatencyPenalised(double quality, double latency, double budget, double least, double most, double nu);

struct CascadeGoal {
  enum class Kind : std::uint8_t { kQualityFloor, kLatencyBudget };
  Kind kind = Kind::kQualityFloor;
  double quality_floor = 80;  // least latency with at least this quality
  double latency_budget = 0;  // [s]; best quality within this p95
  // mu or nu. Infinite: what misses is no plan. Cascadia's own example takes 100.
  double penalty = std::numeric_limits<double>::infinity();
  // With a quality floor: the least p95 along the path that requests take, as simulated, instead of that of the slowest
  // model by the tables. A local search from the table's optimum: GPUs move between models, in some dozen routings.
  bool end_to_end = false;

  absl::Status Validate() const;
};

struct ModelPlan {
  std::string name;
  std::int32_t gpus = 0;
  std::vector<ReplicaCount> replicas;
  double share = 0;  // of all requests that reach it
  double rate = 0;  // [1/s]
  double p95 = 0;  // [s], by the tables
  double simulated_p95 = 0;  // [s], of the requests that the thresholds let through; 0: not simulated
  bool replaced = false;  // the table's mix gave way to one that is faster when it is simulated
  double utilisation = 0;
};

struct CascadePlan {
  std::vector<double> thresholds;  // by model but the last
  std::vector<ModelPlan> models;
  double latency = 0;  // [s], L: p95 of the slowest model
  double quality = 0;  // Q, of the sample
  double objective = 0;  // penalised, as the goal says
  double simulated_latency = 0;  // [s], p95 of the slowest model
  double simulated_e2e = 0;  // [s], p95 along the path that each request takes, judges included
  double simulated_quality = 0;
  std::int32_t gpus = 0;
  double usd_per_hour = 0;
  double usd_per_1000 = 0;  // requests
  int rounds = 0;  // of the paper's alternation; 0: the joint optimum
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
  std::vector<double> shares;  // of all requests that reach each model
  std::vector<double> latency;  // [s], by request: along its path, judges included
  std::vector<double> quality;  // by request, the judge's score of what it got
  double p95 = 0;  // of latency; the first quarter does not count, as in MixRun
  double mean_quality = 0;
};

// Serves requests, in the order of arrival, by replicas per model. What a model's judge rejects arrives at the next
// when it has been judged.
CascadeRun SimulateCascade(const CascadeProblem& problem, std::span<const double> thresholds,
                           std::span<const std::vector<ReplicaCount>> replicas,
                           std::span<const CascadeArrival> arrivals, double quantile = 0.95);

// Poisson arrivals at the rate; the sample in turn.
std::vector<CascadeArrival> DrawCascadeArrivals(std::size_t sample, double rate, std::int64_t requests,
                                                std::uint64_t seed);

// Measures once, then plans as often as it is asked, for any rate and goal. Immutable.
class CascadePlanner {
 public:
  // InvalidArgument: problem or options, all faults at once. FailedPrecondition: a model fits into no shape.
  // Cancelled: by `progress`. Neither callback is kept.
  static absl::StatusOr<CascadePlanner> Create(CascadeProblem problem, CascadeOptions options = {},
                                               const ParallelFor& parallel = SerialFor, const Progress& progress = {});

  // The joint optimum over all thresholds of the grid; `rate` 0: the problem's. FailedPrecondition: there is no plan,
  // and the message says which constraint forbids it and how much is missing.
  absl::StatusOr<CascadePlan> Plan(const CascadeGoal& goal, double rate = 0) const;

  // The paper's alternation (algorithm 1) on the same tables: from proportional routing (model i gets 1/i of the
  // requests), the best GPUs for the routing and the best routing for the GPUs in turn, until the best objective has
  // not changed for `stable` rounds. Proportional routing that these GPUs cannot serve gives way to the nearest that
  // they can.
  absl::StatusOr<CascadePlan> Alternate(const CascadeGoal& goal, double rate = 0, int stable = 5) const;

  // Quality and least latency of all routings that no other beats in both; by falling quality.
  std::vector<FrontierPoint> Frontier(double rate = 0) const;

  // The largest rate for which there is a plan of this quality floor, at any latency on the curves; to 0.1 %.
  double SustainableRate(double quality_floor) const;

  const CascadeProblem& problem() const { return problem_; }
  const MixTable& table() const { return table_; }
  std::span<const ModelRates> rates() const { return rates_; }
  std::size_t routings() const { return quality_.size(); }
  double quality(std::size_t routing) const { return quality_[routing]; }
  std::span<const double> shares(std::size_t routing) const { return Of(shares_, routing); }
  std::vector<double> thresholds(std::size_t routing) const;
  // Rates of work, by model, for the tables.
  std::vector<double> RatesOf(std::size_t routing, double rate) const;
  double utopia() const { return utopia_; }  // quality of all on the last model
  double nadir() const { return nadir_; }  // of all on the first
  double best_quality() const;  // of all routings

  // Simulates the plan (CascadeOptions::simulated requests), and takes for each model in turn the mix that is fastest
  // so. Curves are of Poisson arrivals; what reaches a replica of many is more regular than that, so that near
  // saturation the tables are on the safe side, and not equally far for all shapes.
  void Simulate(CascadePlan& plan, double rate) const;

  // What so many GPUs may be for a rate: the table's mix, those for higher latencies (which serve more), and each shape
  // alone.
  std::vector<std::vector<ReplicaCount>> Mixes(std::size_t model, std::int32_t gpus, double rate) const;

  // The plan of a routing, with the best GPUs for it; at(routing) as counted above.
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
  // By routing; routings that let the same requests through are one.
  std::vector<double> thresholds_;  // x (models - 1)
  std::vector<double> quality_;
  std::vector<double> shares_;  // x models: of the requests
  std::vector<double> work_;  // x models: of the work, were all requests to reach the model
  double utopia_ = 0, nadir_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLANNING_CASCADE_H_
