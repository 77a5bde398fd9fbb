// The cluster as one integer program: against brute force, against the same problem in other words, and without a plan.
#include "takt/planning/cluster_milp.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "catch.h"
#include "fmt/format.h"
#include "planning/second_solver.h"
#include "scale.h"
#include "takt/base/random.h"

namespace takt {
namespace {

// Returns null with a warning if no solver is built in.
std::unique_ptr<const MilpSolver> Solver() {
  auto solver = MakeMilpSolver();
  if (!solver.ok()) WARN("skipped: " << solver.status().message());
  return solver.ok() ? *std::move(solver) : nullptr;
}

// Two models on two servers of 8 GPUs. The small one serves 10/s on a GPU, the large one 2/s on 4.
ClusterProblem Small() {
  ClusterProblem problem;
  problem.models = {{.name = "small"}, {.name = "large"}};
  problem.classes = {{.name = "H100", .price = 2.5, .servers = {{.servers = 2, .gpus = 8}}}};
  problem.types = {{.name = "small tp1", .model = 0, .tp = 1, .rate = 10},
                   {.name = "large tp4", .model = 1, .tp = 4, .rate = 2}};
  problem.routings = {{.name = "all large", .rates = {0, 6}, .quality = 95},
                      {.name = "half", .rates = {30, 3}, .quality = 85},
                      {.name = "all small", .rates = {30, 0}, .quality = 70}};
  return problem;
}

// Returns true if the tp groups, largest first, fit into the servers of their class. It tries everything.
bool Fits(std::vector<int>& groups, std::vector<int>& free, std::size_t next) {
  if (next == groups.size()) return true;
  for (std::size_t s = 0; s < free.size(); ++s) {
    if (free[s] < groups[next] || std::find(free.begin(), free.begin() + static_cast<std::ptrdiff_t>(s), free[s]) !=
                                      free.begin() + static_cast<std::ptrdiff_t>(s)) {
      continue;
    }
    free[s] -= groups[next];
    const bool fits = Fits(groups, free, next + 1);
    free[s] += groups[next];
    if (fits) return true;
  }
  return false;
}

bool Placeable(const ClusterProblem& problem, const std::vector<int>& replicas) {
  for (std::size_t k = 0; k < problem.classes.size(); ++k) {
    std::vector<int> groups, free;
    for (const GpuServers& s : problem.classes[k].servers) {
      free.insert(free.end(), static_cast<std::size_t>(s.servers), s.gpus);
    }
    for (std::size_t r = 0; r < problem.types.size(); ++r) {
      const ReplicaType& type = problem.types[r];
      if (type.gpu_class != static_cast<int>(k)) continue;
      groups.insert(groups.end(), static_cast<std::size_t>(replicas[r] * type.pp), type.tp);
    }
    std::sort(groups.rbegin(), groups.rend());
    if (!Fits(groups, free, 0)) return false;
  }
  return true;
}

// Tries every number of replicas and every routing. Returns infinity, or 0 for the largest throughput, without a plan.
double BruteForce(const ClusterProblem& problem) {
  const bool throughput = problem.goal == ClusterGoal::kMostThroughput;
  double best = throughput ? 0 : kUnlimited;
  std::vector<int> n(problem.types.size());
  const std::function<void(std::size_t)> visit = [&](std::size_t r) {
    if (r < n.size()) {
      const ReplicaType& type = problem.types[r];
      for (n[r] = 0; n[r] <= type.most; ++n[r]) {
        if (std::abs(n[r] - type.current) <= type.max_change) visit(r + 1);
      }
      n[r] = 0;
      return;
    }
    double cost = 0, moves = 0;
    std::vector<double> rate(problem.models.size());
    std::vector<int> replicas(problem.models.size());
    for (std::size_t i = 0; i < n.size(); ++i) {
      const ReplicaType& type = problem.types[i];
      cost += problem.classes[static_cast<std::size_t>(type.gpu_class)].price * type.tp * type.pp * n[i];
      moves += type.move_cost * std::abs(n[i] - type.current);
      rate[static_cast<std::size_t>(type.model)] += type.rate * n[i];
      replicas[static_cast<std::size_t>(type.model)] += n[i];
    }
    if (cost > problem.budget + 1e-9 || moves > problem.move_budget + 1e-9 || (!throughput && cost >= best)) return;
    double value = throughput ? 0 : kUnlimited;
    for (const RoutingChoice& routing : problem.routings) {
      if (routing.quality < problem.min_quality) continue;
      double factor = kUnlimited;
      for (std::size_t i = 0; i < rate.size(); ++i) {
        if (!(routing.rates[i] > 0)) continue;
        factor = replicas[i] < problem.models[i].min_replicas ? 0 : std::min(factor, rate[i] / routing.rates[i]);
      }
      if (throughput) value = std::max(value, factor);
      else if (factor >= 1 - 1e-9) value = cost;
    }
    if ((throughput ? value > best : value < best) && Placeable(problem, n)) best = value;
  };
  visit(0);
  return best;
}

ClusterProblem RandomProblem(Random& random, std::vector<int> sizes) {
  ClusterProblem problem;
  const std::size_t models = 1 + random.Below(2);
  const std::size_t classes = 1 + random.Below(2);
  for (std::size_t i = 0; i < models; ++i) {
    problem.models.push_back({.name = fmt::format("m{}", i), .min_replicas = random.Chance(0.3) ? 2 : 0});
  }
  for (std::size_t k = 0; k < classes; ++k) {
    GpuClass c{.name = fmt::format("k{}", k), .price = 1.0 + static_cast<double>(random.Below(5)), .servers = {}};
    c.servers.push_back(
        {.servers = 1 + static_cast<int>(random.Below(2)), .gpus = 4 + 4 * static_cast<int>(random.Below(2))});
    if (random.Chance(0.3)) c.servers.push_back({.servers = 1, .gpus = 1 + static_cast<int>(random.Below(8))});
    problem.classes.push_back(c);
  }
  const std::size_t types = 2 + random.Below(4);
  for (std::size_t r = 0; r < types; ++r) {
    ReplicaType type{.name = fmt::format("r{}", r), .model = static_cast<int>(random.Below(models))};
    type.gpu_class = static_cast<int>(random.Below(classes));
    type.tp = sizes[random.Below(sizes.size())];
    type.pp = random.Chance(0.2) ? 2 : 1;
    type.rate = static_cast<double>(1 + random.Below(8)) * type.tp * type.pp / 2;
    type.most = 1 + static_cast<int>(random.Below(4));
    type.current = static_cast<int>(random.Below(3));
    if (random.Chance(0.3)) type.max_change = static_cast<int>(random.Below(3));
    type.move_cost = static_cast<double>(random.Below(3));
    problem.types.push_back(type);
  }
  const std::size_t routings = 1 + random.Below(3);
  for (std::size_t j = 0; j < routings; ++j) {
    RoutingChoice routing{.name = fmt::format("j{}", j), .rates = {}, .quality = static_cast<double>(random.Below(10))};
    for (std::size_t i = 0; i < models; ++i) routing.rates.push_back(static_cast<double>(random.Below(30)) / 2);
    routing.rates[0] += 0.5;
    problem.routings.push_back(routing);
  }
  if (random.Chance(0.3)) problem.budget = static_cast<double>(5 + random.Below(40));
  if (random.Chance(0.3)) problem.move_budget = static_cast<double>(random.Below(8));
  if (random.Chance(0.5)) problem.min_quality = static_cast<double>(random.Below(8));
  if (random.Chance(0.4)) problem.goal = ClusterGoal::kMostThroughput;
  return problem;
}

TEST_CASE("the plan has the cheapest replicas for the promised quality") {
  const auto solver = Solver();
  if (!solver) return;
  ClusterProblem problem = Small();
  problem.min_quality = 80;
  const auto plan = PlanCluster(problem, *solver);
  REQUIRE(plan.ok());
  CHECK(plan->status == MilpStatus::kOptimal);
  CHECK(plan->replicas == std::vector<int>{3, 2});
  CHECK(plan->routing == std::vector<double>{0, 1, 0});
  CHECK(plan->cost == Approx(11 * 2.5));
  CHECK(plan->bound == Approx(plan->cost));
  CHECK(plan->quality == 85);
  CHECK(plan->factor == Approx(1));
  CHECK(CheckClusterPlan(problem, *plan).ok());
  // Large groups first, first fit: server 0 is full.
  CHECK(plan->groups == std::vector<PlacedGroup>{{1, 0, 0, 0}, {1, 1, 0, 0}, {0, 0, 0, 1}, {0, 1, 0, 1}, {0, 2, 0, 1}});

  problem.mixed = true;  // a third of the requests go to the large model, as many as one replica sustains
  problem.min_quality = 75;
  const auto mixed = PlanCluster(problem, *solver);
  REQUIRE(mixed.ok());
  CHECK(mixed->replicas == std::vector<int>{2, 1});
  CHECK(mixed->quality >= 75 - 1e-6);
  CHECK(CheckClusterPlan(problem, *mixed).ok());
}

TEST_CASE("the plan has the largest factor on the rates") {
  const auto solver = Solver();
  if (!solver) return;
  ClusterProblem problem = Small();
  problem.goal = ClusterGoal::kMostThroughput;
  problem.min_quality = 80;
  const auto plan = PlanCluster(problem, *solver);
  REQUIRE(plan.ok());
  // half: 8 small ones (80/s of 30) and 2 large ones (4/s of 3) sustain 4/3; 4 and 3 sustain 4/3 and 2.
  CHECK(plan->factor == Approx(4.0 / 3));
  CHECK(plan->objective == Approx(plan->factor));
  CHECK(plan->bound >= plan->factor);
  CHECK(CheckClusterPlan(problem, *plan).ok());
  problem.mixed = true;
  const auto mixed = PlanCluster(problem, *solver);
  REQUIRE(mixed.ok());
  CHECK(mixed->factor > plan->factor + 0.1);
  CHECK(mixed->quality >= 80 - 1e-6);
  CHECK(CheckClusterPlan(problem, *mixed).ok());
}

TEST_CASE("small problems agree with brute force over replicas") {
  const auto solver = Solver();
  if (!solver) return;
  Random random(4);
  int feasible = 0;
  for (std::int64_t i = 0; i < Scaled(300); ++i) {
    CAPTURE(i);
    const ClusterProblem problem = RandomProblem(random, i % 2 == 0 ? std::vector{1, 2, 4} : std::vector{1, 2, 3, 5});
    const double expected = BruteForce(problem);
    const auto plan = PlanCluster(problem, *solver);
    REQUIRE(plan.ok());
    const bool none = problem.goal == ClusterGoal::kMostThroughput ? expected == 0 : expected == kUnlimited;
    INFO(Describe(plan->shortages));
    REQUIRE(plan->status == (none ? MilpStatus::kInfeasible : MilpStatus::kOptimal));
    CHECK(plan->shortages.empty() != none);
    if (none) continue;
    ++feasible;
    CHECK(plan->objective == Approx(expected));
    CHECK(CheckClusterPlan(problem, *plan) == absl::OkStatus());
    ClusterProblem loose = problem;
    loose.mixed = true;
    const auto mixed = PlanCluster(loose, *solver);
    REQUIRE(mixed.ok());
    REQUIRE(mixed->status == MilpStatus::kOptimal);
    CHECK(CheckClusterPlan(loose, *mixed) == absl::OkStatus());
    if (problem.goal == ClusterGoal::kLeastCost) CHECK(mixed->cost <= plan->cost + 1e-6);
    else CHECK(mixed->factor >= plan->factor - 1e-6);
  }
  CHECK(feasible > Scaled(300) / 4);
}

TEST_CASE("powers of two need no patterns") {
  const auto solver = Solver();
  if (!solver) return;
  Random random(5);
  for (std::int64_t i = 0; i < Scaled(200); ++i) {
    CAPTURE(i);
    ClusterProblem problem = RandomProblem(random, {1, 2, 4});
    for (GpuClass& c : problem.classes) c.servers = {{.servers = 1 + static_cast<int>(random.Below(3)), .gpus = 8}};
    const auto counted = PlanCluster(problem, *solver);
    const auto patterned = PlanCluster(problem, *solver, {}, ServerModel::kPatterns);
    REQUIRE(counted.ok());
    REQUIRE(patterned.ok());
    REQUIRE(counted->status == patterned->status);
    CHECK(counted->objective == Approx(patterned->objective));
    CHECK(MakeClusterModel(problem)->columns.size() <
          MakeClusterModel(problem, ServerModel::kPatterns)->columns.size());
    if (counted->status != MilpStatus::kOptimal) continue;
    CHECK(CheckClusterPlan(problem, *counted) == absl::OkStatus());
    CHECK(CheckClusterPlan(problem, *patterned) == absl::OkStatus());
  }
}

TEST_CASE("groups of 3 leave holes in servers of 8") {
  const auto solver = Solver();
  if (!solver) return;
  ClusterProblem problem = Small();
  problem.types[1].tp = 3;
  problem.routings = {{.name = "large", .rates = {0, 8}, .quality = 95}};
  const auto four = PlanCluster(problem, *solver);
  REQUIRE(four.ok());
  CHECK(four->replicas == std::vector<int>{0, 4});
  CHECK(CheckClusterPlan(problem, *four) == absl::OkStatus());
  problem.routings[0].rates[1] = 9;  // five groups have 15 GPUs, but 16 GPUs have no room for them
  const auto five = PlanCluster(problem, *solver);
  REQUIRE(five.ok());
  CHECK(five->status == MilpStatus::kInfeasible);
  REQUIRE(five->shortages.size() >= 2);
  CHECK(Describe(five->shortages).find("GPUs of H100: 8 more would do\n") != std::string::npos);
  CHECK(Describe(five->shortages).find("rates of large: 1 requests/s less would do\n") != std::string::npos);
}

TEST_CASE("a partly occupied server takes groups in its free GPUs") {
  const auto solver = Solver();
  if (!solver) return;
  ClusterProblem problem = Small();
  problem.classes[0].servers = {{.servers = 1, .gpus = 6}, {.servers = 1, .gpus = 3}};
  problem.routings = {{.name = "both", .rates = {40, 2}, .quality = 80}};
  const auto plan = PlanCluster(problem, *solver);
  REQUIRE(plan.ok());
  CHECK(plan->replicas == std::vector<int>{4, 1});
  CHECK(CheckClusterPlan(problem, *plan) == absl::OkStatus());
  problem.routings[0].rates = {0, 4};  // 9 GPUs, but two groups of 4 do not fit in 6 and 3
  CHECK(PlanCluster(problem, *solver)->status == MilpStatus::kInfeasible);
}

TEST_CASE("without a plan, the answer names the limit and the shortage") {
  const auto solver = Solver();
  if (!solver) return;
  const auto why = [&](const ClusterProblem& problem) {
    const auto plan = PlanCluster(problem, *solver);
    REQUIRE(plan.ok());
    CHECK(plan->status == MilpStatus::kInfeasible);
    CHECK(plan->replicas.empty());
    CHECK_FALSE(CheckClusterPlan(problem, *plan).ok());
    return Describe(plan->shortages);
  };
  ClusterProblem problem = Small();
  problem.min_quality = 97;
  CHECK(why(problem) == "quality: a floor 2 lower would do\n");

  problem.min_quality = 90;
  problem.routings[0].rates = {0, 11};
  CHECK(why(problem) ==
        "rates of large: 3 requests/s less would do\nGPUs of H100: 8 more would do\n"
        "quality: a floor 5 lower would do\n");

  problem = Small();
  problem.min_quality = 80;
  problem.budget = 20;
  CHECK(why(problem) ==
        "rates of large: 1 requests/s less would do\nbudget: 7.5 more per hour would do\n"
        "quality: a floor 10 lower would do\n");

  problem = Small();
  problem.min_quality = 80;
  problem.types[1].most = 1;
  problem.models[1].min_replicas = 2;
  CHECK(why(problem).find("replicas of large tp4: 1 more allowed would do\n") != std::string::npos);
  problem.types[1].rate = 3;
  CHECK(why(problem).find("availability of large: a requirement of 1 fewer replicas would do\n") != std::string::npos);

  problem = Small();
  problem.min_quality = 80;
  problem.types[0].current = 8;
  problem.types[0].max_change = 2;
  problem.types[1].max_change = 1;
  CHECK(why(problem).find("moves of large tp4: 1 more changes of replicas would do\n") != std::string::npos);
  problem.types[0].max_change = problem.types[1].max_change = kNoLimit;
  problem.types[1].move_cost = 3;
  problem.move_budget = 5;
  CHECK(why(problem).find("moves: 1 more of the move budget would do\n") != std::string::npos);

  problem = Small();  // a model that fits on no GPU, and a quality out of reach: both prevent a plan
  problem.types.pop_back();
  problem.min_quality = 97;
  problem.routings.pop_back();
  CHECK(why(problem) ==
        "rates of large: 3 requests/s less together with the other changes\n"
        "quality: a floor 12 lower together with the other changes\n");

  problem.goal = ClusterGoal::kMostThroughput;
  CHECK(why(problem).find("rates of large") == 0);
}

TEST_CASE("a limit returns the best plan found and its bound, marked") {
  const auto solver = Solver();
  if (!solver) return;
  ClusterProblem problem;
  Random random(6);
  for (int i = 0; i < 4; ++i) problem.models.push_back({.name = fmt::format("m{}", i), .min_replicas = 2});
  for (int k = 0; k < 4; ++k) {
    problem.classes.push_back({.name = fmt::format("k{}", k), .price = 1 + random.Uniform(), .servers = {{16, 8}}});
    for (int i = 0; i < 4; ++i) {
      for (const int tp : {1, 2, 3, 5}) {
        problem.types.push_back({.name = fmt::format("m{} k{} tp{}", i, k, tp),
                                 .model = i,
                                 .gpu_class = k,
                                 .tp = tp,
                                 .rate = tp * (1 + random.Uniform())});
      }
    }
  }
  for (int j = 0; j < 100; ++j) {
    RoutingChoice routing{.name = fmt::format("j{}", j), .rates = {}, .quality = 50 + 0.5 * j};
    for (int i = 0; i < 4; ++i) routing.rates.push_back(20 + j * random.Uniform());
    problem.routings.push_back(routing);
  }
  problem.min_quality = 80;
  const auto plan = PlanCluster(problem, *solver, {.nodes = 3});
  REQUIRE(plan.ok());
  REQUIRE(plan->status == MilpStatus::kLimit);
  if (!plan->replicas.empty()) {
    CHECK(CheckClusterPlan(problem, *plan) == absl::OkStatus());
    CHECK(plan->bound < plan->cost);
  }
  const auto longer = PlanCluster(problem, *solver, {.nodes = 3000});
  REQUIRE(longer.ok());
  REQUIRE_FALSE(longer->replicas.empty());
  CHECK(CheckClusterPlan(problem, *longer) == absl::OkStatus());
  CHECK(longer->cost >= plan->bound - 1e-6);
  if (!plan->replicas.empty()) CHECK(longer->cost <= plan->cost + 1e-6);
}

TEST_CASE("a second solver finds a cluster's optimum from its MPS") {
  const auto solver = Solver();
  if (!solver) return;
  if (!HasGlpsol()) {
    WARN("skipped: no glpsol");
    return;
  }
  Random random(7);
  for (std::int64_t i = 0; i < Scaled(40); ++i) {
    CAPTURE(i);
    const auto model = MakeClusterModel(RandomProblem(random, {1, 2, 3, 4}));
    REQUIRE(model.ok());
    const auto first = solver->Solve(*model);
    REQUIRE(first.ok());
    const auto second = Glpsol(ToFreeMps(*model));
    REQUIRE(second);
    CHECK(first->objective == Approx(*second).margin(1e-6));
  }
}

TEST_CASE("an invalid problem is refused with all its faults") {
  ClusterProblem problem = Small();
  problem.classes[0].price = std::nan("");
  problem.classes[0].servers[0].gpus = 0;
  problem.types[0].model = 7;
  problem.types[1].rate = -1;
  problem.types[1].tp = 0;
  problem.routings[0].rates = {1};
  problem.routings[1].rates[0] = std::nan("");
  problem.routings[2].quality = std::nan("");
  problem.budget = std::nan("");
  problem.min_quality = kUnlimited;
  const std::string faults(problem.Validate().message());
  for (const char* part : {"H100: the price", "H100: servers", "small tp1: the model is unknown", "large tp4: the rate",
                           "large tp4: tp and pp", "all large: rates must have one entry per model", "half: rates",
                           "all small: the quality", "min_quality", "budget"}) {
    CAPTURE(part, faults);
    CHECK(faults.find(part) != std::string::npos);
  }
  CHECK_FALSE(ClusterProblem{}.Validate().ok());
  problem = Small();
  problem.goal = ClusterGoal::kMostThroughput;
  problem.routings[0].rates = {0, 0};
  CHECK_FALSE(problem.Validate().ok());
  problem = Small();
  problem.classes[0].servers = {{.servers = 1, .gpus = 200}};
  for (int tp = 3; tp < 20; ++tp) {
    problem.types.push_back({.name = fmt::format("tp{}", tp), .model = 1, .tp = tp, .rate = 1});
  }
  CHECK(std::string(MakeClusterModel(problem).status().message()) ==
        "H100: too many ways to fill a server; expected at most 20000");
}

// ---- the inner problem ----------------------------------------------------------------------------------------

// The least maximum latency over every allocation.
double LeastOf(const LatencyTable& table, GpuUse use, std::size_t model = 0, std::int32_t used = 0) {
  if (model == table.models()) {
    const bool allowed = use == GpuUse::kAtMost || used == table.gpus();
    return allowed ? 0 : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  for (std::int32_t f = 0; used + f <= table.gpus(); ++f) {
    best = std::min(best, std::max(table.at(model, f), LeastOf(table, use, model + 1, used + f)));
  }
  return best;
}

TEST_CASE("threshold search, dynamic program, brute force and solver agree") {
  const auto solver = Solver();
  Random random(8);
  int feasible = 0;
  const std::int64_t instances = Scaled(1000);
  for (std::int64_t i = 0; i < instances; ++i) {
    CAPTURE(i);
    const std::size_t models = 1 + random.Below(4);
    const auto gpus = static_cast<std::int32_t>(random.Below(models < 4 ? 13 : 9));
    LatencyTable table(models, gpus);
    for (std::size_t m = 0; m < models; ++m) {
      const auto least = static_cast<std::int32_t>(random.Below(4));  // fewer GPUs do not hold the model
      const double at_one = 1 + 20 * random.Uniform();
      for (std::int32_t f = least; f <= gpus; ++f) {
        // Mostly falls with more GPUs.
        table.Set(m, f, at_one / std::max(1, f) * (0.8 + 0.4 * random.Uniform()));
      }
    }
    for (const GpuUse use : {GpuUse::kAtMost, GpuUse::kExactly}) {
      const double expected = LeastOf(table, use);
      std::vector<std::int32_t> given(models);
      CHECK(MinMaxDp().Solve(table, given, use) == expected);
      if (use == GpuUse::kAtMost) CHECK(ThresholdSearch().Solve(table, given) == expected);
      if (!solver) continue;
      const auto solved = solver->Solve(MakeMinMaxModel(table, use), {.relative_gap = 1e-9});
      REQUIRE(solved.ok());
      CHECK((solved->status == MilpStatus::kOptimal) == std::isfinite(expected));
      if (!std::isfinite(expected)) continue;
      CHECK(solved->objective == Approx(expected).epsilon(1e-6));
      feasible += use == GpuUse::kAtMost ? 1 : 0;
    }
  }
  if (solver) CHECK(feasible > instances / 2);
}

}  // namespace
}  // namespace takt
