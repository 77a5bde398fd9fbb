// Solver by HiGHS, through its C++ interface.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "Highs.h"
#include "planning/solvers.h"

namespace takt::internal {
namespace {

HighsLp LpOf(const MilpModel& model) {
  HighsLp lp;
  lp.num_col_ = static_cast<HighsInt>(model.columns.size());
  lp.num_row_ = static_cast<HighsInt>(model.rows.size());
  for (const MilpColumn& c : model.columns) {
    lp.col_cost_.push_back(c.cost);
    lp.col_lower_.push_back(c.lower);
    lp.col_upper_.push_back(c.upper);
    lp.integrality_.push_back(c.integer ? HighsVarType::kInteger : HighsVarType::kContinuous);
  }
  lp.a_matrix_.format_ = MatrixFormat::kRowwise;
  lp.a_matrix_.num_col_ = lp.num_col_;
  lp.a_matrix_.num_row_ = lp.num_row_;
  lp.a_matrix_.start_ = {0};
  for (const MilpRow& row : model.rows) {
    lp.row_lower_.push_back(row.lower);
    lp.row_upper_.push_back(row.upper);
    for (const MilpTerm& term : row.terms) {
      if (term.coefficient == 0) continue;
      lp.a_matrix_.index_.push_back(term.column);
      lp.a_matrix_.value_.push_back(term.coefficient);
    }
    lp.a_matrix_.start_.push_back(static_cast<HighsInt>(lp.a_matrix_.index_.size()));
  }
  return lp;
}

class HighsSolver final : public MilpSolver {
 public:
  std::string_view name() const override { return "highs"; }

 private:
  absl::StatusOr<MilpSolution> DoSolve(const MilpModel& model, const MilpLimits& limits) const override {
    Highs highs;
    highs.setOptionValue("output_flag", false);
    highs.setOptionValue("parallel", "off");
    highs.setOptionValue("threads", 1);
    highs.setOptionValue("time_limit", limits.seconds);
    highs.setOptionValue("mip_max_nodes", static_cast<HighsInt>(std::min<std::int64_t>(limits.nodes, kHighsIInf)));
    highs.setOptionValue("mip_rel_gap", limits.relative_gap);
    if (limits.go_on) {
      // The types of the callback's parameters were renamed between HiGHS versions.
      highs.setCallback(
          [&limits](int, const auto&, const auto*, auto* in, void*) { in->user_interrupt = !limits.go_on(); });
      highs.startCallback(kCallbackMipInterrupt);
    }
    if (highs.passModel(LpOf(model)) == HighsStatus::kError || highs.run() == HighsStatus::kError) {
      return absl::InternalError("highs failed");
    }
    if (highs.getModelStatus() ==
        HighsModelStatus::kUnboundedOrInfeasible) {  // presolve alone cannot distinguish the two
      highs.setOptionValue("presolve", "off");
      if (highs.run() == HighsStatus::kError) return absl::InternalError("highs failed");
    }
    MilpSolution solution;
    const HighsInfo& info = highs.getInfo();
    solution.nodes = info.mip_node_count;
    if (info.primal_solution_status == kSolutionStatusFeasible) solution.values = highs.getSolution().col_value;
    switch (highs.getModelStatus()) {
      case HighsModelStatus::kOptimal: solution.status = MilpStatus::kOptimal; break;
      case HighsModelStatus::kInfeasible: return MilpSolution{};
      case HighsModelStatus::kUnbounded:
        solution = {};
        solution.status = MilpStatus::kUnbounded;
        return solution;
      default: solution.status = MilpStatus::kLimit;  // time or nodes ran out, or the caller stopped it
    }
    const bool is_mip = info.mip_node_count >= 0;
    solution.bound = is_mip                                    ? info.mip_dual_bound
                     : solution.status == MilpStatus::kOptimal ? info.objective_function_value
                                                               : -kUnlimited;
    return solution;
  }
};

}  // namespace

std::unique_ptr<const MilpSolver> MakeHighs() { return std::make_unique<HighsSolver>(); }

}  // namespace takt::internal
