// Prefill and decode apart: one router with roles next to two pools with a router each.
#ifndef TAKT_BENCH_LAB_OPERATORS_ROLES_H_
#define TAKT_BENCH_LAB_OPERATORS_ROLES_H_

#include "absl/status/status.h"
#include "lab/scenario.h"
#include "lab/study.h"

namespace takt::tool {

// Runs the part, and adds its table, rows and claims.
absl::Status AddRolesPart(const StudySettings& settings, SeedRange seeds, ProgressBar& bar, ScenarioReport& report);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_OPERATORS_ROLES_H_
