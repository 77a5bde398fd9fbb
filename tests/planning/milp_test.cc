// The model, the built-in solvers, and a second solver without takt's code.
#include "takt/planning/milp.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "catch.h"
#include "fmt/format.h"
#include "planning/second_solver.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

// Returns the built-in solvers; warns if there are none.
std::vector<std::unique_ptr<const MilpSolver>> Solvers() {
  std::vector<std::unique_ptr<const MilpSolver>> solvers;
  for (const MilpSolverInfo& info : MilpSolverInfos()) {
    if (!info.built_in) continue;
    solvers.push_back(*MakeMilpSolver(info.name));
    CHECK(solvers.back()->name() == info.name);
  }
  if (solvers.empty()) WARN("skipped: no solver is built in");
  return solvers;
}

MilpModel Rounding() {  // 2 n >= 7.5 with n whole
  MilpModel model;
  const int n = model.AddColumn({.name = "n", .cost = 2.67, .integer = true});
  model.AddRow({.name = "rate", .lower = 7.5, .terms = {{n, 2.0}}});
  return model;
}

// A knapsack with many rows, too hard for a one-second search.
MilpModel Hard(int columns) {
  Random random(1);
  MilpModel model;
  for (int i = 0; i < columns; ++i) {
    model.AddColumn({.name = fmt::format("x{}", i), .cost = -10 - 100 * random.Uniform(), .upper = 1, .integer = true});
  }
  for (int k = 0; k < 30; ++k) {
    MilpRow row{.name = fmt::format("k{}", k), .upper = 8.0 * columns, .terms = {}};
    for (int i = 0; i < columns; ++i) row.terms.push_back({i, 10.0 + static_cast<double>(random.Below(90))});
    model.AddRow(std::move(row));
  }
  return model;
}

MilpModel RandomModel(Random& random, bool continuous) {
  MilpModel model;
  const int columns = 1 + static_cast<int>(random.Below(4));
  for (int i = 0; i < columns; ++i) {
    MilpColumn c{.name = fmt::format("x{}", i), .cost = static_cast<double>(random.Below(21)) - 10};
    c.lower = static_cast<double>(random.Below(7)) - 3;
    c.upper = c.lower + static_cast<double>(random.Below(5));
    c.integer = !continuous || random.Chance(0.5);
    // Unbounded whole numbers that satisfy no row: an endless search tree.
    if (!c.integer && random.Chance(0.3)) c.lower = -kUnlimited;
    if (!c.integer && random.Chance(0.3)) c.upper = kUnlimited;
    model.AddColumn(c);
  }
  const int rows = static_cast<int>(random.Below(4));
  for (int k = 0; k < rows; ++k) {
    MilpRow row{.name = fmt::format("r{}", k)};
    for (int i = 0; i < columns; ++i) {
      if (random.Chance(0.7)) row.terms.push_back({i, static_cast<double>(random.Below(11)) - 5});
    }
    const double at = static_cast<double>(random.Below(21)) - 10;
    const std::uint64_t kind = random.Below(4);
    if (kind != 0) row.upper = at;
    if (kind == 0 || kind == 2) row.lower = at;
    if (kind == 3) row.lower = at - 1 - static_cast<double>(random.Below(6));
    model.AddRow(std::move(row));
  }
  return model;
}

// The least cost over all whole points of the box; infinity if none is feasible.
double BruteForce(const MilpModel& model) {
  std::vector<double> x;
  for (const MilpColumn& c : model.columns) x.push_back(c.lower);
  double best = kUnlimited;
  for (;;) {
    if (model.Violation(x) == 0) best = std::min(best, model.Cost(x));
    std::size_t i = 0;
    while (i < x.size() && ++x[i] > model.columns[i].upper) x[i] = model.columns[i].lower, ++i;
    if (i == x.size()) return best;
  }
}

TEST_CASE("solvers report optimal, infeasible and unbounded") {
  for (const auto& solver : Solvers()) {
    CAPTURE(solver->name());
    MilpModel model = Rounding();
    const auto best = solver->Solve(model);
    REQUIRE(best.ok());
    CHECK(best->status == MilpStatus::kOptimal);
    CHECK(best->values == std::vector<double>{4});
    CHECK(best->objective == Approx(4 * 2.67));
    CHECK(best->bound == Approx(best->objective));

    model.columns[0].upper = 3;
    const auto none = solver->Solve(model);
    REQUIRE(none.ok());
    CHECK(none->status == MilpStatus::kInfeasible);
    CHECK(none->values.empty());
    CHECK(none->objective == kUnlimited);

    model = Rounding();
    model.rows[0].upper = 7.7;  // the relaxation is feasible, whole numbers are not
    CHECK(solver->Solve(model)->status == MilpStatus::kInfeasible);

    model = Rounding();
    model.columns[0].cost = -1;
    const auto endless = solver->Solve(model);
    REQUIRE(endless.ok());
    CHECK(endless->status == MilpStatus::kUnbounded);
    CHECK(endless->objective == -kUnlimited);

    model.columns[0] = {.name = "n", .cost = 1, .lower = -3.5, .upper = -1, .integer = true};
    model.rows.clear();
    CHECK(solver->Solve(model)->values == std::vector<double>{-3});
    CHECK(solver->Solve({})->status == MilpStatus::kOptimal);
  }
}

