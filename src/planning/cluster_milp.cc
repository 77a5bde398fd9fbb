#include "takt/planning/cluster_milp.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "takt/base/faults.h"

namespace takt {
namespace {

constexpr std::size_t kMostPatterns = 20'000;
constexpr double kTolerance = 1e-6;

std::size_t At(int i) { return static_cast<std::size_t>(i); }

// ---- servers --------------------------------------------------------------------------------------------------

// Returns the tp sizes of a class, ascending.
std::vector<int> SizesOn(const ClusterProblem& problem, int gpu_class) {
  std::set<int> sizes;
  for (const ReplicaType& r : problem.types) {
    if (r.gpu_class == gpu_class) sizes.insert(r.tp);
  }
  return {sizes.begin(), sizes.end()};
}

bool CountingIsExact(const std::vector<int>& sizes, const GpuClass& gpu_class) {
  if (sizes.empty()) return true;
  const auto power_of_two = [](int size) { return std::has_single_bit(static_cast<unsigned>(size)); };
  const auto fits = [&](const GpuServers& s) { return s.gpus % sizes.back() == 0; };
  return std::ranges::all_of(sizes, power_of_two) && std::ranges::all_of(gpu_class.servers, fits);
}

using Pattern = std::vector<int>;  // groups of each size

// Adds all patterns that have no room for another group, with sizes ascending. Adds none if no size fits.
void AddPatterns(const std::vector<int>& sizes, std::size_t from, int free, Pattern& made, std::vector<Pattern>& all) {
  if (all.size() > kMostPatterns) return;
  if (from == 0) {
    // The smallest size fills the rest.
    made[0] = free / sizes[0];
    if (std::ranges::any_of(made, [](int n) { return n > 0; })) all.push_back(made);
    return;
  }
  for (int n = free / sizes[from]; n >= 0; --n) {
    made[from] = n;
    AddPatterns(sizes, from - 1, free - n * sizes[from], made, all);
  }
}

std::vector<Pattern> PatternsOf(const std::vector<int>& sizes, int gpus) {
  std::vector<Pattern> all;
  if (sizes.empty()) return all;
  Pattern made(sizes.size());
  AddPatterns(sizes, sizes.size() - 1, gpus, made, all);
  return all;
}

int GpusOf(const GpuClass& gpu_class) {
  int gpus = 0;
  for (const GpuServers& s : gpu_class.servers) gpus += s.servers * s.gpus;
  return gpus;
}

double PriceOf(const ClusterProblem& problem, const ReplicaType& r) {
  return problem.classes[At(r.gpu_class)].price * r.tp * r.pp;
}

// ---- the model ------------------------------------------------------------------------------------------------

constexpr int kNone = -1;

// Meaning of the model's columns.
struct Columns {
  struct Servers {
    int column = 0;
    int gpu_class = 0;
    int group = 0;
    Pattern pattern = {};
  };
  struct Slack {
    ClusterLimit limit;
    std::string name;
    int column = 0;
    double unit = 1;  // amount missing per unit of the column
  };
  std::vector<int> replicas;  // by type
  std::vector<int> routing;  // by routing: column of its share, or of its factor in a mixture; kNone: dominated
  std::vector<int> factor;  // by routing, at maximum throughput
  std::vector<Servers> servers;
  std::vector<Slack> slacks;
};

// Finds the routings that no other dominates. A dominating routing has no higher rate for any model and, if quality
// counts, no lower quality.
std::vector<bool> Unbeaten(const ClusterProblem& problem, bool quality_is_loose) {
  const std::vector<RoutingChoice>& all = problem.routings;
  const bool has_floor = problem.min_quality > -kUnlimited;
  const bool counts = has_floor && (problem.mixed || quality_is_loose);
  std::vector<std::size_t> order;  // only earlier ones can dominate; ties have the best quality first
  for (std::size_t j = 0; j < all.size(); ++j) {
    if (counts || !has_floor || all[j].quality >= problem.min_quality) order.push_back(j);
  }
  const auto key = [&](std::size_t j) {
    double sum = 0;
    for (const double rate : all[j].rates) sum += rate;
    return std::pair(sum, -all[j].quality);
  };
  std::ranges::stable_sort(order, {}, key);
  std::vector<std::size_t> kept;
  std::vector<bool> unbeaten(all.size());
  for (const std::size_t j : order) {
    const bool beaten = std::ranges::any_of(kept, [&](std::size_t k) {
      return (!counts || all[k].quality >= all[j].quality) &&
             std::ranges::equal(all[k].rates, all[j].rates, std::less_equal<>());
    });
    if (!beaten) kept.push_back(j), unbeaten[j] = true;
  }
  return unbeaten;
}

class Builder {
 public:
  // `loose`: limits that may be violated at a cost. The model then minimises only this cost.
  Builder(const ClusterProblem& problem, ServerModel servers, std::vector<ClusterLimit> loose)
      : problem_(problem),
        servers_(servers),
        loose_(std::move(loose)),
        unbeaten_(Unbeaten(problem, std::ranges::find(loose_, ClusterLimit::kQuality) != loose_.end())) {}

