// What the LAMPS scenario compares, and at which rates.
#ifndef TAKT_BENCH_LAB_LAMPS_SYSTEMS_H_
#define TAKT_BENCH_LAB_LAMPS_SYSTEMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lab/lamps/study.h"

namespace takt::tool {

struct LampsPlan {
  double minutes = 10;             // of arrivals
  double throughput_minutes = 30;  // the same, where completions are counted
  std::vector<double> rates = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<double> rates_beyond = {12, 14, 16, 18, 20};  // single calls do not queue before
  std::vector<double> throughput_rates = {4, 6, 8, 10};
  double rate = 9;  // of the ablation and the sweeps
  // Most sequences in a step: of regime paper, by the fit below, and what the fit tried.
  static constexpr std::int32_t kPaperSeqs = 10;
  std::vector<std::int32_t> fit = {8, 9, 10, 11, 12, 14, 16, 24, 256};
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
LampsSystem Guarded(int threshold);  // LAMPS with another threshold of its guard against starvation; 0: without
LampsSystem Refreshed(int refresh);  // LAMPS that weighs the stall of others, scored again at an interval
std::vector<LampsSystem> Main();
std::vector<LampsSystem> Ablation();
}  // namespace lamps

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_LAMPS_SYSTEMS_H_
