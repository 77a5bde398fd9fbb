// How free engine parameters were fitted to what a paper measured of its baselines.
#ifndef TAKT_BENCH_LAB_FIT_H_
#define TAKT_BENCH_LAB_FIT_H_

#include <string>
#include <utility>
#include <vector>

#include "lab/report/scenario_report.h"

namespace takt::tool {

// The figures of one baseline under each value that was tried.
struct Fit {
  struct Tried {
    std::string value;
    std::vector<double> ours;  // by figure; empty: not run to the end
    std::string note = {};     // "taken", "regime takt"
  };

  std::string parameter;                                // what was varied, such as "sequences a step"
  std::vector<std::pair<std::string, double>> figures;  // its name with the unit, and what the paper has
  std::vector<Tried> tried;
};

// Root mean square of the logarithms of ours over the paper's, as a percentage: 10 is a tenth too much or too little.
double FitError(const Fit& fit, const Fit::Tried& tried);

ScenarioTable FitTable(const Fit& fit);
std::vector<ScenarioRow> FitRows(const Fit& fit);

// "sequences a step: 24, off by 12 %; 256: 95 %"
std::string FitText(const Fit& fit);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_FIT_H_
