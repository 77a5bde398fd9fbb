// Solver by COIN-OR's branch and cut, through its C++ interface.
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "CbcEventHandler.hpp"
#include "CbcModel.hpp"
#include "CbcStrategy.hpp"
#include "CoinPackedMatrix.hpp"
#include "OsiClpSolverInterface.hpp"
#include "planning/solvers.h"

namespace takt::internal {
namespace {

class Watch final : public CbcEventHandler {
 public:
  explicit Watch(const std::function<bool()>& go_on) : go_on_(&go_on) {}
  CbcEventHandler* clone() const override { return new Watch(*this); }
  using CbcEventHandler::event;
  CbcAction event(CbcEvent) override { return (*go_on_)() ? noAction : stop; }

 private:
  const std::function<bool()>* go_on_;
};

void Load(const MilpModel& model, OsiClpSolverInterface& osi) {
  const double infinity = osi.getInfinity();
  const auto limit = [infinity](double x) { return std::isfinite(x) ? x : std::copysign(infinity, x); };
  std::vector<double> lower, upper, cost, row_lower, row_upper;
  std::vector<int> integers;
  for (std::size_t i = 0; i < model.columns.size(); ++i) {
    const MilpColumn& c = model.columns[i];
    lower.push_back(limit(c.integer ? std::ceil(c.lower - 1e-9) : c.lower));
    upper.push_back(limit(c.integer ? std::floor(c.upper + 1e-9) : c.upper));
    cost.push_back(c.cost);
    if (c.integer) integers.push_back(static_cast<int>(i));
  }
  std::vector<int> starts = {0}, indices;
  std::vector<double> elements;
  for (const MilpRow& row : model.rows) {
    row_lower.push_back(limit(row.lower));
    row_upper.push_back(limit(row.upper));
    for (const MilpTerm& term : row.terms) {
      if (term.coefficient == 0) continue;
      indices.push_back(term.column);
      elements.push_back(term.coefficient);
    }
    starts.push_back(static_cast<int>(indices.size()));
  }
  const int columns = static_cast<int>(model.columns.size());
  const int rows = static_cast<int>(model.rows.size());
  const CoinPackedMatrix matrix(false, columns, rows, static_cast<int>(elements.size()), elements.data(),
                                indices.data(), starts.data(), nullptr);
  osi.loadProblem(matrix, lower.data(), upper.data(), cost.data(), row_lower.data(), row_upper.data());
  osi.setInteger(integers.data(), static_cast<int>(integers.size()));
}

class Cbc final : public MilpSolver {
 public:
  std::string_view name() const override { return "cbc"; }

 private:
  absl::StatusOr<MilpSolution> DoSolve(const MilpModel& model, const MilpLimits& limits) const override {
    OsiClpSolverInterface osi;
    osi.messageHandler()->setLogLevel(0);
    osi.getModelPtr()->setLogLevel(0);
    osi.setHintParam(OsiDoReducePrint, true, OsiHintTry);
    Load(model, osi);

    CbcModel cbc(osi);
    cbc.setLogLevel(0);
    cbc.solver()->messageHandler()->setLogLevel(0);
    cbc.setUseElapsedTime(true);
    cbc.setMaximumSeconds(limits.seconds < 1e9 ? limits.seconds : 1e9);
    cbc.setMaximumNodes(static_cast<int>(limits.nodes < 2'000'000'000 ? limits.nodes : 2'000'000'000));
    cbc.setAllowableFractionGap(limits.relative_gap);
    cbc.setAllowableGap(1e-9);
    // Uses cuts and heuristics without preprocessing. If preprocessing removes every column (2.10.8, one column and one
    // row), Cbc returns the optimum of the relaxation.
    CbcStrategyDefault strategy;
    cbc.setStrategy(strategy);
    Watch watch(limits.go_on);
    if (limits.go_on) cbc.passInEventHandler(&watch);

    cbc.initialSolve();
    MilpSolution solution;
    if (cbc.isInitialSolveProvenPrimalInfeasible()) return solution;
    if (cbc.isInitialSolveProvenDualInfeasible()) {
      solution.status = MilpStatus::kUnbounded;
      return solution;
    }
    cbc.branchAndBound();
    solution.nodes = cbc.getNodeCount();
    solution.bound = cbc.getBestPossibleObjValue();
    if (const double* best = cbc.bestSolution(); best != nullptr) {
      solution.values.assign(best, best + model.columns.size());
    }
    const bool stopped = cbc.status() == 1 || cbc.status() == 5;
    if (cbc.isAbandoned()) return absl::InternalError("cbc failed: numerical difficulties");
    if (cbc.isProvenInfeasible() && solution.values.empty() && !stopped) return solution;
    solution.status = stopped || solution.values.empty() ? MilpStatus::kLimit : MilpStatus::kOptimal;
    return solution;
  }
};

}  // namespace

std::unique_ptr<const MilpSolver> MakeCbc() { return std::make_unique<Cbc>(); }

}  // namespace takt::internal
