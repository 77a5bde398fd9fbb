// The runs of the Kairos scenario.
#ifndef TAKT_BENCH_LAB_KAIROS_STUDY_H_
#define TAKT_BENCH_LAB_KAIROS_STUDY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tool/run/progress_bar.h"
#include "lab/figure.h"
#include "lab/study.h"
#include "takt/learning/agent_learner.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt::tool {

enum class KairosModel : unsigned char { k8B, k13B };
inline std::string_view Name(KairosModel m) { return m == KairosModel::k8B ? "Llama-3-8B" : "Llama-2-13B"; }
inline std::string_view ProfileOf(KairosModel m) {
  return m == KairosModel::k8B ? "derived/llama-3-8b/a40/bf16/tp1" : "derived/llama-2-13b/a40/bf16/tp1";
}

// The paper's ten scenarios: three applications, each with three families of inputs, and all of the first family.
inline constexpr std::string_view kKairosScenarios[] = {"qa:1", "qa:2", "qa:3", "rg:1", "rg:2",
                                                        "rg:3", "cg:1", "cg:2", "cg:3", "mix:1"};
inline constexpr std::size_t kAlike = 2, kMix = 9;  // qa:3, whose agents are alike; mix:1

enum class Knows : unsigned char {
  kNothing,
  kDepths,   // remaining stages of each agent, from the graphs that the applications' developers provide
  kLearns,   // statistics of ended calls
  kTruth,    // the true number of tokens that the workflow will still generate
};

struct KairosSystem {
  std::string label;
  std::string policy;     // order of the instances' queues
  std::string placement;  // "time_slot_packer": with a global queue of `policy` before instances
  Knows knows = Knows::kNothing;
  AgentOrderBy by = AgentOrderBy::kClassical;
  bool counts_late = true;  // time_slot_packer's `late`
  bool thresholds = false;  // time_slot_packer's default `danger` and `recovered`
  bool rate_of_model = false;  // decode rate from the cost model, not the measured one

  // Keyed by conditions, whatever the label.
  friend bool operator==(const KairosSystem& a, const KairosSystem& b) {
    return a.policy == b.policy && a.placement == b.placement && a.knows == b.knows && a.by == b.by &&
           a.counts_late == b.counts_late && a.thresholds == b.thresholds && a.rate_of_model == b.rate_of_model;
  }
};

struct KairosSetup {
  KairosModel model;
  std::size_t scenario;  // index in kKairosScenarios
  KairosSystem system;
  double load;  // share of the capacity of the four instances
  double calls_per_s = 0;  // rate of calls, instead of `load`; 0: by `load`
  std::int64_t kv_tokens = 0;  // size of each KV cache, at most the profile's; 0: the study's size
  double spread = 0;  // factor on the sigmas of all outputs; 0: the study's

  friend bool operator==(const KairosSetup&, const KairosSetup&) = default;
};

// Figures of one run, over all workflows. Token latency: time from a workflow's arrival to its end / generated tokens.
struct KairosFigures {
  double mean = 0, p90 = 0, p95 = 0, p99 = 0;  // ms per token
  double latency = 0;      // s, mean of a workflow
  double queued = 0;       // %, mean share of a workflow's time in which its calls waited before they first ran
  double preempted = 0;    // % of calls, at least once
  double recomputed = 0;   // % of all tokens computed
  double kv_peak = 0;      // share of the KV cache
  double rate = 0;         // workflows per second that arrived
  double drained = 0;      // s, from the first arrival to the last end
};
inline constexpr char kTokenLatency[] = "token latency [ms]";
inline constexpr Figure<KairosFigures> kKairosFigures[] = {
    {"rate_workflows", &KairosFigures::rate},
    {"token_latency_mean_ms", &KairosFigures::mean, "mean ms per token", "", kTokenLatency, "mean", Best::kSmallest},
    {"token_latency_p90_ms", &KairosFigures::p90, "P90 ms per token", "", kTokenLatency, "P90", Best::kSmallest},
    {"token_latency_p95_ms", &KairosFigures::p95, "P95 ms per token", "", kTokenLatency, "P95", Best::kSmallest},
    {"token_latency_p99_ms", &KairosFigures::p99, "P99 ms per token", "", kTokenLatency, "P99", Best::kSmallest},
    {"workflow_latency_mean_s", &KairosFigures::latency},
    {"queued_pct", &KairosFigures::queued, "% of the time queued", "", "", "queued %"},
    {"preempted_pct", &KairosFigures::preempted, "% of calls preempted", "", "", "preempted %"},
    {"recomputed_pct", &KairosFigures::recomputed, "% of tokens recomputed", "", "", "recomputed %"},
    {"kv_peak", &KairosFigures::kv_peak},
    {"drained_s", &KairosFigures::drained},
};
using KairosCell = Cell<KairosSetup, KairosFigures>;

// Data of one model and scenario: the workflows of every seed, and the capacity.
struct KairosGround {
  std::vector<Workload> workloads;  // by seed
  double saturation = 0;            // calls per second
  double workflows_per_s = 0;       // capacity in workflows per second
  double decode_rate = 0;           // tokens per second of a running request at capacity, without preempted ones
};

class KairosStudy : public Study<KairosSetup, KairosFigures> {
 public:
  // `arrivals`: a trace of times. `kv_tokens`: size of each KV cache of the 8B model, at most the profile's; the 13B
  // model always has the profile's. `spread`: as in KairosSetup.
  KairosStudy(const Workload& arrivals, double minutes, SeedRange seeds, std::int64_t kv_tokens, double spread);

  absl::Status Run(int threads, ProgressBar& bar);
  absl::Status Prepare(const KairosSetup& setup);  // makes the ground of a setup that is not in the study
  const KairosGround& ground(const KairosSetup& setup) const { return grounds_.at(KeyOf(setup)); }
  const KairosGround& ground(KairosModel model, std::size_t scenario) const {
    return ground({.model = model, .scenario = scenario, .system = {}, .load = 0});
  }
  double spread() const { return spread_; }
  std::int64_t KvTokensOf(KairosModel model, std::int64_t kv_tokens = 0) const {
    const std::int64_t all = profile(model).kv_capacity_tokens;
    return kv_tokens > 0 ? std::min(kv_tokens, all) : model == KairosModel::k8B ? std::min(kv_tokens_, all) : all;
  }
  const Profile& profile(KairosModel model) const { return profiles_[static_cast<std::size_t>(model)]; }

 private:
  using Key = std::tuple<KairosModel, std::size_t, std::int64_t, double>;  // scenario; KV tokens; spread
  Key KeyOf(const KairosSetup& s) const {
    return {s.model, s.scenario, KvTokensOf(s.model, s.kv_tokens), s.spread > 0 ? s.spread : spread_};
  }

  std::vector<TimePoint> arrivals_;
  double minutes_;
  std::int64_t kv_tokens_;
  double spread_;
  std::map<Key, KairosGround> grounds_;
  std::vector<Profile> profiles_;
};

ReplayOptions KairosOptionsOf(const KairosSetup& setup, const KairosStudy& study, const Workload& workload,
                              std::uint64_t seed);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_KAIROS_STUDY_H_
