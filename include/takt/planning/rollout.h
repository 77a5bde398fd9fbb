// From one plan's replicas to another's, one replica at a time, so that no model ever has less capacity than it needs.
// After Cascadia (Appendix G): replicas that both plans have keep serving, the others are reconfigured one by one, each
// in 2 to 20 s.
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

// Replicas that are alike.
struct RolloutReplicas {
  std::string name = {};
  int model = 0;
  int gpu_class = 0;
  int gpus = 1;  // of one
  double rate = 0;  // requests/s of one
  int from = 0;  // that run now
  int to = 0;  // that shall run
  double start_s = 20;  // until one takes requests; it holds its GPUs from the beginning
  double stop_s = 0;  // until its GPUs are free; it takes no requests from the beginning
};

struct RolloutProblem {
  std::vector<RolloutReplicas> replicas = {};
  std::vector<int> gpus = {};  // by class
  std::vector<double> needed = {};  // requests/s by model, while the change lasts
  std::int64_t most_states = 200'000;  // looked at before the search gives up

  // InvalidArgument names everything at fault, among it plans that do not fit into the GPUs.
  absl::Status Validate() const;
};

struct RolloutStep {
  int replicas = 0;  // of which kind one...
  bool start = false;  // ...starts, or stops
  double begin_s = 0;  // since the beginning of the change
  double end_s = 0;

  friend constexpr bool operator==(const RolloutStep&, const RolloutStep&) = default;
};

enum class RolloutStatus : std::uint8_t {
  kFound,
  kImpossible,  // no order of these starts and stops does it
  kUnknown,  // none was found among most_states
};
constexpr auto NamesOf(RolloutStatus) { return std::to_array<std::string_view>({"found", "impossible", "unknown"}); }

struct Rollout {
  RolloutStatus status = RolloutStatus::kUnknown;
  std::vector<RolloutStep> steps = {};  // in order, each begins as the one before ends; empty unless found
  double seconds = 0;  // of all
  // By model, what is kept up throughout: the least of what is needed, what ran before, and what will.
  std::vector<double> floor = {};
  std::vector<double> least = {};  // by model, capacity at its lowest; empty unless found
  // Unless found. By class, GPUs more with which it is found, no single one of them to spare...
  std::vector<int> missing_gpus = {};
  // ...and the share of each floor that can be kept up without them, to 1 %.
  double share = 1;
};

// Starts what fits and stops what is not needed, in the order that a depth-first search finds; it goes back where it
// must, so that a change that is possible is found unless most_states end the search. Only the replicas that differ are
// touched, each once. GPUs are counted by class: where servers fragment, a start may have to wait for a neighbour.
absl::StatusOr<Rollout> PlanRollout(const RolloutProblem& problem);

}  // namespace takt

#endif  // TAKT_PLANNING_ROLLOUT_H_
