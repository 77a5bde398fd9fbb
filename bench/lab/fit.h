// Reports how free engine parameters were fitted to a paper's measurements of its baselines.
#ifndef TAKT_BENCH_LAB_FIT_H_
#define TAKT_BENCH_LAB_FIT_H_

#include <string>
#include <utility>
#include <vector>

#include "lab/report/scenario_report.h"

namespace takt::tool {

// Figures of one baseline under each value tried.
struct Fit {
  struct Tried {
    std::string value;
    std::vector<double> ours;  // by figure; empty: run incomplete
    std::string note = {};     // "taken", "regime takt"
  };

  std::string parameter;                                // varied parameter, such as "sequences a step"
  std::vector<std::pair<std::string, double>> figures;  // figure's name with unit; the paper's value
  std::vector<Tried> tried;
};

// Root mean square of the logarithms of our figures over the paper's, as a percentage. 10: off by a factor of about
// 1.1.
double FitError(const Fit& fit, const Fit::Tried& tried);

ScenarioTable FitTable(const Fit& fit);
std::vector<ScenarioRow> FitRows(const Fit& fit);

// "sequences a step: 24, off by 12 %; 256: 95 %"
std::string FitText(const Fit& fit);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_FIT_H_
