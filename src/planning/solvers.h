// Solvers that are linked in.
#ifndef TAKT_SRC_PLANNING_SOLVERS_H_
#define TAKT_SRC_PLANNING_SOLVERS_H_

#include <memory>

#include "takt/planning/milp.h"

namespace takt::internal {

std::unique_ptr<const MilpSolver> MakeCbc();  // only with TAKT_HAS_CBC
std::unique_ptr<const MilpSolver> MakeHighs();  // only with TAKT_HAS_HIGHS

}  // namespace takt::internal

#endif  // TAKT_SRC_PLANNING_SOLVERS_H_
