// Replaces the replicas of one plan by those of another, one at a time, and keeps the capacity that each model needs.
// As in Cascadia (Appendix G), replicas in both plans keep serving. Each other replica is reconfigured in 2 to 20 s.
#ifndef TAKT_PLANNING_ROLLOUT_H_
#define TAKT_PLANNING_ROLLOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/names.h"

namespace takt {

// Identical replicas.
struct RolloutReplicas {
  std::string name = {};
  int model = 0;
  int gpu_class = 0;
  int gpus = 1;  // number of GPUs per replica
  double rate = 0;  // requests/s per replica
  int from = 0;  // number of replicas that run now
  int to = 0;  // number of replicas in the new plan
  double start_s = 20;  // time until a new replica takes requests [s]; the replica holds its GPUs from the beginning
  double stop_s = 0;  // time until a stopped replica frees its GPUs [s]; it takes no requests from the beginning
};

struct RolloutProblem {
  std::vector<RolloutReplicas> replicas = {};
  std::vector<int> gpus = {};  // number of GPUs by class
  std::vector<double> needed = {};  // requests/s by model during the change
  std::int64_t most_states = 200'000;  // maximum states that the search visits

  // Returns InvalidArgument with every invalid field, also if a plan does not fit into the GPUs.
  absl::Status Validate() const;
};

struct RolloutStep {
  int replicas = 0;  // index of the kind of replica
  bool start = false;  // true: a replica starts; false: a replica stops
  double begin_s = 0;  // begin of the step, from the beginning of the change on [s]
  double end_s = 0;

  friend constexpr bool operator==(const RolloutStep&, const RolloutStep&) = default;
};

enum class RolloutStatus : std::uint8_t {
  kFound,
  kImpossible,  // no order of these starts and stops is valid
  kUnknown,  // no order was found within most_states
};
constexpr auto NamesOf(RolloutStatus) { return std::to_array<std::string_view>({"found", "impossible", "unknown"}); }

struct Rollout {
  RolloutStatus status = RolloutStatus::kUnknown;
  std::vector<RolloutStep> steps = {};  // steps in sequence; empty unless found
  double seconds = 0;  // total time of the change [s]
  // Capacity by model that is kept throughout: the minimum of needed, previous and new capacity.
  std::vector<double> floor = {};
  std::vector<double> least = {};  // lowest capacity by model; empty unless found
  // Additional GPUs by class that would make the change possible, without superfluous GPUs; empty if found.
  std::vector<int> missing_gpus = {};
  // Share of each floor that can be kept without additional GPUs, to 1 %.
  double share = 1;
};

// Finds a sequence of starts and stops by depth-first search with backtracking. It finds every possible change unless
// most_states ends the search. Each replica that differs is changed once. GPUs are counted by class. If no single
// server has enough free GPUs, a start may have to wait.
absl::StatusOr<Rollout> PlanRollout(const RolloutProblem& problem);

}  // namespace takt

#endif  // TAKT_PLANNING_ROLLOUT_H_
