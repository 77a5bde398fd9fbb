#include "takt/planning/milp.h"

#include "takt/base/faults.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "planning/solvers.h"

#ifndef TAKT_HAS_CBC
#define TAKT_HAS_CBC 0
#endif
#ifndef TAKT_HAS_HIGHS
#define TAKT_HAS_HIGHS 0
#endif

namespace takt {
namespace {

constexpr std::string_view kObjective = "objective";
constexpr double kTolerance = 1e-5;  // solvers satisfy rows and integrality to 1e-6

bool MpsName(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name[0] != '$' && name[0] != '*' &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c < '\x7f'; });
}

// Adds a fault "kind index (name): wish".
void Expect(Faults& faults, bool fine, const char* kind, std::size_t index, std::string_view name, const char* wish) {
  if (!fine) faults.Add(fmt::format("{} {} ({}): {}", kind, index, name, wish));
}

bool Bounds(double lower, double upper) {
  return lower <= upper && lower < kUnlimited && upper > -kUnlimited;  // false for NaN too
}

// The type of a row in the ROWS section. Ranges have type L.
char KindOf(const MilpRow& row) {
  if (row.lower == row.upper) return 'E';
  if (row.upper < kUnlimited) return 'L';
  return row.lower > -kUnlimited ? 'G' : 'N';
}

void AppendBounds(const MilpColumn& c, std::string& mps) {
  const auto line = [&](const char* kind) { mps += fmt::format(" {} bounds {}", kind, c.name); };
  const auto valued = [&](const char* kind, double value) { line(kind), mps += fmt::format(" {}\n", value); };
  if (c.lower == c.upper) return valued("FX", c.lower);
  if (c.lower == -kUnlimited && c.upper == kUnlimited) return line("FR"), mps += '\n', void();
  if (c.lower == -kUnlimited) line("MI"), mps += '\n';
  else valued("LO", c.lower);
  if (c.upper == kUnlimited) line("PL"), mps += '\n';
  else valued("UP", c.upper);
}

}  // namespace

int MilpModel::AddColumn(MilpColumn column) {
  columns.push_back(std::move(column));
  return static_cast<int>(columns.size()) - 1;
}

int MilpModel::AddRow(MilpRow row) {
  rows.push_back(std::move(row));
  return static_cast<int>(rows.size()) - 1;
}

double MilpModel::Cost(std::span<const double> values) const {
  double cost = 0;
  for (std::size_t i = 0; i < std::min(columns.size(), values.size()); ++i) cost += columns[i].cost * values[i];
  return cost;
}

double MilpModel::Violation(std::span<const double> values) const {
  if (values.size() != columns.size()) return kUnlimited;
  double worst = 0;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const MilpColumn& c = columns[i];
    if (!std::isfinite(values[i])) return kUnlimited;
    worst = std::max({worst, c.lower - values[i], values[i] - c.upper});
    if (c.integer) worst = std::max(worst, std::abs(values[i] - std::round(values[i])));
  }
  for (const MilpRow& row : rows) {
    double sum = 0;
    double unit = 1;
    for (const MilpTerm& term : row.terms) {
      const double part = term.coefficient * values[static_cast<std::size_t>(term.column)];
      sum += part;
      unit = std::max(unit, std::abs(part));
    }
    worst = std::max({worst, (row.lower - sum) / unit, (sum - row.upper) / unit});
  }
  return worst;
}

absl::Status MilpModel::Validate() const {
  Faults faults;
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const MilpColumn& c = columns[i];
    Expect(faults, MpsName(c.name), "column", i, c.name, "the name must be printable ASCII without blanks");
    Expect(faults, names.insert(c.name).second, "column", i, c.name, "the name occurs twice");
    Expect(faults, std::isfinite(c.cost), "column", i, c.name, "the cost must be finite");
    Expect(faults, Bounds(c.lower, c.upper), "column", i, c.name, "the bounds are invalid; expected lower <= upper");
  }
  names.clear();
  std::vector<std::size_t> last_row(columns.size(), rows.size());  // last row with a term of the column
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MilpRow& row = rows[i];
    Expect(faults, MpsName(row.name), "row", i, row.name, "the name must be printable ASCII without blanks");
    Expect(faults, row.name != kObjective, "row", i, row.name, "this name belongs to the cost row; choose another");
    Expect(faults, names.insert(row.name).second, "row", i, row.name, "the name occurs twice");
    Expect(faults, Bounds(row.lower, row.upper), "row", i, row.name, "the bounds are invalid; expected lower <= upper");
    for (const MilpTerm& term : row.terms) {
      const bool known = term.column >= 0 && static_cast<std::size_t>(term.column) < columns.size();
      Expect(faults, known, "row", i, row.name, "the column of a term is unknown");
      Expect(faults, std::isfinite(term.coefficient), "row", i, row.name, "a coefficient must be finite");
      if (!known) continue;
      std::size_t& last = last_row[static_cast<std::size_t>(term.column)];
      Expect(faults, last != i, "row", i, row.name, "a column has two terms");
      last = i;
    }
  }
  return faults.ToStatus();
}

