// Linear programs with integer columns, and their solvers: an explicit model, a seam for solvers, free MPS.
//
//   MilpModel model;
//   const int n = model.AddColumn({.name = "replicas", .cost = 2.67, .integer = true});
//   model.AddRow({.name = "rate", .lower = 7.5, .terms = {{n, 2.0}}});
//   auto solver = MakeMilpSolver("cbc");  // an error where it is not built in
//   auto solution = (*solver)->Solve(model, {.seconds = 10});
//
// docs/howto/milp.md tells more.
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
  std::vector<MilpTerm> terms = {};  // a column at most once
};

// The sum of costs is minimised; for a maximum, negate them.
struct MilpModel {
  std::string name = "takt";
  std::vector<MilpColumn> columns = {};
  std::vector<MilpRow> rows = {};

  // The index of what was added.
  int AddColumn(MilpColumn column);
  int AddRow(MilpRow row);

  double Cost(std::span<const double> values) const;

  // By how much `values` break the bound, the row or the integrality that they break most; 0: none, infinity: not one
  // finite value per column. Of a row, in units of the largest of 1 and its terms' absolute values.
  double Violation(std::span<const double> values) const;

  // InvalidArgument names everything at fault: numbers that are not finite (bounds may be infinite outwards), bounds
  // that cross, terms of no column or of one column twice, and names that free MPS cannot hold: those that are empty,
  // longer than 255 characters, not printable ASCII without blanks, begin with '$' or '*', or occur twice.
  absl::Status Validate() const;
};

// The model as free MPS, which every solver reads. Bounds are written out in full, because readers disagree on those
// of integer columns; rows without any bound are left out. Expects a valid model.
std::string ToFreeMps(const MilpModel& model);

enum class MilpStatus : std::uint8_t {
  kOptimal,  // within the gap that was asked for
  kLimit,  // stopped before: `values` are the best found (empty: none), `bound` what none can be below
  kInfeasible,  // nothing fulfils the model
  kUnbounded,  // the cost has no least value
};
constexpr auto NamesOf(MilpStatus) {
  return std::to_array<std::string_view>({"optimal", "limit", "infeasible", "unbounded"});
}

struct MilpLimits {
  double seconds = 60;  // wall clock, the solver's own: what a run that ends by it returns depends on the machine
  std::int64_t nodes = 1'000'000'000;  // of the search tree; unlike seconds, the same everywhere
  double relative_gap = 1e-6;  // optimal is what is within this share of the bound
  // Asked now and then while solving; false stops at the best found so far, as a limit does.
  std::function<bool()> go_on = {};

  // InvalidArgument names every field at fault, with its value.
  absl::Status Validate() const;
};

struct MilpSolution {
  MilpStatus status = MilpStatus::kInfeasible;
  double objective = kUnlimited;  // infinity: no values
  double bound = -kUnlimited;  // no plan is cheaper; equals the objective within the gap where optimal
  std::vector<double> values = {};  // one per column, those of integer columns whole; empty: none found
  std::int64_t nodes = 0;
};

// The seam. Implementations print nothing, start no thread and keep nothing from one call to the next.
class MilpSolver {
 public:
  virtual ~MilpSolver() = default;
  virtual std::string_view name() const = 0;

  // InvalidArgument: the model or the limits. Internal: the solver gave up, or its values break the model.
  absl::StatusOr<MilpSolution> Solve(const MilpModel& model, const MilpLimits& limits = {}) const;

 private:
  // For a valid model of at least one column. Values as the solver has them: Solve rounds and checks them.
  virtual absl::StatusOr<MilpSolution> DoSolve(const MilpModel& model, const MilpLimits& limits) const = 0;
};

struct MilpSolverInfo {
  std::string_view name;
  bool built_in = false;
  std::string_view text;  // what it is, and what brings it in
};

// All that takt knows of, the preferred one first.
std::span<const MilpSolverInfo> MilpSolverInfos();

// Empty name: the first that is built in. NotFound: no such solver. Unimplemented: not built in, and what would
// bring it in.
absl::StatusOr<std::unique_ptr<const MilpSolver>> MakeMilpSolver(std::string_view name = {});

}  // namespace takt

#endif  // TAKT_PLANNING_MILP_H_
