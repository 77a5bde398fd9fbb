// Compares the claims for the default order with the results.
#ifndef TAKT_BENCH_LAB_DEFAULT_CLAIMS_H_
#define TAKT_BENCH_LAB_DEFAULT_CLAIMS_H_

#include <vector>

#include "lab/default/systems.h"
#include "lab/report/scenario_report.h"

namespace takt::tool {

// One claim for each claimed figure of the default.
std::vector<ScenarioClaim> DefaultClaims(const DefaultStudy& study, const DefaultPlan& plan);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_DEFAULT_CLAIMS_H_