std::string ToFreeMps(const MilpModel& model) {
  std::string mps = fmt::format("NAME {}\nROWS\n N {}\n", MpsName(model.name) ? model.name : "takt", kObjective);
  for (const MilpRow& row : model.rows) {
    if (KindOf(row) != 'N') mps += fmt::format(" {} {}\n", KindOf(row), row.name);
  }

  // MPS lists entries by column.
  std::vector<std::vector<std::pair<std::size_t, double>>> entries(model.columns.size());
  for (std::size_t i = 0; i < model.rows.size(); ++i) {
    if (KindOf(model.rows[i]) == 'N') continue;
    for (const MilpTerm& term : model.rows[i].terms) {
      if (term.coefficient != 0) entries[static_cast<std::size_t>(term.column)].emplace_back(i, term.coefficient);
    }
  }
  mps += "COLUMNS\n";
  bool in_integers = false;
  int marks = 0;
  const auto mark = [&](bool integer) {
    if (integer == in_integers) return;
    mps += fmt::format(" mark{} 'MARKER' '{}'\n", marks++, integer ? "INTORG" : "INTEND");
    in_integers = integer;
  };
  for (std::size_t i = 0; i < model.columns.size(); ++i) {
    const MilpColumn& c = model.columns[i];
    mark(c.integer);
    // A column must have an entry, so its cost is written even if it is zero.
    mps += fmt::format(" {} {} {}\n", c.name, kObjective, c.cost);
    for (const auto& [row, value] : entries[i]) {
      mps += fmt::format(" {} {} {}\n", c.name, model.rows[row].name, value);
    }
  }
  mark(false);

  mps += "RHS\n";
  std::string ranges;
  for (const MilpRow& row : model.rows) {
    const char kind = KindOf(row);
    if (kind == 'N') continue;
    mps += fmt::format(" rhs {} {}\n", row.name, kind == 'G' ? row.lower : row.upper);
    if (kind == 'L' && row.lower > -kUnlimited) ranges += fmt::format(" rng {} {}\n", row.name, row.upper - row.lower);
  }
  if (!ranges.empty()) mps += "RANGES\n" + ranges;
  mps += "BOUNDS\n";
  for (const MilpColumn& c : model.columns) AppendBounds(c, mps);
  return mps + "ENDATA\n";
}

absl::Status MilpLimits::Validate() const {
  Faults faults;
  faults.Expect(seconds >= 0, "seconds", seconds, "must not be negative");
  faults.Expect(nodes >= 0, "nodes", nodes, "must not be negative");
  faults.Expect(relative_gap >= 0 && relative_gap < kUnlimited, "relative_gap", relative_gap, "must not be negative");
  return faults.ToStatus();
}

absl::StatusOr<MilpSolution> MilpSolver::Solve(const MilpModel& model, const MilpLimits& limits) const {
  if (absl::Status status = model.Validate(); !status.ok()) return status;
  if (absl::Status status = limits.Validate(); !status.ok()) return status;
  if (model.columns.empty()) {
    const bool holds = model.Violation({}) == 0;
    return MilpSolution{
        holds ? MilpStatus::kOptimal : MilpStatus::kInfeasible, holds ? 0 : kUnlimited, holds ? 0 : kUnlimited, {}, 0};
  }
  absl::StatusOr<MilpSolution> solution = DoSolve(model, limits);
  if (!solution.ok()) return solution;
  if (solution->values.empty()) {
    solution->objective = solution->status == MilpStatus::kUnbounded ? -kUnlimited : kUnlimited;
    if (solution->status == MilpStatus::kInfeasible) solution->bound = kUnlimited;
    return solution;
  }
  for (std::size_t i = 0; i < model.columns.size(); ++i) {
    const MilpColumn& c = model.columns[i];
    double& value = solution->values[i];
    if (c.integer && std::abs(value - std::round(value)) < kTolerance) value = std::round(value);
    value = std::clamp(value, c.lower, c.upper) + 0.0;  // no negative zero
  }
  if (const double violation = model.Violation(solution->values); !(violation <= kTolerance)) {
    return absl::InternalError(fmt::format("{}'s solution violates a row or bound by {}", name(), violation));
  }
  solution->objective = model.Cost(solution->values);
  solution->bound = std::min(solution->bound, solution->objective);
  return solution;
}

std::span<const MilpSolverInfo> MilpSolverInfos() {
  static constexpr std::array<MilpSolverInfo, 2> kInfos = {{
      {"cbc", TAKT_HAS_CBC != 0, "COIN-OR branch and cut; Debian package coinor-libcbc-dev, found by pkg-config"},
      {"highs", TAKT_HAS_HIGHS != 0, "HiGHS; found by find_package(highs), not packaged in Debian 12"},
  }};
  return kInfos;
}

absl::StatusOr<std::unique_ptr<const MilpSolver>> MakeMilpSolver(std::string_view name) {
  std::string known;
  for (const MilpSolverInfo& info : MilpSolverInfos()) {
    known +=
        fmt::format("{}{} ({})", known.empty() ? "" : ", ", info.name, info.built_in ? "built in" : "not built in");
    if (info.name != name && !(name.empty() && info.built_in)) continue;
    if (!info.built_in) {
      return absl::UnimplementedError(fmt::format("solver {} is not built in; to get it: {}", info.name, info.text));
    }
#if TAKT_HAS_CBC
    if (info.name == "cbc") return internal::MakeCbc();
#endif
#if TAKT_HAS_HIGHS
    if (info.name == "highs") return internal::MakeHighs();
#endif
  }
  if (name.empty())
    return absl::UnimplementedError("no solver of integer programs is built in; expected one of " + known);
  return absl::NotFoundError(fmt::format("solver {} is unknown; expected one of {}", name, known));
}

}  // namespace takt