TEST_CASE("a limit returns the best values and a bound, marked") {
  const MilpModel model = Hard(80);
  for (const auto& solver : Solvers()) {
    CAPTURE(solver->name());
    const auto stopped = solver->Solve(model, {.nodes = 20});
    REQUIRE(stopped.ok());
    CHECK(stopped->status == MilpStatus::kLimit);
    REQUIRE_FALSE(stopped->values.empty());
    CHECK(model.Violation(stopped->values) <= 1e-6);
    CHECK(stopped->objective == Approx(model.Cost(stopped->values)));
    CHECK(stopped->bound < stopped->objective - 1e-6 * std::abs(stopped->objective));
    CHECK(solver->Solve(model, {.nodes = 20})->values == stopped->values);  // node limits do not depend on the clock

    const auto longer = solver->Solve(model, {.nodes = 200});
    REQUIRE(longer.ok());
    CHECK(longer->objective <= stopped->objective);
    CHECK(longer->objective >= stopped->bound);

    const auto at_once = solver->Solve(model, {.seconds = 0});
    REQUIRE(at_once.ok());
    CHECK(at_once->status == MilpStatus::kLimit);
    CHECK(at_once->bound <= longer->objective);

    int asked = 0;
    const auto told_to = solver->Solve(model, {.go_on = [&asked] { return ++asked < 20; }});
    REQUIRE(told_to.ok());
    CHECK(told_to->status == MilpStatus::kLimit);
    CHECK(asked < 200);

    const auto near = solver->Solve(model, {.seconds = 600, .relative_gap = 0.5});
    REQUIRE(near.ok());
    CHECK(near->status == MilpStatus::kOptimal);
    CHECK(near->objective - near->bound <= 0.5 * std::abs(near->objective) + 1e-6);
  }
}

TEST_CASE("small models agree with every whole point of their box") {
  Random random(2);
  const auto solvers = Solvers();
  int feasible = 0;
  for (std::int64_t i = 0; i < Scaled(1000); ++i) {
    const MilpModel model = RandomModel(random, false);
    const double expected = BruteForce(model);
    feasible += expected < kUnlimited ? 1 : 0;
    for (const auto& solver : solvers) {
      INFO(ToFreeMps(model));
      const auto found = solver->Solve(model);
      if (!found.ok()) FAIL(found.status().message());
      CHECK(found->status == (expected < kUnlimited ? MilpStatus::kOptimal : MilpStatus::kInfeasible));
      CHECK(found->objective == Approx(expected).margin(1e-6));
      if (found->status == MilpStatus::kOptimal) CHECK(found->bound == Approx(expected).margin(1e-5));
    }
  }
  CHECK(feasible > Scaled(1000) / 3);
}

TEST_CASE("a second solver finds the optimum from the MPS") {
  if (!HasGlpsol()) {
    WARN("skipped: no glpsol");
    return;
  }
  CHECK(Glpsol(ToFreeMps(Rounding())) == Approx(4 * 2.67));
  Random random(3);
  const auto solvers = Solvers();
  int optimal = 0;
  for (std::int64_t i = 0; i < Scaled(100); ++i) {
    const MilpModel model = RandomModel(random, true);
    const std::string mps = ToFreeMps(model);
    INFO(mps);
    const std::optional<double> second = Glpsol(mps);
    for (const auto& solver : solvers) {
      const auto first = solver->Solve(model);
      REQUIRE(first.ok());
      if (first->status == MilpStatus::kUnbounded) {
        CHECK((!second || *second == kUnlimited));  // a model that is both may be reported as either
        continue;
      }
      optimal += first->status == MilpStatus::kOptimal ? 1 : 0;
      if (first->status == MilpStatus::kInfeasible && !second) continue;
      REQUIRE(second);
      CHECK(first->objective == Approx(*second).margin(1e-6));
    }
  }
  if (!solvers.empty()) CHECK(optimal > Scaled(100) / 4);
}

