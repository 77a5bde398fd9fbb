// Systems and workloads of the default's scenario.
#ifndef TAKT_BENCH_LAB_DEFAULT_SYSTEMS_H_
#define TAKT_BENCH_LAB_DEFAULT_SYSTEMS_H_

#include <string>
#include <vector>

#include "lab/default/study.h"

namespace takt::tool {

struct DefaultPlan {
  double minutes = 10;  // minutes of arrivals at capacity
  std::vector<double> loads = {0.8, 1, 1.1, 1.3};
  std::vector<double> claimed_loads = {0.8, 1, 1.1};
  double load = 1.1;
  EstimateSpec usual = {EstimateKind::kCalibrated, 0.7};
  EstimateSpec class_means = {EstimateKind::kClassMean, 0};
  std::vector<EstimateSpec> estimates = {{EstimateKind::kOracle, 0},       {EstimateKind::kCalibrated, 0.7},
                                         {EstimateKind::kCalibrated, 1.2}, {EstimateKind::kNoise, 1.2},
                                         {EstimateKind::kClassMean, 0},    {EstimateKind::kNone, 0}};
};

namespace defaults {
DefaultSystem Ours();
DefaultSystem BlindToDeadlines();  // ours, without deadlines
DefaultSystem Mean();  // takt's order with the least mean
DefaultSystem HopelessLast();  // the same, with hopeless requests last
DefaultSystem Fcfs();
DefaultSystem WorkflowFcfs();
DefaultSystem Stjf();
DefaultSystem Urgency();  // equation 5 as published
DefaultSystem UrgencyByLateness();  // with takt's rule for workflows past their deadline
DefaultSystem Slack();
DefaultSystem MemoryIntegral();
DefaultSystem AgentPriority();
DefaultSystem UniBoost();
DefaultSystem SageSched();
DefaultSystem Justitia();
std::vector<DefaultSystem> Rivals();  // all of them, in the order of the tables
}  // namespace defaults

// Comparisons: eight homes, unseen lengths, and the mix.
inline constexpr Served kDefaultServed[] = {Served::kApps,     Served::kMath,   Served::kText1, Served::kText2,
                                            Served::kTools,    Served::kAgents, Served::kConv,  Served::kCode,
                                            Served::kShareGpt, Served::kApps7,  Served::kMix};

std::vector<DefaultSystem> AllSystems();  // ours, then the rivals

// The rivals at home on this workload.
std::vector<DefaultSystem> RivalsAt(Served served);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_DEFAULT_SYSTEMS_H_
