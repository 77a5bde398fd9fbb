// The runs of the default's scenarios.
#ifndef TAKT_BENCH_LAB_DEFAULT_STUDY_H_
#define TAKT_BENCH_LAB_DEFAULT_STUDY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tool/run/progress_bar.h"
#include "lab/study.h"
#include "takt/sim/replay.h"
#include "takt/workload/workload.h"

namespace takt::tool {

// Workloads. The first eight are homes of published rivals.
enum class Served : unsigned char {
  kApps,     // Chimera's coding agents
  kMath,     // Chimera's solvers and verifiers
  kText1,    // HexGen-Flow's queries
  kText2,
  kTools,    // InferCept's requests, LAMPS' home
  kAgents,   // Kairos' applications
  kConv,     // Azure's conversations, FCFS' home
  kCode,     // Azure's code completions, likewise
  kShareGpt, // lengths on which no formula was fitted
  kApps7,    // apps as answered by a larger model, whose outputs are less unequal
  kMix,      // the homes on one GPU, with equal shares of it
  // For the sensitivity study only:
  kChats,        // Mooncake's conversations, whose prompts share beginnings; with a prefix cache
  kGreedyShort,  // conversations of nine tenants, and one tenant with the same total in short calls
  kGreedyAlike,  // the same, with calls like the others'
};
inline constexpr std::size_t kHomes = 8;
inline constexpr std::array<std::string_view, 14> kServedNames = {
    "apps", "math",     "text2sql 1", "text2sql 2", "tools", "agents",       "conv",
    "code", "sharegpt", "apps 7b",    "mix",        "chats", "greedy short", "greedy alike"};
// HexGen-Flow's workflows have deadlines; the other homes' do not.
inline constexpr bool UnderDeadlines(Served s) { return s == Served::kText1 || s == Served::kText2; }
inline std::string_view Name(Served s) { return kServedNames[static_cast<std::size_t>(s)]; }

// Length of arrivals relative to most workloads: workflows of many calls, and those that wait for tools, take longer
// alone.
inline constexpr double SpanOf(Served s) {
  const bool slow = s == Served::kText1 || s == Served::kText2 || s == Served::kTools || s == Served::kMix;
  return slow ? 2 : s == Served::kShareGpt ? 0.5 : 1;
}

inline constexpr std::string_view kDefaultProfile = "aic/llama-3.1-8b/h100/bf16/tp1";
inline constexpr double kDefaultSloScale = 5;  // deadlines are this multiple of a workflow's time alone
inline constexpr std::uint32_t kGreedyTenant = 1;

struct DefaultSystem {
  std::string label;
  std::string policy = "fcfs";
  std::optional<BudgetOptions> budget = {};  // calls get shares of their workflow's time as deadlines
  bool learns = false;  // from records of agents' ended calls
  bool asks = true;  // uses estimates
  bool by_deadline = false;  // needs deadlines: each workflow gets one

  // Keyed by conditions, whatever the label.
  friend bool operator==(const DefaultSystem& a, const DefaultSystem& b) {
    return a.policy == b.policy && a.budget == b.budget && a.learns == b.learns && a.by_deadline == b.by_deadline;
  }
};

struct DefaultSetup {
  Served served = Served::kApps;
  double load = 1.1;  // share of the largest rate that the instances serve under FCFS
  DefaultSystem system = {};
  EstimateSpec estimates = {};
  std::int32_t instances = 1;
  std::string placement = "least_loaded";

  friend bool operator==(const DefaultSetup&, const DefaultSetup&) = default;
};

// Figures of one run. Latencies are those of workflows, from arrival to the end of the last call. Slowdowns and scales
// divide them by the workflow's time alone.
struct DefaultFigures {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;  // s
  double ttft = 0, ttft_p99 = 0;  // s, of calls, from their arrival
  double slowdown_max = 0;
  double scale = 0;  // within which 95 % end
  double in_time = 0;  // %, within kDefaultSloScale
  double kv = 0;  // mean share of the KV cache in use
  double preempted = 0;
  double others = 0, others_p99 = 0;  // s, of all tenants except the greedy one; mean and p99 if there is none
};
using DefaultFigure = double DefaultFigures::*;
using DefaultCell = Cell<DefaultSetup, DefaultFigures>;

class DefaultStudy : public Study<DefaultSetup, DefaultFigures> {
 public:
  // `data`: a folder with text2sql/, tools/ and traces/; empty: the default folder of FindData.
  DefaultStudy(const std::string& data, double minutes, SeedRange seeds);

  bool has(Served served) const { return sources_[static_cast<std::size_t>(served)].missing.empty(); }
  const std::vector<std::string>& missing() const { return missing_; }  // files, by name
  double minutes() const { return minutes_; }
  const Profile& profile() const { return profile_; }

  // As Study::Add; false without data. Leaves conditions that no system uses out of the setup.
  std::optional<std::size_t> AddRun(DefaultSetup setup);
  const DefaultCell* FindRun(DefaultSetup setup) const;

  absl::Status Run(int threads, ProgressBar& bar);

  // Valid after Run: workflows and calls of a seed, and the measured capacity in requests per second, means over seeds.
  // Zero if nothing of it ran.
  struct Size {
    double workflows = 0, calls = 0, capacity_rps = 0;
  };
  Size SizeOf(Served served) const;

  // Ratio of two setups' figures less one, with its interval.
  std::optional<Reduction> Compare(const DefaultSetup& ours, const DefaultSetup& other, DefaultFigure figure) const;

 private:
  struct Source {
    std::string spec;  // of a generator
    Workload requests;  // of a file
    bool window = false;  // keeps the file's times
    std::string missing;  // why there is none
  };
  struct Ground {
    Workload workload;  // with deadlines for all
    Workload own;  // with deadlines for HexGen-Flow's workflows only
    IsolatedLatencies alone;
    double capacity_rps = 0;
  };

  DefaultSetup Reduced(DefaultSetup setup) const;
  absl::Status Prepare(int threads, ProgressBar& bar);
  absl::StatusOr<double> WorkflowsPerSecond(Served served) const;
  absl::StatusOr<Workload> Make(Served served, std::size_t workflows, std::uint64_t seed) const;
  absl::StatusOr<Workload> MakeMix(const std::vector<Served>& parts, std::uint64_t seed) const;
  absl::StatusOr<Workload> MakeGreedy(bool alike, std::uint64_t seed) const;
  absl::StatusOr<Ground> MakeGround(Served served, std::uint64_t seed) const;
  ReplayOptions OptionsOf(const DefaultSetup& setup, std::uint64_t seed) const;
  absl::StatusOr<std::optional<DefaultFigures>> RunOne(const DefaultSetup& setup, std::uint64_t seed,
                                                       const RunProgress& progress) const;

  double minutes_;
  Profile profile_;
  std::array<Source, kServedNames.size()> sources_;
  std::vector<std::string> missing_;
  std::array<double, kServedNames.size()> pace_ = {};  // largest workflows per second, of a sample
  std::array<std::vector<Ground>, kServedNames.size()> grounds_;  // by seed
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_DEFAULT_STUDY_H_
