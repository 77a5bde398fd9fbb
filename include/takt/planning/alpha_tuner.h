// When alpha of workload_balance no longer fits, and which one does: by replay of what was served last.
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
  Workload workload = {};     // what was served, arrivals included
  ReplayOptions replay = {};  // engines, policy, estimates; the alpha of `placement` is set here
  std::vector<double> alphas = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};  // rising
  std::int32_t seeds = 5;     // replays per alpha; all alphas meet the same ones
  double quantile = 0.95;     // of the workflows' latencies
  double noise_p = 0.05;      // an alpha no worse than the best but for chance at this level is as good

  // InvalidArgument names every field at fault, with its value.
  absl::Status Validate() const;
};

struct AlphaPoint {
  double alpha = 0;
  double mean = 0;       // over the seeds, of the quantile of the latencies [s]
  double deviation = 0;  // likewise
  double p_worse = 1;    // chance of so large a difference from the best where there is none (paired, one-sided)
};

struct AlphaChoice {
  double alpha = 0;
  double best = 0;  // of the least mean; alpha may be a smaller one, within noise
  std::vector<AlphaPoint> points = {};  // by alpha
  std::int64_t replays = 0;
  std::string why = {};  // in a sentence
};

// Replays the workload under each alpha and takes the one of least tail latency (Peng et al., 2025, equation 10); among
// those that paired differences over the seeds do not tell from it, the smallest. The first seed is the workload as it
// was; each other one has its gaps between arrivals, and the order of its workflows, shuffled: as much load, as bursty,
// by other chance. Replays begin with empty engines. Pure: from the snapshot alone. InvalidArgument: of the search or
// its options; Cancelled: by `progress`.
absl::StatusOr<AlphaChoice> SearchAlpha(const AlphaSearch& search, const ParallelFor& parallel = SerialFor,
                                        const Progress& progress = {});

// The workload of one seed: 0 as it is.
Workload Reshuffled(const Workload& workload, std::uint64_t seed);

// ---- when to search ------------------------------------------------------------------------------------------------

// A workflow that has ended, as the tuner keeps it.
struct ServedWorkflow {
  TimePoint arrival{}, end{};
  WorkloadWorkflow workflow = {};  // its deadline, tenant and priority
  std::vector<WorkloadCall> calls = {};  // lengths, stages and delays; tool calls inside them are not kept
  std::vector<std::vector<std::uint32_t>> predecessors = {};  // by call: positions in `calls`
};

struct AlphaTunerOptions {
  Duration window = std::chrono::seconds(100);  // the paper's
  double p = 0.01;  // below it a window is worse than the one before; the paper's
  double tail = 0.75;  // what counts of a latency is its excess over this quantile of both windows together
  std::int64_t least = 10;  // workflows in each of the two windows, or there is no test
  std::int64_t most = 1000;  // workflows that are replayed: the newest that ended in the last two windows
  std::int64_t history = 100;  // decisions that are remembered

  absl::Status Validate() const;
};

// The end of a window: what was seen, what was done, and why.
struct AlphaDecision {
  enum class Action : std::uint8_t { kKept, kSearched, kChanged, kFailed };

  TimePoint time{};
  Action action = Action::kKept;
  std::int64_t before = 0, now = 0;  // workflows that ended in the window before, and in this one
  double tail_before = 0, tail_now = 0;  // p95 of their latencies [s]; 0 of none
  double p = 1;  // of the test
  double alpha_before = 0, alpha = 0;
  std::string why = {};
};

// Peng et al. (2025), section 4.3. alpha is 0 at first. At the end of every window the latencies of the workflows that
// ended in it are compared with those of the window before; where they are worse beyond chance, the newest workflows
// are handed out to be searched, and what comes of it is an Epoch.
//
// Equation 9 tests two 95th percentiles, two numbers, against each other, which no t-test can. Here the sample is every
// workflow's excess over the `tail` quantile of both windows together (zero below it), and the test Welch's, one-sided.
// A window with too few workflows is not compared, and the next is compared with it all the same.
//
// Thread-compatible. The host drives it: Ended as workflows end, Advance now and then, the search on a thread of its
// own, Finished with its result. One search at a time: windows that end meanwhile are tested, and not searched.
class AlphaTuner {
 public:
  // `replay`: the cluster as it is, as AlphaSearch takes it.
  static absl::StatusOr<AlphaTuner> Create(AlphaTunerOptions options, ReplayOptions replay);

  // One that cannot be (without calls, of no tokens, with predecessors that are not there, over before it arrived) is
  // ignored and counted.
  void Ended(ServedWorkflow workflow);

  // Ends the windows that are over. What is to be searched now, if anything.
  std::optional<AlphaSearch> Advance(TimePoint now);

  // The search's result, for the router. None where alpha stays, or none was searched for.
  std::optional<Epoch> Finished(const absl::StatusOr<AlphaChoice>& choice, TimePoint now);

  double alpha() const { return alpha_; }
  bool searching() const { return searching_; }
  std::int64_t ignored() const { return ignored_; }
  // The newest decisions, oldest first.
  const std::deque<AlphaDecision>& history() const { return history_; }

 private:
  AlphaTuner(const AlphaTunerOptions& options, ReplayOptions replay) : options_(options), replay_(std::move(replay)) {}

  AlphaDecision EndWindow();
  AlphaSearch Snapshot() const;
  void Remember(AlphaDecision decision);

  AlphaTunerOptions options_;
  ReplayOptions replay_;
  double alpha_ = 0;
  bool started_ = false, searching_ = false;
  TimePoint window_end_{};
  std::deque<ServedWorkflow> served_;  // of this window and the one before, by the order in which they were told
  std::vector<double> latencies_, before_;  // of the workflows that ended in this window, and in the one before [s]
  std::int64_t ignored_ = 0;
  std::deque<AlphaDecision> history_;
};

}  // namespace takt

#endif  // TAKT_PLANNING_ALPHA_TUNER_H_
