// The runs of the Chimera scenario.
#ifndef TAKT_BENCH_LAB_CHIMERA_STUDY_H_
#define TAKT_BENCH_LAB_CHIMERA_STUDY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "tool/run/progress_bar.h"
#include "lab/study.h"
#include "takt/sim/estimates.h"
#include "takt/sim/replay.h"
#include "takt/workload/generate.h"
#include "takt/workload/workload.h"

namespace takt::tool {

inline std::string_view Name(ChimeraDataset d) { return d == ChimeraDataset::kApps ? "APPS" : "MATH"; }
inline constexpr ChimeraDataset kDatasets[] = {ChimeraDataset::kApps, ChimeraDataset::kMath};

// One engine of each model. The paper's four combinations, then models alone.
struct Deployment {
  const char* name;
  std::vector<std::string> models;
};
const std::vector<Deployment>& Deployments();
inline constexpr std::size_t kQwen7 = 0, kQwen14 = 1, kLlama = 2, kThree = 3, kFirstAlone = 4, kDeployments = 8;

enum class LengthsBy : unsigned char { kNobody, kForest, kTruth };
// Source of the probability, passed to placements, that a model solves a prompt.
enum class RouterBy : unsigned char {
  kNobody,
  kTrained,  // logistic heads on visible features of prompts
  kMean,     // the model's share of all prompts, the same for each
  kTruth,
};

struct ChimeraSystem {
  std::string label;
  std::string policy = "fcfs";
  LengthsBy lengths = LengthsBy::kNobody;
  RouterBy router = RouterBy::kNobody;  // no router: least loaded
  double tau = 0;                       // latency slack, with a router
  bool levels = false;                  // waiting requests displace running ones of a level below (MLFQ)
  bool gain = false;                    // gain_slack instead of confidence_slack
  // Replaces the slack: points per second of latency with `gain`, points per ms of latency per token if assigned.
  double price = 0;
  bool assigned = false;  // by AssignedToModels

  double value() const { return price > 0 || assigned ? price : tau; }

  // Keyed by conditions, whatever the label.
  friend bool operator==(const ChimeraSystem& a, const ChimeraSystem& b) {
    return a.policy == b.policy && a.lengths == b.lengths && a.router == b.router && a.tau == b.tau &&
           a.levels == b.levels && a.gain == b.gain && a.price == b.price && a.assigned == b.assigned;
  }
};

// Free parameters.
struct ChimeraFitted {
  std::int32_t seqs = 0;  // maximum sequences in a step
  std::size_t largest = 1;  // A6000s, each with an engine, of a deployment's last model; each other model has one
  double overhead_ms = 0;  // time of the host in each step, added to the profile's
  // APPS graded by tests: logit by which a test is easier than a whole problem, whose tests must all pass.
  double easier = 0;

  friend bool operator==(const ChimeraFitted&, const ChimeraFitted&) = default;
};

struct ChimeraSetup {
  ChimeraDataset dataset = ChimeraDataset::kApps;
  std::size_t deployment = 0;
  double rate = 8;  // workflows per second; one model alone: share of its capacity
  ChimeraSystem system;
  double gap_s = 0;  // between the end of a call and the next of its workflow
  std::optional<ChimeraFitted> fitted = {};  // none: the study's

  friend bool operator==(const ChimeraSetup&, const ChimeraSetup&) = default;
};

struct ChimeraFigures {
  double per_token = 0;  // ms: mean latency of a workflow over mean tokens of one
  double each_per_token = 0;  // ms: mean of every workflow's own latency per token
  double latency = 0;  // s, mean of a workflow ("makespan" in the paper)
  double p95 = 0;  // s, of a workflow
  double score = 0;  // %, mean value of the answers
  double queue = 0;  // s, mean wait of a call for its first step
  double strongest = 0;  // % of workflows answered by the last model of the deployment
  double drained = 0;  // s, from the first arrival to the last end
  // Predicted tokens, means over the run: in flight; of these already generated; of workflows between two calls, which
  // are not in flight.
  double in_flight = 0, written = 0, between = 0;
};
using ChimeraFigure = double ChimeraFigures::*;
using ChimeraCell = Cell<ChimeraSetup, ChimeraFigures>;

// Quality of the predictions at arrival, for the workflows of seed 1: their order by generated tokens on a model
// (Kendall's tau distance), and a model's success.
struct ChimeraPrediction {
  ChimeraDataset dataset;
  std::string model;
  double forest = 0, forest_all = 0;  // at arrival; at every call
  double best = 0;  // by the visible part alone, observed exactly
  double input = 0, fcfs = 0;
  double solved = 0;  // share
  double average_precision = 0, calibration = 0;  // of the router
};

class ChimeraStudy : public Study<ChimeraSetup, ChimeraFigures> {
 public:
  // `minutes`: arrivals at each rate; 0: `workflows` at any rate. `published`: MLFQ swaps displaced requests out
  // instead of recomputing them, and APPS scores the share of tests passed instead of all-or-nothing.
  ChimeraStudy(double minutes, SeedRange seeds, ChimeraFitted fitted, bool published)
      : Study(seeds), minutes_(minutes), fitted_(fitted), published_(published) {}

  absl::Status Run(int threads, ProgressBar& bar);

  const ChimeraFitted& fitted() const { return fitted_; }
  bool published() const { return published_; }
  static constexpr int kWorkflows = 1000, kTraining = 2000;
  const std::vector<ChimeraPrediction>& predictions() const { return predictions_; }
  double capacity(ChimeraDataset d, std::size_t deployment) const {  // workflows per second
    return capacity_[static_cast<std::size_t>(d)][deployment];
  }

 private:
  struct Seed {
    Workload workload;
    Forecasts learnt;  // output, left; scores of the trained router
    std::vector<float> mean;  // each model's share of all prompts
    std::map<double, std::vector<float>> truth;  // by ChimeraFitted::easier: the true values of answers
  };

  absl::Status Prepare(int threads);
  absl::Status Learn(ChimeraDataset d, int threads);
  // By workflow and model.
  const std::vector<float>& ScoresOf(const Seed& seed, RouterBy router) const;
  const std::vector<float>& TruthOf(const Seed& seed, const ChimeraSetup& setup) const {
    return seed.truth.at(setup.fitted.value_or(fitted_).easier);
  }
  // Predicted tokens of a call of the workflow, counted from 0, and of all later calls.
  double TokensOf(const Seed& seed, const ChimeraSystem& system, const Workload& w, const WorkloadWorkflow& workflow,
                  std::uint32_t call, std::size_t model) const;
  void UseChimera(const Seed& seed, const ChimeraSystem& system, const Workload& w, ReplayOptions& options) const;
  absl::StatusOr<std::optional<ChimeraFigures>> RunOne(const ChimeraSetup& setup, std::uint64_t seed,
                                                       const RunProgress& progress) const;
  absl::StatusOr<std::optional<ChimeraFigures>> RunAssigned(const ChimeraSetup& setup, const Seed& seed,
                                                            const Workload& w, ReplayOptions& options) const;
  ChimeraFigures FiguresOf(const ChimeraSetup& setup, const Seed& seed, const Workload& w,
                           const ReplayResult& result) const;

  double minutes_;
  ChimeraFitted fitted_;
  bool published_;
  std::array<std::vector<Seed>, 2> seeds_of_;
  std::array<std::array<double, kDeployments>, 2> capacity_ = {};
  std::vector<ChimeraPrediction> predictions_;
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CHIMERA_STUDY_H_
