// Searches the configurations of engines for the least GPUs that serve a workload within targets.
#ifndef TAKT_SRC_TOOL_PLAN_RECOMMEND_SEARCH_H_
#define TAKT_SRC_TOOL_PLAN_RECOMMEND_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/numeric/summary.h"
#include "takt/sim/metrics.h"
#include "takt/sim/profiles.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"
#include "tool/command/replay_setup.h"
#include "tool/run/progress_bar.h"

namespace takt::tool {

// A bound of a run's figure: ttft_p95=2s.
struct Target {
  std::string name;
  double limit = 0;  // seconds, a factor, a share, or requests per second
  bool least = false;  // the figure must be at least `limit`; false: at most
  bool implied = false;  // not given by the user
  // The figure. Either `summary` and `statistic`, or `scalar`, or neither: the share of requests without failure.
  Summary Metrics::* summary = nullptr;
  double Summary::* statistic = nullptr;
  double Metrics::* scalar = nullptr;

  double FigureOf(const Metrics& metrics) const;  // infinite if a latency is unknown
  // Returns the distance from the limit as a share of the limit; negative: the target is missed.
  double RoomOf(double figure) const { return (least ? figure - limit : limit - figure) / limit; }
};

// Reads targets such as ttft_p95=2s, tpot_p99=50ms, attainment=0.9. Adds success=1 if it is missing. InvalidArgument
// names the target at fault.
absl::StatusOr<std::vector<Target>> ReadTargets(std::span<const std::string> texts);

struct CacheSetting {
  bool prefixes = false;  // keeps the KV of prompt prefixes
  std::int64_t host_tokens = 0;  // host memory of each instance for them

  std::string Name() const;  // off, on, or the number of tokens
};
absl::StatusOr<CacheSetting> ReadCacheSetting(const std::string& text);

// All values that are combined. Values that come first win ties.
struct Grid {
  std::vector<Profile> shapes = {};  // of one engine
  std::vector<CacheSetting> caches = {};
  std::vector<std::int32_t> budgets = {};  // tokens of a step
  std::vector<std::string> policies = {};
  std::int32_t gpus = 0;  // most GPUs of all engines together
};

std::int32_t GpusOf(const Profile& shape);

struct Candidate {
  std::size_t shape = 0, cache = 0, budget = 0, policy = 0;  // indices into the grid
  std::int32_t replicas = 1, gpus = 1;
  // Result:
  bool ended = false;
  Metrics metrics = {};
  std::vector<double> figures = {};  // by target
  double room = 0;  // least room of any target
  bool serves() const { return room >= 0; }
};

// Returns "2 x aic/llama-3.1-8b/h100/bf16/tp1 with fcfs, steps of 2,048 tokens, prefix cache off".
std::string TextOf(const Grid& grid, const Candidate& candidate);

// Returns the number of candidates.
std::int64_t CountOf(const Grid& grid);
// Returns the candidates, by GPUs, then in the order of the grid: shape, cache, budget, policy.
std::vector<Candidate> CandidatesOf(const Grid& grid);

struct Search {
  const Workload& workload;
  const ReplaySetup& setup;
  const ReplayOptions& base;  // of all candidates
  const Grid& grid;
  const std::vector<Target>& targets;
  bool exhaustive = false;  // also runs candidates with more GPUs than the first that serves
};

// Runs candidates until none with fewer GPUs than the best can serve. Returns those that ended, with at most the best
// one's GPUs unless the search is exhaustive. The first is the best; those that do not serve follow, the nearest miss
// first. The result does not depend on the number of threads, unless it was interrupted. InvalidArgument: a candidate
// that is invalid, or a run's error.
absl::StatusOr<std::vector<Candidate>> RunSearch(const Search& search, int threads, ProgressBar& bar);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_PLAN_RECOMMEND_SEARCH_H_
