// The runs of the HexGen-Flow scenario.
#ifndef TAKT_BENCH_LAB_HEXGEN_STUDY_H_
#define TAKT_BENCH_LAB_HEXGEN_STUDY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tool/run/progress_bar.h"
#include "lab/figure.h"
#include "lab/study.h"
#include "takt/planning/alpha_tuner.h"
#include "takt/sim/replay.h"
#include "takt/workflow/slo_budget.h"
#include "takt/workload/workload.h"

namespace takt::tool {

enum class HexgenCluster : unsigned char { kHetero1, kHetero2, kHomo };
inline constexpr HexgenCluster kHexgenClusters[] = {HexgenCluster::kHetero1, HexgenCluster::kHetero2,
                                                    HexgenCluster::kHomo};
inline constexpr std::string_view kHexgenClusterNames[] = {"Hetero-1", "Hetero-2", "Homo"};
inline std::string_view Name(HexgenCluster c) { return kHexgenClusterNames[static_cast<std::size_t>(c)]; }
inline constexpr std::size_t kHexgenInstances = 4;

enum class HexgenLoad : unsigned char { kTrace1, kTrace2, kTrace3, kChanging };
inline constexpr HexgenLoad kHexgenTraces[] = {HexgenLoad::kTrace1, HexgenLoad::kTrace2, HexgenLoad::kTrace3};
inline constexpr std::string_view kHexgenLoadNames[] = {"Trace 1", "Trace 2", "Trace 3", "changing"};
inline std::string_view Name(HexgenLoad l) { return kHexgenLoadNames[static_cast<std::size_t>(l)]; }

struct HexgenSystem {
  std::string label;
  std::string placement = "least_loaded", policy = "fcfs";
  std::optional<BudgetRule> budget = {};  // for orders by deadline; none: calls have their workflow's deadline
  bool query_is_tenant = false;           // VTC: every query is a user
  bool tuner = false;                     // alpha is tuned as the run goes
  EstimateSpec estimates = {EstimateKind::kLengths, 0};

  // Keyed by conditions, whatever the label.
  friend bool operator==(const HexgenSystem& a, const HexgenSystem& b) {
    return a.placement == b.placement && a.policy == b.policy && a.budget == b.budget &&
           a.query_is_tenant == b.query_is_tenant && a.tuner == b.tuner && a.estimates == b.estimates;
  }
};

struct HexgenSetup {
  HexgenCluster cluster = HexgenCluster::kHetero2;
  HexgenLoad load = HexgenLoad::kTrace1;
  double rate = 0.5;      // queries per second; kChanging: the peak rate
  HexgenSystem system = {};
  double slo_scale = 5;   // deadlines are this multiple of a query's time alone
  bool two_users = false; // every second query has twice the time

  friend bool operator==(const HexgenSetup&, const HexgenSetup&) = default;
};

inline constexpr std::array<double, 24> kHexgenScales = {1, 1.5, 2,  2.5, 3,  3.5, 4,  4.5, 5,  6,  7,   8,
                                                         9, 10,  12, 14,  17, 20,  25, 30,  40, 60, 100, 200};

// Figures of one run. Latencies are those of queries, from arrival to the end of the last call. A scale is a latency
// over the query's time alone on the fastest instances.
struct HexgenFigures {
  double p95 = 0, p95_middle = 0, mean = 0;  // s; middle: of the second and third quarter of the arrivals
  double scale = 0, scale_middle = 0;        // within which 95 % end
  double in_time = 0;                        // %, within their deadlines
  double throughput = 0;                     // queries per second, first arrival to last end
  double user1 = 0, user2 = 0;               // the scale of each user's queries
  double alpha = 0, searches = 0;            // the tuner's final value
  std::array<double, kHexgenScales.size()> attained = {};                 // % that end within each scale
  std::array<std::array<double, kHexgenInstances>, 4> calls = {};         // by the paper's stage and instance
  std::vector<std::pair<double, std::string>> decisions = {};  // the tuner's searches: when [s], choice and reason
};
using HexgenFigure = double HexgenFigures::*;
inline constexpr Figure<HexgenFigures> kHexgenFigures[] = {
    {"p95_s", &HexgenFigures::p95, "P95", "s", "P95 [s]", "all"},
    {"p95_middle_s", &HexgenFigures::p95_middle, "P95 [s], middle half", "", "P95 [s]", "middle half"},
    {"mean_s", &HexgenFigures::mean, "mean latency", "s"},
    {"scale_95", &HexgenFigures::scale, "SLO scale at 95 %", "", "scale at 95 %", "all"},
    {"scale_95_middle", &HexgenFigures::scale_middle, "SLO scale at 95 %, middle half", "", "scale at 95 %",
     "middle half"},
    {"in_time_pct", &HexgenFigures::in_time, "in time", "%", "", "in time %"},
    {"throughput_qps", &HexgenFigures::throughput, "throughput", "queries/s", "", "queries/s served"},
};
// Only for runs with two users.
inline constexpr Figure<HexgenFigures> kHexgenUserFigures[] = {
    {"scale_95_user1", &HexgenFigures::user1, "", "", "scale at 95 %", "user 1 (5 x)"},
    {"scale_95_user2", &HexgenFigures::user2, "", "", "scale at 95 %", "user 2 (10 x)"},
};
using HexgenCell = Cell<HexgenSetup, HexgenFigures>;

class HexgenStudy : public Study<HexgenSetup, HexgenFigures> {
 public:
  // `files` has the files of traces 1 and 2, and of Trace 3 if it exists. Without the latter Trace 3 is rebuilt from
  // the other two. `as_measured`: A6000 and L40 are slower than the A100 by the factors that the authors measured.
  static absl::StatusOr<HexgenStudy> Create(const std::vector<std::string>& files, SeedRange seeds, bool as_measured);

  absl::Status Run(int threads, ProgressBar& bar);

  // The alpha that a search finds for the conditions, on arrivals that no run uses, as the paper tunes it.
  struct Tuned {
    HexgenCluster cluster;
    HexgenLoad load;
    double rate;
    AlphaChoice choice = {};
  };
  absl::Status Tune(std::vector<Tuned>& all, int threads, ProgressBar& bar) const;

  // Only the queries that arrive within this many minutes, but at least eight; 0: all.
  void set_minutes(double minutes) { minutes_ = minutes; }
  double minutes() const { return minutes_; }
  bool as_measured() const { return as_measured_; }

  // The load must be a trace.
  const Workload& trace(HexgenLoad load) const { return traces_[static_cast<std::size_t>(load)]; }
  bool rebuilt() const { return rebuilt_; }  // Trace 3
  std::string NameOf(HexgenLoad load) const {
    return std::string(Name(load)) + (load == HexgenLoad::kTrace3 && rebuilt_ ? ", rebuilt" : "");
  }
  const std::vector<Profile>& engines(HexgenCluster c) const { return engines_[static_cast<std::size_t>(c)]; }

 private:
  using Study::Study;

  absl::StatusOr<Workload> WorkloadOf(const HexgenSetup& setup, std::uint64_t seed) const;
  ReplayOptions OptionsOf(const HexgenSetup& setup, std::uint64_t seed) const;
  absl::StatusOr<std::optional<HexgenFigures>> RunOne(const HexgenSetup& setup, std::uint64_t seed,
                                                      const RunProgress& progress) const;

  double minutes_ = 0;
  bool as_measured_ = false, rebuilt_ = false;
  Workload traces_[3];  // by HexgenLoad
  std::vector<Profile> engines_[3];  // by HexgenCluster
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_HEXGEN_STUDY_H_
