// Compares the paper's claims for Kairos with the results.
#ifndef TAKT_BENCH_LAB_KAIROS_CLAIMS_H_
#define TAKT_BENCH_LAB_KAIROS_CLAIMS_H_

#include <string>
#include <vector>

#include "lab/kairos/order.h"
#include "lab/kairos/systems.h"
#include "lab/report/scenario_report.h"

namespace takt::tool {

// Returns a claim for each figure of the paper's sections 2 and 7.
// `accuracies`: by seed, then scenario.
std::vector<ScenarioClaim> KairosClaims(const KairosStudy& study, const KairosPlan& plan,
                                        const std::vector<std::vector<KairosAccuracy>>& accuracies);

std::vector<std::string> KairosFindings(const KairosStudy& study, const KairosPlan& plan,
                                        const std::vector<KairosAccuracy>& accuracies);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_KAIROS_CLAIMS_H_
