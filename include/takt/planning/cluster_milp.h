// Plans a whole cluster as one integer program: the replicas, their GPUs, and the routing. Unlike the min-max
// allocation, it supports classes of GPUs with prices, servers, a budget, availability, limits on changes, and mixed
// routings. The formulas and run times are in docs/howto/milp.md.
#ifndef TAKT_PLANNING_CLUSTER_MILP_H_
#define TAKT_PLANNING_CLUSTER_MILP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/names.h"
#include "takt/planning/allocation.h"
#include "takt/planning/milp.h"

namespace takt {

inline constexpr int kNoLimit = std::numeric_limits<int>::max();

// Identical servers of a class. Partly occupied servers form a separate group with only their free GPUs.
struct GpuServers {
  int servers = 0;
  int gpus = 8;  // free GPUs of each server
};

struct GpuClass {
  std::string name = {};
  double price = 0;  // price per GPU and hour
  std::vector<GpuServers> servers = {};
};

// A way to run a model: pp groups of tp GPUs. A group lies within one server. Groups of one replica may lie on several
// servers.
struct ReplicaType {
  std::string name = {};
  int model = 0;
  int gpu_class = 0;
  int tp = 1;
  int pp = 1;
  double rate = 0;  // requests/s that one replica sustains within the SLO
  int most = kNoLimit;  // maximum replicas of this type
  int current = 0;  // replicas that run now
  int max_change = kNoLimit;  // maximum change from `current`
  double move_cost = 0;  // cost of each started or stopped replica, in the unit of `move_budget`
};

struct ModelDemand {
  std::string name = {};
  int min_replicas = 0;  // minimum replicas of a model that requests can reach, for availability
};

// Rates and quality under one vector of thresholds.
struct RoutingChoice {
  std::string name = {};
  std::vector<double> rates = {};  // requests/s of each model
  double quality = 0;
};

enum class ClusterGoal : std::uint8_t {
  kLeastCost,  // least cost of the used GPUs at the given rates
  kMostThroughput,  // largest factor by which all rates can grow
};

struct ClusterProblem {
  std::vector<ModelDemand> models = {};
  std::vector<GpuClass> classes = {};
  std::vector<ReplicaType> types = {};
  std::vector<RoutingChoice> routings = {};
  ClusterGoal goal = ClusterGoal::kLeastCost;
  double min_quality = -kUnlimited;
  double budget = kUnlimited;  // maximum price per hour of the used GPUs
  double move_budget = kUnlimited;
  bool mixed = false;  // true: a plan may mix routings; each request takes a random one

  // Returns InvalidArgument with all faults.
  absl::Status Validate() const;
};

// Representation of servers in the model.
enum class ServerModel : std::uint8_t {
  // Counts GPUs if that is exact, otherwise uses patterns. Counting is exact if all tp of a class are powers of two
  // that divide the GPUs of each server.
  kAuto,
  kPatterns,  // always uses patterns: the multiset of tp that each server holds
};

// Makes the integer program. InvalidArgument: an invalid problem, or more than 20,000 patterns.
//
// - n_R: replicas of type R
// - z_J: share of routing J
// - y_K_S_P: servers of class K and group S with pattern P
// - a_J: rate factor of routing J; dominated routings have none
// - u_M: model M is reached
// - up_R, down_R: change of type R
absl::StatusOr<MilpModel> MakeClusterModel(const ClusterProblem& problem, ServerModel servers = ServerModel::kAuto);

// One tp group of a replica. Servers are numbered from 0 by class, by group of servers, and within the group.
struct PlacedGroup {
  int type = 0;
  int replica = 0;  // index among the replicas of its type
  int stage = 0;  // 0 to pp - 1
  int server = 0;

  friend constexpr bool operator==(const PlacedGroup&, const PlacedGroup&) = default;
};

enum class ClusterLimit : std::uint8_t { kRates, kGpus, kReplicas, kBudget, kQuality, kAvailability, kMoves };
constexpr auto NamesOf(ClusterLimit) {
  return std::to_array<std::string_view>({"rates", "GPUs", "replicas", "budget", "quality", "availability", "moves"});
}

// A limit that prevents a plan, and the missing amount: the least that is enough if only this limit is loosened.
struct Shortage {
  ClusterLimit limit = ClusterLimit::kRates;
  std::string name = {};  // name of the model, class or type; empty: the whole cluster
  double missing = 0;  // missing amount: requests/s, GPUs, replicas, price per hour, points of quality, or move cost
  bool alone = true;  // true: loosening this limit is enough; false: all listed limits must be loosened
  bool exact = true;  // false: the search was stopped, and a smaller amount may be enough
};

struct ClusterPlan {
  MilpStatus status = MilpStatus::kInfeasible;
  double objective = 0;  // cost per hour, or the rate factor
  double bound = 0;  // lower bound on the cost, or upper bound on the factor
  double cost = 0;  // price per hour
  double factor = 0;  // largest multiple of the rates of `routing` that the replicas sustain; 0 without rates
  double quality = 0;
  double move_cost = 0;
  std::vector<int> replicas = {};  // number of replicas of each type; empty: no plan
  std::vector<double> routing = {};  // share of requests of each routing; the sum is 1
  std::vector<PlacedGroup> groups = {};  // location of each group
  std::vector<Shortage> shortages = {};  // limits that prevent a plan; empty if there is a plan
};

// Plans the cluster. InvalidArgument: an invalid problem or limit. An infeasible problem is no error: the plan then
// lists the shortages, each found by another run of the solver within the same limits. A throughput of 0 counts as
// infeasible. The shortages are then computed for the given rates.
absl::StatusOr<ClusterPlan> PlanCluster(const ClusterProblem& problem, const MilpSolver& solver,
                                        const MilpLimits& limits = {}, ServerModel servers = ServerModel::kAuto);

// Checks the plan against the problem, without the integer program. FailedPrecondition lists all violations of more
// than 1e-6, in the unit of each limit.
absl::Status CheckClusterPlan(const ClusterProblem& problem, const ClusterPlan& plan);

// Returns the shortages as text, one line each: "GPUs of H100: 4 more would do".
std::string Describe(std::span<const Shortage> shortages);

// Returns the problem of planning/allocation.h as an integer program. x_I_F: model I gets F GPUs; the last column, L:
// the latency of the slowest model.
MilpModel MakeMinMaxModel(const LatencyTable& table, GpuUse use = GpuUse::kAtMost);

}  // namespace takt

#endif  // TAKT_PLANNING_CLUSTER_MILP_H_