  absl::Status Build() {
    AddReplicas();
    AddRoutings();
    AddRates();
    AddMoves();
    AddMoney();
    for (int k = 0; k < static_cast<int>(problem_.classes.size()); ++k) {
      if (absl::Status status = AddServers(k); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  MilpModel model;
  Columns columns;

 private:
  bool elastic() const { return !loose_.empty(); }
  bool most_throughput() const { return problem_.goal == ClusterGoal::kMostThroughput; }
  bool shares_are_factors() const { return most_throughput() && problem_.mixed; }

  // Adds a term that allows a violation of `row` if `limit` is loose. `scale` weighs several limits against each other.
  void Loosen(MilpRow& row, ClusterLimit limit, std::string name, double per_unit, double scale, bool whole = false) {
    if (std::ranges::find(loose_, limit) == loose_.end()) return;
    const double unit = std::abs(per_unit);
    const double weight = loose_.size() > 1 ? unit / std::max(1.0, std::abs(scale)) : unit;
    const int column =
        model.AddColumn({.name = fmt::format("s_{}", columns.slacks.size()), .cost = weight, .integer = whole});
    row.terms.push_back({column, per_unit});
    columns.slacks.push_back({limit, std::move(name), column, unit});
  }

  // Returns the most replicas of a type that its class can hold.
  int Most(const ReplicaType& r) const {
    const bool more_gpus = std::ranges::find(loose_, ClusterLimit::kGpus) != loose_.end();
    const int held = more_gpus ? 1'000'000 : GpusOf(problem_.classes[At(r.gpu_class)]) / (r.tp * r.pp);
    return std::ranges::find(loose_, ClusterLimit::kReplicas) != loose_.end() ? held : std::min(held, r.most);
  }

  void AddReplicas() {
    for (std::size_t r = 0; r < problem_.types.size(); ++r) {
      const ReplicaType& type = problem_.types[r];
      const bool costs = !elastic() && !most_throughput();
      columns.replicas.push_back(model.AddColumn({.name = fmt::format("n_{}", r),
                                                  .cost = costs ? PriceOf(problem_, type) : 0,
                                                  .upper = static_cast<double>(Most(type)),
                                                  .integer = true}));
      if (std::ranges::find(loose_, ClusterLimit::kReplicas) == loose_.end() || type.most == kNoLimit) continue;
      MilpRow row{.name = fmt::format("most_{}", r), .upper = static_cast<double>(type.most)};
      row.terms.push_back({columns.replicas[r], 1});
      Loosen(row, ClusterLimit::kReplicas, type.name, -1, type.most, true);
      model.AddRow(std::move(row));
    }
  }

  // Returns an upper bound on the factor of a routing.
  double FactorBound(const RoutingChoice& routing) const {
    double bound = kUnlimited;
    for (std::size_t i = 0; i < problem_.models.size(); ++i) {
      if (!(routing.rates[i] > 0)) continue;
      double rate = 0;
      for (std::size_t k = 0; k < problem_.classes.size(); ++k) {
        double per_gpu = 0;
        for (const ReplicaType& r : problem_.types) {
          if (r.model == static_cast<int>(i) && r.gpu_class == static_cast<int>(k)) {
            per_gpu = std::max(per_gpu, r.rate / (r.tp * r.pp));
          }
        }
        rate += per_gpu * GpusOf(problem_.classes[k]);
      }
      bound = std::min(bound, rate / routing.rates[i]);
    }
    return bound;
  }

  void AddRoutings() {
    MilpRow one{.name = "one_routing", .lower = 1, .upper = 1};
    const bool demands = problem_.min_quality > -kUnlimited;
    MilpRow quality{.name = "quality", .lower = shares_are_factors() ? 0 : problem_.min_quality};
    for (std::size_t j = 0; j < problem_.routings.size(); ++j) {
      const RoutingChoice& routing = problem_.routings[j];
      if (!unbeaten_[j]) {
        columns.routing.push_back(kNone);
        columns.factor.push_back(kNone);
        continue;
      }
      const double bound = most_throughput() ? FactorBound(routing) : 1;
      if (shares_are_factors()) {
        const int a = model.AddColumn({.name = fmt::format("a_{}", j), .cost = -1, .upper = bound});
        columns.routing.push_back(a);
        columns.factor.push_back(a);
        if (demands) quality.terms.push_back({a, routing.quality - problem_.min_quality});
        continue;
      }
      const int z = model.AddColumn({.name = fmt::format("z_{}", j), .upper = 1, .integer = !problem_.mixed});
      columns.routing.push_back(z);
      one.terms.push_back({z, 1});
      if (demands) quality.terms.push_back({z, routing.quality});
      columns.factor.push_back(kNone);
      if (!most_throughput()) continue;
      const int a = model.AddColumn({.name = fmt::format("a_{}", j), .cost = -1, .upper = bound});
      columns.factor.back() = a;
      model.AddRow({.name = fmt::format("factor_{}", j), .upper = 0, .terms = {{a, 1}, {z, -bound}}});
    }
    if (!shares_are_factors()) model.AddRow(std::move(one));
    if (!demands) return;
    Loosen(quality, ClusterLimit::kQuality, "", 1, problem_.min_quality);
    model.AddRow(std::move(quality));
  }

  void AddRates() {
    for (std::size_t i = 0; i < problem_.models.size(); ++i) {
      const ModelDemand& served = problem_.models[i];
      MilpRow rate{.name = fmt::format("rate_{}", i), .lower = 0};
      MilpRow replicas{.name = fmt::format("replicas_{}", i), .lower = 0};
      for (std::size_t r = 0; r < problem_.types.size(); ++r) {
        if (problem_.types[r].model != static_cast<int>(i)) continue;
        rate.terms.push_back({columns.replicas[r], problem_.types[r].rate});
        replicas.terms.push_back({columns.replicas[r], 1});
      }
      MilpRow reached{.name = fmt::format("reached_{}", i), .upper = 0};
      double most = 0;
      for (std::size_t j = 0; j < problem_.routings.size(); ++j) {
        const double lambda = problem_.routings[j].rates[i];
        if (!(lambda > 0) || columns.routing[j] == kNone) continue;
        most = std::max(most, lambda);
        rate.terms.push_back({most_throughput() ? columns.factor[j] : columns.routing[j], -lambda});
        reached.terms.push_back({columns.routing[j], 1});
      }
      if (!(most > 0)) continue;
      Loosen(rate, ClusterLimit::kRates, served.name, 1, most);
      model.AddRow(std::move(rate));
      if (served.min_replicas == 0) continue;
      const double reach = ReachBound(i);
      const int used = model.AddColumn({.name = fmt::format("u_{}", i), .upper = 1, .integer = true});
      reached.terms.push_back({used, -reach});
      replicas.terms.push_back({used, -static_cast<double>(served.min_replicas)});
      Loosen(replicas, ClusterLimit::kAvailability, served.name, 1, served.min_replicas, true);
      model.AddRow(std::move(reached));
      model.AddRow(std::move(replicas));
    }
  }

  // Returns an upper bound on the sum of the routing columns that reach a model.
  double ReachBound(std::size_t model_index) const {
    if (!shares_are_factors()) return 1;
    double sum = 0;
    for (std::size_t j = 0; j < problem_.routings.size(); ++j) {
      if (problem_.routings[j].rates[model_index] > 0 && columns.routing[j] != kNone)
        sum += model.columns[At(columns.routing[j])].upper;
    }
    return sum;
  }

  void AddMoves() {
    MilpRow moves{.name = "moves", .upper = problem_.move_budget};
    for (std::size_t r = 0; r < problem_.types.size(); ++r) {
      const ReplicaType& type = problem_.types[r];
      const bool pays = type.move_cost > 0 && problem_.move_budget < kUnlimited;
      if (type.max_change == kNoLimit && !pays) continue;
      const int up = model.AddColumn({.name = fmt::format("up_{}", r)});
      const int down = model.AddColumn({.name = fmt::format("down_{}", r)});
      model.AddRow({.name = fmt::format("change_{}", r),
                    .lower = static_cast<double>(type.current),
                    .upper = static_cast<double>(type.current),
                    .terms = {{columns.replicas[r], 1}, {up, -1}, {down, 1}}});
      if (pays) moves.terms.insert(moves.terms.end(), {{up, type.move_cost}, {down, type.move_cost}});
      if (type.max_change == kNoLimit) continue;
      MilpRow most{.name = fmt::format("max_change_{}", r), .upper = static_cast<double>(type.max_change)};
      most.terms = {{up, 1}, {down, 1}};
      Loosen(most, ClusterLimit::kMoves, type.name, -1, type.max_change, true);
      model.AddRow(std::move(most));
    }
    if (moves.terms.empty()) return;
    Loosen(moves, ClusterLimit::kMoves, "", -1, problem_.move_budget);
    model.AddRow(std::move(moves));
  }

  void AddMoney() {
    if (problem_.budget == kUnlimited) return;
    MilpRow budget{.name = "budget", .upper = problem_.budget};
    for (std::size_t r = 0; r < problem_.types.size(); ++r) {
      const double price = PriceOf(problem_, problem_.types[r]);
      if (price != 0) budget.terms.push_back({columns.replicas[r], price});
    }
    Loosen(budget, ClusterLimit::kBudget, "", -1, problem_.budget);
    model.AddRow(std::move(budget));
  }

  absl::Status AddServers(int k) {
    const GpuClass& gpu_class = problem_.classes[At(k)];
    const std::vector<int> sizes = SizesOn(problem_, k);
    if (sizes.empty()) return absl::OkStatus();
    if (servers_ == ServerModel::kAuto && CountingIsExact(sizes, gpu_class)) {
      MilpRow gpus{.name = fmt::format("gpus_{}", k), .upper = static_cast<double>(GpusOf(gpu_class))};
      for (std::size_t r = 0; r < problem_.types.size(); ++r) {
        const ReplicaType& type = problem_.types[r];
        if (type.gpu_class == k) gpus.terms.push_back({columns.replicas[r], static_cast<double>(type.tp * type.pp)});
      }
      Loosen(gpus, ClusterLimit::kGpus, gpu_class.name, -1, GpusOf(gpu_class), true);
      model.AddRow(std::move(gpus));
      return absl::OkStatus();
    }
    std::vector<MilpRow> held;  // by size: its groups minus the places in patterns
    for (const int size : sizes) held.push_back({.name = fmt::format("groups_{}_{}", k, size), .upper = 0});
    for (std::size_t r = 0; r < problem_.types.size(); ++r) {
      const ReplicaType& type = problem_.types[r];
      if (type.gpu_class != k) continue;
      const auto at = std::ranges::lower_bound(sizes, type.tp) - sizes.begin();
      held[static_cast<std::size_t>(at)].terms.push_back({columns.replicas[r], static_cast<double>(type.pp)});
    }
    for (std::size_t g = 0; g < gpu_class.servers.size(); ++g) {
      const GpuServers& group = gpu_class.servers[g];
      MilpRow servers{.name = fmt::format("servers_{}_{}", k, g), .upper = static_cast<double>(group.servers)};
      for (Pattern& pattern : PatternsOf(sizes, group.gpus)) {
        if (columns.servers.size() >= kMostPatterns) {
          return absl::InvalidArgumentError(
              fmt::format("{}: too many ways to fill a server; expected at most {}", gpu_class.name, kMostPatterns));
        }
        const int y =
            model.AddColumn({.name = fmt::format("y_{}_{}_{}", k, g, columns.servers.size()), .integer = true});
        servers.terms.push_back({y, 1});
        for (std::size_t s = 0; s < sizes.size(); ++s) {
          if (pattern[s] > 0) held[s].terms.push_back({y, -static_cast<double>(pattern[s])});
        }
        columns.servers.push_back({y, k, static_cast<int>(g), std::move(pattern)});
      }
      if (servers.terms.empty()) continue;
      Loosen(servers, ClusterLimit::kGpus, gpu_class.name, -1, group.servers, true);
      if (!columns.slacks.empty() && columns.slacks.back().column == servers.terms.back().column) {
        columns.slacks.back().unit = group.gpus;  // whole servers
        model.columns[At(servers.terms.back().column)].cost *= group.gpus;
      }
      model.AddRow(std::move(servers));
    }
    for (MilpRow& row : held) model.AddRow(std::move(row));
    return absl::OkStatus();
  }

  const ClusterProblem& problem_;
  ServerModel servers_;
  std::vector<ClusterLimit> loose_;
  std::vector<bool> unbeaten_;
};

// ---- from columns to a plan -----------------------------------------------------------------------------------

double RateOf(const ClusterProblem& problem, const ClusterPlan& plan, std::size_t model) {
  double rate = 0;
  for (std::size_t j = 0; j < problem.routings.size(); ++j) {
    rate += plan.routing[j] * problem.routings[j].rates[model];
  }
  return rate;
}

double SustainedBy(const ClusterProblem& problem, const ClusterPlan& plan, std::size_t model) {
  double rate = 0;
  for (std::size_t r = 0; r < problem.types.size(); ++r) {
    if (problem.types[r].model == static_cast<int>(model)) rate += problem.types[r].rate * plan.replicas[r];
  }
  return rate;
}

// Places of a server, one per tp group. Servers without a pattern are filled by first fit.
struct Server {
  int gpu_class = 0;
  int free = 0;
  Pattern places = {};  // by size of its class; empty: no pattern
};

std::vector<Server> ServersOf(const ClusterProblem& problem, const Columns& columns, const MilpSolution& solution) {
  std::vector<Server> servers;
  for (std::size_t k = 0; k < problem.classes.size(); ++k) {
    for (std::size_t g = 0; g < problem.classes[k].servers.size(); ++g) {
      const GpuServers& group = problem.classes[k].servers[g];
      std::vector<Pattern> given;
      for (const Columns::Servers& s : columns.servers) {
        if (s.gpu_class != static_cast<int>(k) || s.group != static_cast<int>(g)) continue;
        const auto times = static_cast<std::size_t>(std::lround(solution.values[At(s.column)]));
        given.insert(given.end(), times, s.pattern);
      }
      given.resize(At(group.servers));
      for (Pattern& places : given) servers.push_back({static_cast<int>(k), group.gpus, std::move(places)});
    }
  }
  return servers;
}

// Returns false if there is no place.
bool Put(int tp, const std::vector<int>& sizes, Server& server) {
  if (server.free < tp) return false;
  if (!server.places.empty()) {
    int& places = server.places[static_cast<std::size_t>(std::ranges::lower_bound(sizes, tp) - sizes.begin())];
    if (places == 0) return false;
    --places;
  }
  server.free -= tp;
  return true;
}

void PlaceGroups(const ClusterProblem& problem, std::vector<Server> servers, ClusterPlan& plan) {
  std::vector<int> order;  // larger groups first
  for (std::size_t r = 0; r < problem.types.size(); ++r) order.push_back(static_cast<int>(r));
  std::ranges::stable_sort(order, [&](int a, int b) { return problem.types[At(a)].tp > problem.types[At(b)].tp; });
  for (const int r : order) {
    const ReplicaType& type = problem.types[At(r)];
    const std::vector<int> sizes = SizesOn(problem, type.gpu_class);
    for (int replica = 0; replica < plan.replicas[At(r)]; ++replica) {
      for (int stage = 0; stage < type.pp; ++stage) {
        const auto at = std::ranges::find_if(
            servers, [&](Server& server) { return server.gpu_class == type.gpu_class && Put(type.tp, sizes, server); });
        if (at == servers.end()) return;  // the model excludes this, and CheckClusterPlan would report it
        plan.groups.push_back({r, replica, stage, static_cast<int>(at - servers.begin())});
      }
    }
  }
}

ClusterPlan Decode(const ClusterProblem& problem, const Columns& columns, const MilpSolution& solution) {
  ClusterPlan plan;
  plan.status = solution.status;
  if (solution.values.empty()) return plan;
  for (const int column : columns.replicas) {
    plan.replicas.push_back(static_cast<int>(std::lround(solution.values[At(column)])));
  }
  double sum = 0;
  for (const int column : columns.routing) {
    const double share = column == kNone ? 0 : solution.values[At(column)];
    plan.routing.push_back(share > kTolerance ? share : 0);
    sum += plan.routing.back();
  }
  for (double& share : plan.routing) share /= sum > 0 ? sum : 1;
  for (std::size_t r = 0; r < problem.types.size(); ++r) {
    const ReplicaType& type = problem.types[r];
    plan.cost += PriceOf(problem, type) * plan.replicas[r];
    plan.move_cost += type.move_cost * std::abs(plan.replicas[r] - type.current);
  }
  for (std::size_t j = 0; j < problem.routings.size(); ++j) {
    plan.quality += plan.routing[j] * problem.routings[j].quality;
  }
  double factor = kUnlimited;
  for (std::size_t i = 0; i < problem.models.size(); ++i) {
    const double rate = RateOf(problem, plan, i);
    if (rate > 0) factor = std::min(factor, SustainedBy(problem, plan, i) / rate);
  }
  plan.factor = factor < kUnlimited ? factor : 0;
  const bool cost = problem.goal == ClusterGoal::kLeastCost;
  plan.objective = cost ? plan.cost : plan.factor;
  plan.bound = cost ? std::min(solution.bound, plan.objective) : std::max(-solution.bound, plan.objective);
  PlaceGroups(problem, ServersOf(problem, columns, solution), plan);
  return plan;
}

// ---- shortages ------------------------------------------------------------------------------------------------

// Returns the shortages. Empty if there is no plan even with these limits loose, or none was found.
absl::StatusOr<std::vector<Shortage>> MissingOf(const ClusterProblem& problem, std::vector<ClusterLimit> loose,
                                                const MilpSolver& solver, const MilpLimits& limits,
                                                ServerModel servers) {
  const bool alone = loose.size() == 1;
  Builder builder(problem, servers, std::move(loose));
  if (absl::Status status = builder.Build(); !status.ok()) return status;
  absl::StatusOr<MilpSolution> solution = solver.Solve(builder.model, limits);
  if (!solution.ok()) return solution.status();
  std::vector<Shortage> missing;
  if (solution->values.empty()) return missing;
  for (const Columns::Slack& slack : builder.columns.slacks) {
    const double amount = solution->values[At(slack.column)] * slack.unit;
    if (amount <= kTolerance) continue;
    const auto same = std::ranges::find_if(
        missing, [&](const Shortage& s) { return s.limit == slack.limit && s.name == slack.name; });
    if (same != missing.end()) same->missing += amount;
    else missing.push_back({slack.limit, slack.name, amount, alone, solution->status == MilpStatus::kOptimal});
  }
  std::ranges::stable_sort(missing, {}, &Shortage::limit);
  return missing;
}

absl::StatusOr<std::vector<Shortage>> Missing(ClusterProblem problem, const MilpSolver& solver,
                                              const MilpLimits& limits, ServerModel servers) {
  problem.goal = ClusterGoal::kLeastCost;
  std::vector<Shortage> all;
  std::vector<ClusterLimit> every;
  for (std::size_t i = 0; i < NamesOf(ClusterLimit{}).size(); ++i) {
    const auto limit = static_cast<ClusterLimit>(i);
    every.push_back(limit);
    absl::StatusOr<std::vector<Shortage>> missing = MissingOf(problem, {limit}, solver, limits, servers);
    if (!missing.ok()) return missing;
    all.insert(all.end(), missing->begin(), missing->end());
  }
  return all.empty() ? MissingOf(problem, every, solver, limits, servers) : all;
}

}  // namespace

absl::Status ClusterProblem::Validate() const {
  Faults faults;
  const auto expect = [&](bool fine, std::string_view what, std::string_view wish) {
    if (!fine) faults.Add(fmt::format("{}: {}", what, wish));
  };
  const auto within = [](int i, std::size_t n) { return i >= 0 && static_cast<std::size_t>(i) < n; };
  const auto finite = [](double x) { return std::isfinite(x) && x >= 0; };
  expect(!models.empty(), "models", "must not be empty");
  expect(!routings.empty(), "routings", "must not be empty");
  for (const ModelDemand& m : models) expect(m.min_replicas >= 0, m.name, "min_replicas must not be negative");
  for (const GpuClass& k : classes) {
    expect(finite(k.price), k.name, "the price must not be negative");
    std::int64_t gpus = 0;
    for (const GpuServers& s : k.servers) {
      expect(s.servers >= 0 && s.gpus >= 1 && s.gpus <= 1024, k.name,
             "servers must be at least 0, GPUs of a server 1 to 1024");
      gpus += std::int64_t{s.servers} * s.gpus;
    }
    expect(gpus <= 1'000'000, k.name, "at most a million GPUs are supported");
  }
  for (const ReplicaType& r : types) {
    expect(within(r.model, models.size()), r.name, "the model is unknown");
    expect(within(r.gpu_class, classes.size()), r.name, "the class of GPUs is unknown");
    expect(r.tp >= 1 && r.tp <= 1024 && r.pp >= 1 && r.pp <= 1024, r.name, "tp and pp must be 1 to 1024");
    expect(finite(r.rate), r.name, "the rate must not be negative");
    expect(r.most >= 0 && r.current >= 0 && r.max_change >= 0, r.name,
           "most, current and max_change must not be negative");
    expect(finite(r.move_cost), r.name, "the move cost must not be negative");
  }
  for (const RoutingChoice& j : routings) {
    expect(j.rates.size() == models.size(), j.name, "rates must have one entry per model");
    expect(std::ranges::all_of(j.rates, finite), j.name, "rates must not be negative");
    expect(std::isfinite(j.quality), j.name, "the quality must be finite");
    expect(goal != ClusterGoal::kMostThroughput || std::ranges::any_of(j.rates, [](double x) { return x > 0; }), j.name,
           "all rates are zero; maximum throughput needs a rate above 0");
  }
  expect(min_quality < kUnlimited, "min_quality", "must be a number");
  expect(budget >= 0, "budget", "must not be negative");
  expect(move_budget >= 0, "move_budget", "must not be negative");
  return faults.ToStatus();
}

absl::StatusOr<MilpModel> MakeClusterModel(const ClusterProblem& problem, ServerModel servers) {
  if (absl::Status status = problem.Validate(); !status.ok()) return status;
  Builder builder(problem, servers, {});
  if (absl::Status status = builder.Build(); !status.ok()) return status;
  return std::move(builder.model);
}

absl::StatusOr<ClusterPlan> PlanCluster(const ClusterProblem& problem, const MilpSolver& solver,
                                        const MilpLimits& limits, ServerModel servers) {
  if (absl::Status status = problem.Validate(); !status.ok()) return status;
  Builder builder(problem, servers, {});
  if (absl::Status status = builder.Build(); !status.ok()) return status;
  absl::StatusOr<MilpSolution> solution = solver.Solve(builder.model, limits);
  if (!solution.ok()) return solution.status();
  ClusterPlan plan = Decode(problem, builder.columns, *solution);
  const bool nothing = problem.goal == ClusterGoal::kMostThroughput && plan.status == MilpStatus::kOptimal &&
                       !(plan.factor > kTolerance);
  if (plan.status != MilpStatus::kInfeasible && !nothing) return plan;
  plan = {};
  absl::StatusOr<std::vector<Shortage>> missing = Missing(problem, solver, limits, servers);
  if (!missing.ok()) return missing.status();
  plan.shortages = *std::move(missing);
  return plan;
}

absl::Status CheckClusterPlan(const ClusterProblem& problem, const ClusterPlan& plan) {
  if (absl::Status status = problem.Validate(); !status.ok()) return status;
  std::string faults;
  const auto expect = [&](bool fine, std::string_view what, std::string_view name) {
    if (!fine) faults += fmt::format("{}{}{}{}", faults.empty() ? "" : "\n", what, name.empty() ? "" : ": ", name);
  };
  const auto at_most = [](double a, double b) { return a <= b + kTolerance * std::max(1.0, std::abs(b)); };
  if (plan.replicas.size() != problem.types.size() || plan.routing.size() != problem.routings.size()) {
    return absl::FailedPreconditionError("the plan must have replicas for each type and a share for each routing");
  }
  double cost = 0, move_cost = 0, quality = 0, shares = 0;
  std::vector<int> replicas(problem.models.size());
  for (std::size_t r = 0; r < problem.types.size(); ++r) {
    const ReplicaType& type = problem.types[r];
    const int n = plan.replicas[r];
    expect(n >= 0 && n <= type.most, "the number of replicas", type.name);
    expect(std::abs(n - type.current) <= type.max_change, "too many replicas change", type.name);
    cost += PriceOf(problem, type) * n;
    move_cost += type.move_cost * std::abs(n - type.current);
    replicas[At(type.model)] += n;
  }
  for (std::size_t j = 0; j < problem.routings.size(); ++j) {
    const double share = plan.routing[j];
    expect(share >= 0 && (problem.mixed || share == 0 || share == 1), "the share of a routing",
           problem.routings[j].name);
    quality += share * problem.routings[j].quality;
    shares += share;
  }
  expect(std::abs(shares - 1) <= kTolerance, "the shares of all routings do not add up to 1", "");
  expect(at_most(cost, problem.budget), "the budget", "");
  expect(at_most(move_cost, problem.move_budget), "the move budget", "");
  expect(at_most(problem.min_quality, quality), "the quality", "");
  const double factor = problem.goal == ClusterGoal::kMostThroughput ? plan.factor : 1;
  for (std::size_t i = 0; i < problem.models.size(); ++i) {
    const double rate = RateOf(problem, plan, i);
    expect(at_most(rate * factor, SustainedBy(problem, plan, i)), "the rate", problem.models[i].name);
    expect(!(rate > 0) || replicas[i] >= problem.models[i].min_replicas, "too few replicas", problem.models[i].name);
  }

  struct OnServer {
    std::size_t gpu_class;
    int free;
  };
  std::vector<OnServer> servers;
  for (std::size_t k = 0; k < problem.classes.size(); ++k) {
    for (const GpuServers& s : problem.classes[k].servers) servers.insert(servers.end(), At(s.servers), {k, s.gpus});
  }
  std::set<std::array<int, 3>> placed;
  for (const PlacedGroup& g : plan.groups) {
    const bool known = g.type >= 0 && At(g.type) < problem.types.size() && g.server >= 0 &&
                       At(g.server) < servers.size() && g.replica >= 0 && g.replica < plan.replicas[At(g.type)] &&
                       g.stage >= 0 && g.stage < problem.types[At(g.type)].pp;
    expect(known && placed.insert({g.type, g.replica, g.stage}).second, "an unknown or repeated group", "");
    if (!known) continue;
    OnServer& server = servers[At(g.server)];
    const ReplicaType& type = problem.types[At(g.type)];
    server.free -= type.tp;
    expect(server.free >= 0 && server.gpu_class == At(type.gpu_class), "a server without room", type.name);
  }
  std::size_t groups = 0;
  for (std::size_t r = 0; r < problem.types.size(); ++r) groups += At(plan.replicas[r] * problem.types[r].pp);
  expect(placed.size() == groups, "groups without a place", "");
  return faults.empty() ? absl::OkStatus() : absl::FailedPreconditionError(faults);
}

std::string Describe(std::span<const Shortage> shortages) {
  std::string text;
  for (const Shortage& s : shortages) {
    const std::string of = s.name.empty() ? "" : " of " + s.name;
    const char* end = s.alone ? " would do" : " together with the other changes";
    const char* about = s.exact ? "" : "at most ";
    switch (s.limit) {
      case ClusterLimit::kRates:
        text += fmt::format("rates{}: {}{:.4g} requests/s less{}", of, about, s.missing, end);
        break;
      case ClusterLimit::kGpus: text += fmt::format("GPUs{}: {}{:.0f} more{}", of, about, s.missing, end); break;
      case ClusterLimit::kReplicas:
        text += fmt::format("replicas{}: {}{:.0f} more allowed{}", of, about, s.missing, end);
        break;
      case ClusterLimit::kBudget: text += fmt::format("budget: {}{:.4g} more per hour{}", about, s.missing, end); break;
      case ClusterLimit::kQuality:
        text += fmt::format("quality: a floor {}{:.4g} lower{}", about, s.missing, end);
        break;
      case ClusterLimit::kAvailability:
        text += fmt::format("availability{}: a requirement of {}{:.0f} fewer replicas{}", of, about, s.missing, end);
        break;
      case ClusterLimit::kMoves:
        text += s.name.empty() ? fmt::format("moves: {}{:.4g} more of the move budget{}", about, s.missing, end)
                               : fmt::format("moves{}: {}{:.0f} more changes of replicas{}", of, about, s.missing, end);
        break;
    }
    text += '\n';
  }
  return text;
}

MilpModel MakeMinMaxModel(const LatencyTable& table, GpuUse use) {
  const double gpus = table.gpus();
  MilpModel model;
  MilpRow all{.name = "gpus", .lower = use == GpuUse::kExactly ? gpus : -kUnlimited, .upper = gpus};
  std::vector<MilpRow> slowest;
  for (std::size_t i = 0; i < table.models(); ++i) {
    MilpRow one{.name = fmt::format("one_{}", i), .lower = 1, .upper = 1};
    MilpRow bound{.name = fmt::format("latency_{}", i), .upper = 0};
    for (std::int32_t f = 0; f <= table.gpus(); ++f) {
      const double latency = table.at(i, f);
      if (!std::isfinite(latency)) continue;
      const int x = model.AddColumn({.name = fmt::format("x_{}_{}", i, f), .upper = 1, .integer = true});
      one.terms.push_back({x, 1});
      if (f > 0) all.terms.push_back({x, static_cast<double>(f)});
      if (latency != 0) bound.terms.push_back({x, latency});
    }
    model.AddRow(std::move(one));
    slowest.push_back(std::move(bound));
  }
  model.AddRow(std::move(all));
  const int l = model.AddColumn({.name = "L", .cost = 1});
  for (MilpRow& row : slowest) {
    row.terms.push_back({l, -1});
    model.AddRow(std::move(row));
  }
  return model;
}

}  // namespace takt
