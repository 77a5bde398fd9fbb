// The runs of the LAMPS scenario.
#ifndef TAKT_BENCH_LAB_LAMPS_STUDY_H_
#define TAKT_BENCH_LAB_LAMPS_STUDY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tool/run/progress_bar.h"
#include "lab/figure.h"
#include "lab/study.h"
#include "takt/sim/replay.h"
#include "takt/systems/lamps.h"
#include "takt/workload/workload.h"

namespace takt::tool {

enum class LampsModel : unsigned char { kGptJ, kVicuna };
inline constexpr LampsModel kLampsModels[] = {LampsModel::kGptJ, LampsModel::kVicuna};
inline std::string_view Name(LampsModel m) { return m == LampsModel::kGptJ ? "GPT-J 6B" : "Vicuna 13B"; }
inline std::string_view ProfileOf(LampsModel m) {
  return m == LampsModel::kGptJ ? "lamps/gpt-j-6b/a100-40gb/fp16/tp1" : "lamps/vicuna-13b/a100-40gb/fp16/tp2";
}

using LampsSeqs = std::array<std::int32_t, 2>;  // maximum sequences in a step, by LampsModel

enum class LampsCalls : unsigned char { kSingle, kMulti };
inline constexpr LampsCalls kLampsCalls[] = {LampsCalls::kSingle, LampsCalls::kMulti};
inline std::string_view Name(LampsCalls c) { return c == LampsCalls::kSingle ? "single-call" : "multi-call"; }

struct LampsSystem {
  std::string label;
  std::string policy, pause;
  EstimateSpec estimates = {EstimateKind::kOracle, 0};
  bool preemptive = false;  // requests are preempted by rank, too
  std::optional<systems::LampsOptions> lamps = {};  // runs the object, whose policies are `policy` and `pause`

  // Keyed by conditions, whatever the label.
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
  std::int32_t seqs = 0;  // maximum sequences in a step; 0: the study's

  std::int64_t requests() const;
  friend bool operator==(const LampsSetup&, const LampsSetup&) = default;
};

// Figures of one run. Latencies include all requests that arrived, however late they ended.
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
inline constexpr Figure<LampsFigures> kLampsFigures[] = {
    {"latency_mean_s", &LampsFigures::latency, "mean latency", "s", "latency [s]", "mean"},
    {"latency_p50_s", &LampsFigures::latency_p50, "median latency", "s", "latency [s]", "median"},
    {"latency_p99_s", &LampsFigures::latency_p99, "p99 latency", "s", "latency [s]", "p99"},
    {"ttft_mean_s", &LampsFigures::ttft, "mean TTFT", "s", "TTFT [s]", "mean"},
    {"ttft_p99_s", &LampsFigures::ttft_p99, "p99 TTFT", "s", "TTFT [s]", "p99"},
    {"queue_mean_s", &LampsFigures::queue},
    {"completed", &LampsFigures::completed, "requests completed", "", "completed", "of"},
    {"completed_in_time", &LampsFigures::in_time, "requests completed in time", "", "completed", "in time"},
    {"drained_s", &LampsFigures::drained},
    {"kv_mean", &LampsFigures::kv},
    {"requests_per_step", &LampsFigures::running},
    {"recomputed_tokens", &LampsFigures::recomputed},
};

using LampsCell = Cell<LampsSetup, LampsFigures>;

class LampsStudy : public Study<LampsSetup, LampsFigures> {
 public:
  // Requests of several calls. Single calls are the first calls of these requests.
  LampsStudy(Workload requests, SeedRange seeds, const LampsSeqs& seqs);

  absl::Status Run(int threads, ProgressBar& bar);

  std::int32_t seqs(LampsModel model) const { return seqs_[static_cast<std::size_t>(model)]; }
  const Workload& requests(LampsCalls calls) const { return workloads_[static_cast<std::size_t>(calls)]; }

 private:
  Workload workloads_[2];  // by LampsCalls
  LampsSeqs seqs_;
};

// Accuracy of tokens before a tool call, predicted by the mean of its class: 70 % of the requests train, 30 % test.
struct LampsPredictor {
  std::int64_t calls = 0;
  double acc_5 = 0, acc_15 = 0;     // % within 5 and 15 tokens
  double mae = 0, mae_first_20 = 0;  // tokens; of calls within the first 20 bins of 10 tokens
};
LampsPredictor ScorePredictor(const Workload& requests);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_LAMPS_STUDY_H_
