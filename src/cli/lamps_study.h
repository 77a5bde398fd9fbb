// The runs of the LAMPS scenario: conditions, each under the same seeds, and how they compare seed by seed.
#ifndef TAKT_SRC_CLI_LAMPS_STUDY_H_
#define TAKT_SRC_CLI_LAMPS_STUDY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "cli/progress_bar.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt::cli {

enum class LampsModel : unsigned char { kGptJ, kVicuna };
inline constexpr LampsModel kLampsModels[] = {LampsModel::kGptJ, LampsModel::kVicuna};
inline std::string_view Name(LampsModel m) { return m == LampsModel::kGptJ ? "GPT-J 6B" : "Vicuna 13B"; }
inline std::string_view ProfileOf(LampsModel m) {
  return m == LampsModel::kGptJ ? "lamps/gpt-j-6b/a100-40gb/fp16/tp1" : "lamps/vicuna-13b/a100-40gb/fp16/tp2";
}

enum class LampsCalls : unsigned char { kSingle, kMulti };
inline constexpr LampsCalls kLampsCalls[] = {LampsCalls::kSingle, LampsCalls::kMulti};
inline std::string_view Name(LampsCalls c) { return c == LampsCalls::kSingle ? "single-call" : "multi-call"; }

struct LampsSystem {
  std::string label;
  std::string policy, pause;
  EstimateSpec estimates = {EstimateKind::kOracle, 0};
  bool preemptive = false;  // ranks preempt, too

  // By what is run, under whatever label.
  friend bool operator==(const LampsSystem& a, const LampsSystem& b) {
    return a.policy == b.policy && a.pause == b.pause && a.estimates == b.estimates && a.preemptive == b.preemptive;
  }
};

struct LampsSetup {
  LampsModel model;
  LampsCalls calls;
  LampsSystem system;
  double rate;     // requests per second
  double minutes;  // of arrivals

  std::int64_t requests() const;
  friend bool operator==(const LampsSetup&, const LampsSetup&) = default;
};

// Of one run. Latencies are over all requests that came, however late they ended.
struct LampsFigures {
  double latency = 0, latency_p50 = 0, latency_p99 = 0;  // s, from arrival to end, tools included
  double ttft = 0, ttft_p99 = 0;                         // s
  double queue = 0;                                      // s, mean, from arrival to the first step
  double in_time = 0;    // requests that were completed within the minutes of arrivals
  double completed = 0;  // at any time
  double drained = 0;    // s, from the first arrival to the last end
  double kv = 0;         // share of the KV cache in use, over time
  double running = 0;    // requests in a step, over steps
  double recomputed = 0; // tokens
};
using LampsFigure = double LampsFigures::*;

struct LampsCell {
  LampsSetup setup;
  std::vector<LampsFigures> seeds;  // empty: not all of them have ended

  bool complete() const { return !seeds.empty(); }
  double Mean(LampsFigure figure) const;
  double Deviation(LampsFigure figure) const;
};

// By how much `ours` is lower than `other`, in % of other, over paired seeds.
struct Reduction {
  double mean = 0, low = 0, high = 0;  // with its 95 % confidence interval by Student's t
  double p = 1;  // of a paired t test of the figures themselves, two-sided
};
Reduction ReductionOf(const LampsCell& ours, const LampsCell& other, LampsFigure figure);

class LampsStudy {
 public:
  // Requests of several calls; those of single calls are their first.
  LampsStudy(Workload requests, int seeds);

  // The cell of these conditions, which is made where there is none. Valid until the next.
  std::size_t Add(const LampsSetup& setup);
  const LampsCell& operator[](std::size_t cell) const { return cells_[cell]; }
  const LampsCell* Find(const LampsSetup& setup) const;  // null where it is not complete, or was never added

  // The first error. After an interrupt some cells stay incomplete.
  absl::Status Run(int threads, ProgressBar& bar);

  int seeds() const { return seeds_; }
  const Workload& requests(LampsCalls calls) const { return workloads_[static_cast<std::size_t>(calls)]; }

 private:
  Workload workloads_[2];  // by LampsCalls
  int seeds_;
  std::vector<LampsCell> cells_;
};

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_LAMPS_STUDY_H_
