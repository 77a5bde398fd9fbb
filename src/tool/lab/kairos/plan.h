// What the Kairos scenario runs, and what the paper claims of it.
#ifndef TAKT_SRC_TOOL_LAB_KAIROS_PLAN_H_
#define TAKT_SRC_TOOL_LAB_KAIROS_PLAN_H_

#include <string>
#include <vector>

#include "tool/lab/kairos/order.h"
#include "tool/lab/kairos/study.h"
#include "tool/lab/scenario.h"

namespace takt::tool {

struct KairosPlan {
  double minutes = 30;  // of arrivals, where as many arrive as can be served, and the trace is long enough
  // Loads: shares of what can be served; the same workflows arrive, sooner or later.
  std::vector<double> loads = {0.8, 1.2, 2};
  std::vector<double> mix_loads = {0.5, 0.8, 1, 1.2, 1.5, 2, 3};
  double accuracy_load = 0.8;

  const std::vector<double>& LoadsOf(std::size_t scenario) const { return scenario == kMix ? mix_loads : loads; }
};

namespace kairos {
KairosSystem Parrot();
KairosSystem Ayo();
KairosSystem Kairos();
KairosSystem NoPriority();
KairosSystem NoPacking();
KairosSystem Oracle();
KairosSystem ByMean();       // agents by the mean alone
KairosSystem ByMedian();
KairosSystem AsPublished();  // packing that does not count what outlives its expected time
KairosSystem BestFit();      // Parrot's order, the instance that fits best
}  // namespace kairos

// A queue forms where calls wait for at least so much of a workflow's time.
inline constexpr double kQueuedPercent = 5;

// Of one claim or finding: the load at which workflows under Parrot wait for nearest to half of their time. Null where
// no queue forms.
const KairosCell* HalfQueued(const KairosStudy& study, const KairosPlan& plan, KairosModel model, std::size_t scenario);

// One for each figure of the paper's sections 2 and 7.
std::vector<ScenarioClaim> KairosClaims(const KairosStudy& study, const KairosPlan& plan,
                                        const std::vector<KairosAccuracy>& accuracies);

std::vector<std::string> KairosFindings(const KairosStudy& study, const KairosPlan& plan,
                                        const std::vector<KairosAccuracy>& accuracies);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_LAB_KAIROS_PLAN_H_
