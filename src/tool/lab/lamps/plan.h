// What the LAMPS scenario runs, and what the paper claims of it.
#ifndef TAKT_SRC_TOOL_LAB_LAMPS_PLAN_H_
#define TAKT_SRC_TOOL_LAB_LAMPS_PLAN_H_

#include <string>
#include <vector>

#include "tool/lab/lamps/study.h"
#include "tool/lab/scenario.h"

namespace takt::tool {

// A request waits for others where it takes so long until its first step, on average.
inline constexpr double kQueueSeconds = 0.5;

struct LampsPlan {
  double minutes = 10;             // of arrivals
  double throughput_minutes = 30;  // the same, where completions are counted
  std::vector<double> rates = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<double> rates_beyond = {12, 14, 16, 18, 20};  // single calls do not queue before
  std::vector<double> throughput_rates = {4, 6, 8, 10};
  double rate = 9;  // of the ablation and the sweeps
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
}  // namespace lamps

// Tokens generated before a tool call, predicted by the mean of its class: 70 % of the requests teach, 30 % are asked.
struct LampsPredictor {
  std::int64_t calls = 0;
  double acc_5 = 0, acc_15 = 0;     // % within 5 and 15 tokens
  double mae = 0, mae_first_20 = 0;  // tokens; of calls within the first 20 bins of 10 tokens
};
LampsPredictor ScorePredictor(const Workload& requests);

// One for each figure of the paper's sections 6 and 8.
std::vector<ScenarioClaim> LampsClaims(const LampsStudy& study, const LampsPlan& plan, const LampsPredictor& predictor);

// Where a queue forms, who wins.
std::vector<std::string> LampsFindings(const LampsStudy& study, const LampsPlan& plan);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_LAB_LAMPS_PLAN_H_
