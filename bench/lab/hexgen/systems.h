// Systems and rates of the HexGen-Flow scenario.
#ifndef TAKT_BENCH_LAB_HEXGEN_SYSTEMS_H_
#define TAKT_BENCH_LAB_HEXGEN_SYSTEMS_H_

#include <string>
#include <string_view>
#include <vector>

#include "lab/hexgen/study.h"

namespace takt::tool {

struct HexgenPlan {
  std::vector<double> rates = {0.05, 0.1, 0.15, 0.5, 1};  // queries per second; the paper's are the last two
  std::vector<double> published = {0.5, 1};
  std::vector<double> alphas = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  double rate = 0.5;          // of the ablations
  double changing_peak = 0.4;
  std::vector<HexgenStudy::Tuned> tuned;  // by cluster, load and rate

  // Zero if nothing was tuned.
  double AlphaOf(HexgenCluster cluster, HexgenLoad load, double rate) const;
};

namespace hexgen {
HexgenSystem Vllm();
HexgenSystem WorkflowOrder();
HexgenSystem Vtc();
HexgenSystem Qlm();
HexgenSystem RrPq();
HexgenSystem WbFcfs(double alpha);
HexgenSystem WbPq(double alpha, BudgetRule budget = BudgetRule::kShare);
HexgenSystem WbOrder(const std::string& label, const std::string& policy);  // at alpha 0
HexgenSystem Tuner();
HexgenSystem Labelled(HexgenSystem system, std::string label);
std::vector<HexgenSystem> Orders();      // under the same balance
std::vector<HexgenSystem> Placements();  // under the same order
std::vector<HexgenSystem> Knowledge();   // of reported lengths
// In the order of the tables; the last two with the alpha tuned for the conditions.
std::vector<HexgenSystem> Main(const HexgenPlan& plan, HexgenCluster cluster, HexgenLoad load, double rate);
}  // namespace hexgen

inline constexpr std::string_view kHexgenFlow = "HexGen-Flow";

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_HEXGEN_SYSTEMS_H_
