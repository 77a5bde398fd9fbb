// What the paper claims of LAMPS, beside what came out.
#ifndef TAKT_SRC_TOOL_LAB_LAMPS_CLAIMS_H_
#define TAKT_SRC_TOOL_LAB_LAMPS_CLAIMS_H_

#include <string>
#include <vector>

#include "tool/lab/lamps/systems.h"
#include "tool/report/scenario_report.h"

namespace takt::tool {

// One for each figure of the paper's sections 6 and 8.
std::vector<ScenarioClaim> LampsClaims(const LampsStudy& study, const LampsPlan& plan, const LampsPredictor& predictor);

// Where a queue forms, who wins.
std::vector<std::string> LampsFindings(const LampsStudy& study, const LampsPlan& plan);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_LAB_LAMPS_CLAIMS_H_
