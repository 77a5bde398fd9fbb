// Which replicas on which GPUs, and which routing: the whole cluster as one integer program, for what the min-max
// allocation of identical GPUs cannot say: classes of GPUs with prices, servers, a budget, availability, limits on
// how much may move, and mixtures of routings. docs/howto/milp.md has the formulas and what solving takes.
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

// Like servers of a class. Servers that are partly occupied are a group of their own, with the GPUs that are free.
struct GpuServers {
  int servers = 0;
  int gpus = 8;  // each
};

struct GpuClass {
  std::string name = {};
  double price = 0;  // of a GPU and hour
  std::vector<GpuServers> servers = {};
};

// A way to run a model: pp groups of tp GPUs. A group lies within one server, those of a replica may lie on several.
struct ReplicaType {
  std::string name = {};
  int model = 0;
  int gpu_class = 0;
  int tp = 1;
  int pp = 1;
  double rate = 0;  // requests/s that one replica sustains within the SLO
  int most = kNoLimit;  // replicas of it
  int current = 0;  // that run now
  int max_change = kNoLimit;  // by how many their number may differ from `current`
  double move_cost = 0;  // of each one started or stopped, in the unit of `move_budget`
};

struct ModelDemand {
  std::string name = {};
  int min_replicas = 0;  // for availability; of a model that a request can reach
};

// What requests do under one vector of thresholds.
struct RoutingChoice {
  std::string name = {};
  std::vector<double> rates = {};  // requests/s by model
  double quality = 0;
};

enum class ClusterGoal : std::uint8_t {
  kLeastCost,       // of the GPUs used, for the rates as they are
  kMostThroughput,  // the largest factor on all rates
};

struct ClusterProblem {
  std::vector<ModelDemand> models = {};
  std::vector<GpuClass> classes = {};
  std::vector<ReplicaType> types = {};
  std::vector<RoutingChoice> routings = {};
  ClusterGoal goal = ClusterGoal::kLeastCost;
  double min_quality = -kUnlimited;
  double budget = kUnlimited;  // per hour, for the GPUs used
  double move_budget = kUnlimited;
  bool mixed = false;  // routings may be mixed: each request takes one at random, the mean of their quality counts

  // InvalidArgument names everything at fault.
  absl::Status Validate() const;
};

// How servers enter the model.
enum class ServerModel : std::uint8_t {
  kAuto,  // by counting GPUs where that is exact (all tp of a class powers of two, the GPUs of each of its servers
          // a multiple of the largest: every size divides each larger one, so that first fit leaves no hole),
          // else by patterns
  kPatterns,  // by patterns always: which multiset of tp each server holds
};

// Columns: n_R replicas of type R, z_J the share of routing J, y_K_S_P servers of class K and group S under pattern P,
// a_J the rate factor given to routing J (routings that another beats in all rates, and in quality where it counts,
// have none), u_M model M is reached, up_R and down_R the change of type R. InvalidArgument: the problem, or more than
// 20,000 patterns.
absl::StatusOr<MilpModel> MakeClusterModel(const ClusterProblem& problem, ServerModel servers = ServerModel::kAuto);

// One tp group of a replica. Servers count from 0 by class, by group of servers, and within it.
struct PlacedGroup {
  int type = 0;
  int replica = 0;  // of its type
  int stage = 0;  // 0 to pp - 1
  int server = 0;

  friend constexpr bool operator==(const PlacedGroup&, const PlacedGroup&) = default;
};

enum class ClusterLimit : std::uint8_t { kRates, kGpus, kReplicas, kBudget, kQuality, kAvailability, kMoves };
constexpr auto NamesOf(ClusterLimit) {
  return std::to_array<std::string_view>({"rates", "GPUs", "replicas", "budget", "quality", "availability", "moves"});
}

// What is missing for a plan. Of all ways to loosen one limit alone, the smallest: in the sum over what it names.
struct Shortage {
  ClusterLimit limit = ClusterLimit::kRates;
  std::string name = {};  // of the model, class or type; empty: of the whole
  double missing = 0;  // requests/s too many, GPUs, replicas, price per hour, points of quality, replicas, move cost
  bool alone = true;  // loosening this limit suffices; false: no limit alone does, and all of these are needed
  bool exact = true;  // false: a limit stopped the search, and less may do
};

struct ClusterPlan {
  MilpStatus status = MilpStatus::kInfeasible;
  double objective = 0;  // cost per hour, or the factor
  double bound = 0;  // no plan costs less, or has a larger factor
  double cost = 0;  // per hour
  double factor = 0;  // on the rates of `routing` that the replicas sustain; 0 where there are no rates
  double quality = 0;
  double move_cost = 0;
  std::vector<int> replicas = {};  // by type; empty: no plan
  std::vector<double> routing = {};  // share by routing, sum 1
  std::vector<PlacedGroup> groups = {};  // where each lies
  std::vector<Shortage> shortages = {};  // only where infeasible
};

// InvalidArgument: the problem or the limits. Infeasible is no error: the plan says what is missing, each answer to
// which is another run of the solver under the same limits. A throughput of 0 counts as infeasible, and what is
// missing is told for the rates as they are.
absl::StatusOr<ClusterPlan> PlanCluster(const ClusterProblem& problem, const MilpSolver& solver,
                                        const MilpLimits& limits = {}, ServerModel servers = ServerModel::kAuto);

// Holds a plan against the problem without the model: FailedPrecondition names all that it breaks by more than 1e-6
// of what it is measured in.
absl::Status CheckClusterPlan(const ClusterProblem& problem, const ClusterPlan& plan);

// In words, a line each: "GPUs of H100: 4 more would do".
std::string Describe(std::span<const Shortage> shortages);

// The problem of planning/allocation.h as an integer program, for those who would rather trust a solver: x_I_F, model I
// gets F GPUs, and L, the latency of the slowest, last.
MilpModel MakeMinMaxModel(const LatencyTable& table, GpuUse use = GpuUse::kAtMost);

}  // namespace takt

#endif  // TAKT_PLANNING_CLUSTER_MILP_H_
