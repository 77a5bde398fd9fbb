// Detects when alpha of workload_balance no longer fits, and finds a better alpha by replaying recent workflows.
#ifndef TAKT_PLANNING_ALPHA_TUNER_H_
#define TAKT_PLANNING_ALPHA_TUNER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/parallel.h"
#include "takt/base/time.h"
#include "takt/model/event.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt {

// ---- the search ----------------------------------------------------------------------------------------------------

struct AlphaSearch {
  Workload workload = {};  // recent workflows with their arrivals
  ReplayOptions replay = {};  // engines, policy, estimates; the search sets alpha of `placement`
  std::vector<double> alphas = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};  // tried values of alpha, ascending
  std::int32_t seeds = 5;  // number of replays per alpha; all alphas use the same seeds
  double quantile = 0.95;  // quantile of the workflows' latencies that the search minimizes
  std::int64_t warm = 0;  // number of first workflows that only fill the engines; their latencies do not count
  double noise_p = 0.05;  // significance level; an alpha whose p_worse is larger counts as equal to the best

  // Returns InvalidArgument with the name and value of every invalid field.
  absl::Status Validate() const;
};

struct AlphaPoint {
  double alpha = 0;
  double mean = 0;  // mean of the latencies' quantile over the seeds [s]
  double deviation = 0;  // standard deviation of the latencies' quantile over the seeds [s]
  double p_worse = 1;  // probability that chance alone makes this alpha so much worse than the best (paired, one-sided)
};

struct AlphaChoice {
  double alpha = 0;
  double best = 0;  // alpha with the least mean; `alpha` is smaller if a smaller alpha is not significantly worse
  std::vector<AlphaPoint> points = {};  // results, ascending by alpha
  std::int64_t replays = 0;
  std::string why = {};  // explanation in one sentence
};

// Replays the workload under each alpha and chooses the alpha with the least tail latency (Peng et al., 2025, equation
// 10). Among alphas that are not significantly worse over the seeds (paired test), chooses the smallest. The first seed
// is the recorded workload. The others shuffle the gaps between arrivals and the order of workflows, which keeps load
// and burstiness. Replays start with empty engines, which the first `warm` workflows fill. The result depends on the
// arguments alone. InvalidArgument: invalid search or options. Cancelled: by `progress`.
absl::StatusOr<AlphaChoice> SearchAlpha(const AlphaSearch& search, const ParallelFor& parallel = SerialFor,
                                        const Progress& progress = {});

// Returns the workload of one seed; seed 0 changes nothing.
Workload Reshuffled(const Workload& workload, std::uint64_t seed);

// ---- when to search ------------------------------------------------------------------------------------------------

// An ended workflow, as the tuner stores it.
struct ServedWorkflow {
  TimePoint arrival{}, end{};
  WorkloadWorkflow workflow = {};  // deadline, tenant and priority of the workflow
  std::vector<WorkloadCall> calls = {};  // lengths, stages and delays, without tool calls inside calls
  std::vector<std::vector<std::uint32_t>> predecessors = {};  // predecessors of each call, as positions in `calls`
};

struct AlphaTunerOptions {
  Duration window = std::chrono::seconds(100);  // length of a window; default: the paper's
  double p = 0.01;  // significance level of the test against the previous window; default: the paper's
  double tail = 0.75;  // quantile of both windows above which latencies count in the test
  std::int64_t least = 10;  // minimum workflows in each of the two windows; with fewer workflows there is no test
  std::int64_t most = 1000;  // maximum replayed workflows, the newest of the last two windows
  std::int64_t history = 100;  // number of decisions that the tuner keeps
  bool first_search = true;  // true: the first window with `least` workflows starts a search, even if load is steady
  bool warm = true;  // true: replayed workflows that arrived before the last window only fill the engines

  absl::Status Validate() const;
};

// The decision at the end of a window.
struct AlphaDecision {
  enum class Action : std::uint8_t { kKept, kSearched, kChanged, kFailed };

  TimePoint time{};
  Action action = Action::kKept;
  std::int64_t before = 0, now = 0;  // number of workflows that ended in the previous window and in this window
  double tail_before = 0, tail_now = 0;  // p95 latency of these workflows [s]; 0 without workflows
  double p = 1;  // p-value of the test
  double alpha_before = 0, alpha = 0;
  std::string why = {};
};

// Peng et al. (2025), section 4.3. alpha starts at 0. At the end of every window, the latencies of its workflows are
// compared with those of the window before. If the latencies are significantly worse, a search on the newest workflows
// is due. A search is also due after the first full window. The result is an Epoch.
//
// Departure: equation 9 compares two 95th percentiles, which no t-test can do. Here a one-sided Welch test compares the
// workflows' excess latencies over the `tail` quantile of both windows (at least 0). A window with too few workflows is
// not tested, but the next window is compared with it.
//
// Thread-compatible. The host calls Ended when workflows end and Advance regularly. It runs the search on its own
// thread and passes the result to Finished. There is one search at a time; a window that ends meanwhile is tested but
// starts no search.
class AlphaTuner {
 public:
  // `replay`: the current cluster, as in AlphaSearch.
  static absl::StatusOr<AlphaTuner> Create(AlphaTunerOptions options, ReplayOptions replay);

  // Adds an ended workflow. Ignores and counts invalid ones: without calls, without tokens, with unknown predecessors,
  // or ended before arrival.
  void Ended(ServedWorkflow workflow);

  // Closes windows that are over. Returns the search to run now, if any.
  std::optional<AlphaSearch> Advance(TimePoint now);

  // Returns the search's result for the router; empty if alpha stays or no search was running.
  std::optional<Epoch> Finished(const absl::StatusOr<AlphaChoice>& choice, TimePoint now);

  // Sets the alpha of an earlier run, from 0 to 1, without a first search. Returns an Epoch for the router.
  Epoch Restore(double alpha);

  double alpha() const { return alpha_; }
  TimePoint wake_at() const { return started_ ? window_end_ : TimePoint{}; }  // time of the next Advance
  bool searching() const { return searching_; }
  std::int64_t ignored() const { return ignored_; }
  // The newest decisions, oldest first.
  const std::deque<AlphaDecision>& history() const { return history_; }

 private:
  AlphaTuner(const AlphaTunerOptions& options, ReplayOptions replay) : options_(options), replay_(std::move(replay)) {}

  AlphaDecision EndWindow();
  AlphaSearch Snapshot(TimePoint from) const;
  void Remember(AlphaDecision decision);

  AlphaTunerOptions options_;
  ReplayOptions replay_;
  double alpha_ = 0;
  bool started_ = false, searching_ = false, searched_ = false;
  TimePoint window_end_{};
  std::deque<ServedWorkflow> served_;  // workflows of this window and the previous window, in order of report
  std::vector<double> latencies_, before_;  // latencies of workflows that ended in this and in the previous window [s]
  std::int64_t ignored_ = 0;
  std::deque<AlphaDecision> history_;
};

}  // namespace takt

#endif  // TAKT_PLANNING_ALPHA_TUNER_H_
