// Compares the paper's claims for Cascadia with the results.
#ifndef TAKT_BENCH_LAB_CASCADIA_CLAIMS_H_
#define TAKT_BENCH_LAB_CASCADIA_CLAIMS_H_

#include <functional>
#include <optional>
#include <vector>

#include "lab/cascadia/engine_fit.h"
#include "lab/cascadia/fluctuation.h"
#include "lab/cascadia/study.h"
#include "lab/report/scenario_report.h"

namespace takt::tool {

inline constexpr double kCascadiaLoad = 0.7;  // used by most claims

// All completed runs with one draw of requests; interrupted runs are missing.
struct CascadiaFindings {
  CascadiaSettings settings;
  std::vector<CascadiaStudy> studies;  // by cascade and trace
  std::vector<std::vector<CascadiaFluctuation>> fluctuations;  // by cascade
  std::optional<CascadiaSimulated> simulated;
  std::vector<CascadiaJudge> judges;
  std::optional<CascadiaPrefix> prefix;
  std::optional<CascadiaFit> fit;       // of the first seed, in regime paper
  std::optional<double> table1_error;  // [%]

  std::vector<const CascadiaCase*> Cases(const std::function<bool(const CascadiaCase&)>& which) const {
    std::vector<const CascadiaCase*> cases;
    for (const CascadiaStudy& s : studies) {
      for (const CascadiaCase& c : s.cases()) {
        if (which(c)) cases.push_back(&c);
      }
    }
    return cases;
  }
};

// `seeds`: the findings of each draw of requests.
std::vector<ScenarioClaim> CascadiaClaims(const std::vector<CascadiaFindings>& seeds);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CASCADIA_CLAIMS_H_
