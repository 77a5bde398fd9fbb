// Linear programs with integer columns, an interface for solvers, and export as free MPS.
//
//   MilpModel model;
//   const int n = model.AddColumn({.name = "replicas", .cost = 2.67, .integer = true});
//   model.AddRow({.name = "rate", .lower = 7.5, .terms = {{n, 2.0}}});
//   auto solver = MakeMilpSolver("cbc");  // an error if it is not built in
//   auto solution = (*solver)->Solve(model, {.seconds = 10});
//
// docs/howto/milp.md explains the interface.
#ifndef TAKT_PLANNING_MILP_H_
#define TAKT_PLANNING_MILP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/names.h"

namespace takt {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct MilpColumn {
  std::string name = {};
  double cost = 0;
  double lower = 0;
  double upper = kUnlimited;
  bool integer = false;
};

struct MilpTerm {
  int column = 0;
  double coefficient = 0;
};

// lower <= sum of the terms <= upper.
struct MilpRow {
  std::string name = {};
  double lower = -kUnlimited;
  double upper = kUnlimited;
  std::vector<MilpTerm> terms = {};  // terms of the row, each column at most once
};

// A linear program that minimizes the sum of costs. To maximize, negate the costs.
struct MilpModel {
  std::string name = "takt";
  std::vector<MilpColumn> columns = {};
  std::vector<MilpRow> rows = {};

  // AddColumn and AddRow return the index of the new column or row.
  int AddColumn(MilpColumn column);
  int AddRow(MilpRow row);

  double Cost(std::span<const double> values) const;

  // Returns the largest violation of a bound, a row or an integer column by `values`; 0: none; infinity: not one finite
  // value per column. A row's violation is divided by the largest of 1 and the absolute values of its terms.
  double Violation(std::span<const double> values) const;

  // Returns InvalidArgument with all faults:
  //
  // - a number that is not finite, except an open bound
  // - crossing bounds
  // - a term with an unknown column, or two terms with the same column
  // - an empty or duplicate name, or one that free MPS does not support: longer than 255 characters, not printable
  //   ASCII, with blanks, or with '$' or '*' at the start
  absl::Status Validate() const;
};

// Returns the model as free MPS, which every solver reads. All bounds are written, because solvers differ in the
// default bounds of integer columns. Rows without bounds are omitted. Expects a valid model.
std::string ToFreeMps(const MilpModel& model);

enum class MilpStatus : std::uint8_t {
  kOptimal,  // the solution is optimal within the requested gap
  kLimit,  // the solver stopped early; `values`: best solution found (empty: none); `bound`: proven bound
  kInfeasible,  // no solution exists
  kUnbounded,  // the cost has no minimum
};
constexpr auto NamesOf(MilpStatus) {
  return std::to_array<std::string_view>({"optimal", "limit", "infeasible", "unbounded"});
}

struct MilpLimits {
  double seconds = 60;  // wall-clock limit of the solver [s]; if a run reaches it, results depend on the machine
  std::int64_t nodes = 1'000'000'000;  // maximum nodes of the search tree; this limit does not depend on the machine
  double relative_gap = 1e-6;  // maximum difference from the bound, as a share of the bound, of an optimal solution
  // Called from time to time. If it returns false, the solver stops with the best solution so far, as at a limit.
  std::function<bool()> go_on = {};

  // Returns InvalidArgument with the name and value of every invalid field.
  absl::Status Validate() const;
};

struct MilpSolution {
  MilpStatus status = MilpStatus::kInfeasible;
  double objective = kUnlimited;  // sum of costs; infinity: no values
  double bound = -kUnlimited;  // lower bound on the cost of any solution
  std::vector<double> values = {};  // value of each column; empty: no solution found
  std::int64_t nodes = 0;
};

// The interface for solvers. Implementations print nothing, start no thread and keep no state between calls.
class MilpSolver {
 public:
  virtual ~MilpSolver() = default;
  virtual std::string_view name() const = 0;

  // Solves the model. InvalidArgument: an invalid model or limit. Internal: the solver gave up, or its values violate
  // the model.
  absl::StatusOr<MilpSolution> Solve(const MilpModel& model, const MilpLimits& limits = {}) const;

 private:
  // Solves a valid model with at least one column. Returns the solver's values, which Solve rounds and checks.
  virtual absl::StatusOr<MilpSolution> DoSolve(const MilpModel& model, const MilpLimits& limits) const = 0;
};

struct MilpSolverInfo {
  std::string_view name;
  bool built_in = false;
  std::string_view text;  // description of the solver, and the build option that includes it
};

// Returns all known solvers, the preferred one first.
std::span<const MilpSolverInfo> MilpSolverInfos();

// Makes the solver of this name; empty name: the first solver that is built in. NotFound: unknown name. Unimplemented:
// not built in; the message names the build option.
absl::StatusOr<std::unique_ptr<const MilpSolver>> MakeMilpSolver(std::string_view name = {});

}  // namespace takt

#endif  // TAKT_PLANNING_MILP_H_