TEST_CASE("free MPS has the expected words") {
  MilpModel model{.name = "small", .columns = {}, .rows = {}};
  const int a = model.AddColumn({.name = "a", .cost = 1.5, .upper = 4, .integer = true});
  const int b = model.AddColumn({.name = "b", .lower = -kUnlimited});
  const int c = model.AddColumn({.name = "c", .cost = -1e-7, .lower = 2, .upper = 2});
  model.AddRow({.name = "at_most", .upper = 10, .terms = {{a, 1}, {b, 0.1}}});
  model.AddRow({.name = "between", .lower = -1, .upper = 3, .terms = {{b, -1}, {c, 2}}});
  model.AddRow({.name = "exactly", .lower = 5, .upper = 5, .terms = {{a, 1}, {b, 0}}});
  model.AddRow({.name = "free", .terms = {{a, 1}}});
  CHECK(ToFreeMps(model) ==
        "NAME small\nROWS\n N objective\n L at_most\n L between\n E exactly\nCOLUMNS\n"
        " mark0 'MARKER' 'INTORG'\n a objective 1.5\n a at_most 1\n a exactly 1\n mark1 'MARKER' 'INTEND'\n"
        " b objective 0\n b at_most 0.1\n b between -1\n c objective -1e-07\n c between 2\n"
        "RHS\n rhs at_most 10\n rhs between 3\n rhs exactly 5\nRANGES\n rng between 4\n"
        "BOUNDS\n LO bounds a 0\n UP bounds a 4\n FR bounds b\n FX bounds c 2\nENDATA\n");
}

TEST_CASE("an invalid model is refused with all its faults") {
  const double nan = std::nan("");
  MilpModel model;
  model.AddColumn({.name = "a b", .cost = nan});
  model.AddColumn({.name = "x", .lower = 2, .upper = 1});
  model.AddColumn({.name = "x", .lower = nan});
  model.AddRow({.name = "objective", .lower = kUnlimited, .terms = {{1, 1}, {1, 2}, {7, 1}, {-1, 1}, {0, nan}}});
  model.AddRow({.name = "", .upper = nan, .terms = {}});
  const std::string faults(model.Validate().message());
  for (const char* part :
       {"column 0 (a b): the name must be", "column 0 (a b): the cost", "column 1 (x): the bounds are invalid",
        "column 2 (x): the name occurs twice", "column 2 (x): the bounds",
        "row 0 (objective): this name belongs to the cost row", "row 0 (objective): the bounds",
        "row 0 (objective): a column has two terms", "row 0 (objective): the column of a term is unknown",
        "row 0 (objective): a coefficient", "row 1 (): the name must be", "row 1 (): the bounds"}) {
    CAPTURE(part, faults);
    CHECK(faults.find(part) != std::string::npos);
  }
  for (int i = 0; i < 100; ++i) model.AddColumn({.name = ""});
  CHECK(std::string(model.Validate().message()).find("more") != std::string::npos);
  for (const auto& solver : Solvers()) {
    CHECK(solver->Solve(model).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(solver->Solve(Rounding(), {.seconds = nan}).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(solver->Solve(Rounding(), {.nodes = -1}).status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(solver->Solve(Rounding(), {.relative_gap = -1}).status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("violation returns the worst broken bound, row or integrality") {
  const MilpModel model = Rounding();
  CHECK(model.Violation(std::vector<double>{4}) == 0);
  CHECK(model.Violation(std::vector<double>{3.75}) == 0.25);
  CHECK(model.Violation(std::vector<double>{3}) == Approx(1.5 / 6));
  CHECK(model.Violation(std::vector<double>{-2}) == Approx(11.5 / 4));
  CHECK(model.Violation({}) == kUnlimited);
  CHECK(model.Violation(std::vector<double>{std::nan("")}) == kUnlimited);
}

TEST_CASE("solvers are found by name") {
  CHECK(MakeMilpSolver("simplex").status().code() == absl::StatusCode::kNotFound);
  bool any = false;
  for (const MilpSolverInfo& info : MilpSolverInfos()) {
    any |= info.built_in;
    const auto solver = MakeMilpSolver(info.name);
    CHECK(solver.ok() == info.built_in);
    if (!info.built_in) CHECK(solver.status().code() == absl::StatusCode::kUnimplemented);
    if (!info.built_in) CHECK(std::string(solver.status().message()).find("is not built in") != std::string::npos);
  }
  CHECK(MakeMilpSolver().ok() == any);
}

TEST_CASE("a solver prints nothing") {
  const Folder folder;
  const MilpModel hard = Hard(60);
  const auto solvers = Solvers();
  std::fflush(stdout);
  const int out = dup(1), err = dup(2);
  const int file = open((folder / "printed").c_str(), O_CREAT | O_WRONLY, 0600);
  dup2(file, 1), dup2(file, 2);
  MilpModel infeasible = Rounding();
  infeasible.columns[0].upper = 1;
  for (const auto& solver : solvers) {
    for (const MilpModel& model : {hard, infeasible, Rounding()}) {
      if (!solver->Solve(model, {.nodes = 100}).ok()) break;
    }
  }
  std::fflush(stdout);
  dup2(out, 1), dup2(err, 2);
  close(out), close(err), close(file);
  CHECK(ReadAll(folder / "printed").empty());
}

}  // namespace
}  // namespace takt
