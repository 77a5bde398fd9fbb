// Compares the paper's claims for HexGen-Flow with the results.
#ifndef TAKT_BENCH_LAB_HEXGEN_CLAIMS_H_
#define TAKT_BENCH_LAB_HEXGEN_CLAIMS_H_

#include <string>
#include <vector>

#include "lab/hexgen/systems.h"
#include "lab/report/scenario_report.h"

namespace takt::tool {

// Returns a claim for each figure of the paper's evaluation.
std::vector<ScenarioClaim> HexgenClaims(const HexgenStudy& study, const HexgenPlan& plan);

// Returns summaries: the cells that urgency or another order wins, and the gains of balance and tuning.
std::vector<std::string> HexgenFindings(const HexgenStudy& study, const HexgenPlan& plan);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_HEXGEN_CLAIMS_H_
