// What the paper claims of LAMPS, beside what came out.
#ifndef TAKT_BENCH_LAB_LAMPS_CLAIMS_H_
#define TAKT_BENCH_LAB_LAMPS_CLAIMS_H_

#include <string>
#include <vector>

#include "lab/lamps/systems.h"
#include "lab/report/scenario_report.h"

namespace takt::tool {

// One for each figure of the paper's sections 6 and 8.
std::vector<ScenarioClaim> LampsClaims(const LampsStudy& study, const LampsPlan& plan, const LampsPredictor& predictor);

// Where a queue forms, who wins.
std::vector<std::string> LampsFindings(const LampsStudy& study, const LampsPlan& plan);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_LAMPS_CLAIMS_H_
