// Systems and rates of the LAMPS scenario.
#ifndef TAKT_BENCH_LAB_LAMPS_SYSTEMS_H_
#define TAKT_BENCH_LAB_LAMPS_SYSTEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/lamps/study.h"

namespace takt::tool {

struct LampsPlan {
  double minutes = 10;             // time of arrivals
  double throughput_minutes = 30;  // time of arrivals for throughput
  std::vector<double> rates = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<double> rates_beyond = {12, 14, 16, 18, 20};  // single calls have no queue at lower rates
  std::vector<double> throughput_rates = {4, 6, 8, 10};
  double rate = 9;  // rate of the ablation and the sweeps
  // Maximum sequences in a step: the values of regime paper by LampsModel, from the fit below, and the values tried.
  static constexpr LampsSeqs kPaperSeqs = {10, 16};
  std::vector<std::int32_t> fit = {8, 9, 10, 11, 12, 13, 14, 16, 20, 24, 256};
  std::vector<double> errors = {0.05, 0.1, 0.2, 0.3, 0.5};
  std::vector<double> error_rates = {6, 8, 10};
  std::vector<int> thresholds = {25, 50, 100, 200, 400};  // iterations
  std::vector<int> refreshes = {0, 1, 10, 50, 100};       // iterations

  std::vector<double> RatesOf(LampsCalls calls) const;
};

namespace lamps {
LampsSystem Vllm();
LampsSystem InferCept();
LampsSystem NoOrder();  // LAMPS' handling of calls, first come first served
LampsSystem Lamps(EstimateSpec estimates = {EstimateKind::kOracle, 0});
LampsSystem LampsClassMean();
LampsSystem Guarded(int threshold);  // LAMPS with another threshold against starvation; 0: none
LampsSystem Refreshed(int refresh);  // LAMPS with the cost of stalling others, scored again at an interval
std::vector<LampsSystem> Main();
std::vector<LampsSystem> Ablation();
}  // namespace lamps

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_LAMPS_SYSTEMS_H_
