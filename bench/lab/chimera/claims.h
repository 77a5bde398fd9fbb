// Compares the paper's claims for Chimera with the results.
#ifndef TAKT_BENCH_LAB_CHIMERA_CLAIMS_H_
#define TAKT_BENCH_LAB_CHIMERA_CLAIMS_H_

#include <string>
#include <vector>

#include "lab/chimera/systems.h"
#include "lab/report/scenario_report.h"

namespace takt::tool {

std::vector<ScenarioClaim> ChimeraClaims(const ChimeraStudy& study, const ChimeraPlan& plan);
std::vector<std::string> ChimeraFindings(const ChimeraStudy& study, const ChimeraPlan& plan);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CHIMERA_CLAIMS_H_
