// Compares the paper's claims for LAMPS with the results.
#ifndef TAKT_BENCH_LAB_LAMPS_CLAIMS_H_
#define TAKT_BENCH_LAB_LAMPS_CLAIMS_H_

#include <string>
#include <vector>

#include "lab/lamps/systems.h"
#include "lab/report/scenario_report.h"

namespace takt::tool {

// Returns a claim for each figure of the paper's sections 6 and 8.
std::vector<ScenarioClaim> LampsClaims(const LampsStudy& study, const LampsPlan& plan, const LampsPredictor& predictor);

// Returns the winners at the rates with a queue.
std::vector<std::string> LampsFindings(const LampsStudy& study, const LampsPlan& plan);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_LAMPS_CLAIMS_H_
