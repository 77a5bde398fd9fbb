// What was said on the command line.
#ifndef TAKT_SRC_TOOL_COMMAND_ARGUMENTS_H_
#define TAKT_SRC_TOOL_COMMAND_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tool/lab/scenario.h"
#include "tool/report/calibration_report.h"
#include "tool/report/comparison.h"
#include "tool/run/load_workload.h"

namespace takt::tool {

struct ReplayArguments : ReplaySetup {
  WorkloadSource workload;
  std::vector<std::string> policies;
  std::vector<std::string> estimates;

  std::string profile = "aic/llama-3.1-8b/h100/bf16/tp1";
  std::string profiles_file;

  std::optional<double> load;
  std::vector<double> sweep;
  bool regret = false;

  std::string json, csv, csv_summary, html, perfetto;
  std::int64_t perfetto_limit = 300;  // requests
  bool no_wall = false;
  bool quiet = false;
  int threads = 0;  // 0: as many as there are cores
};

struct PoliciesArguments {};

struct ProfilesArguments {
  std::string file;
};

struct InspectArguments {
  WorkloadSource workload;
  std::string output;
};

struct GenerateArguments {
  std::string spec;
  std::string output = "-";
};

struct ReplayLogArguments {
  std::string file;
  bool dump = false;
};

struct CalibrateArguments : CalibrationSetup {
  std::string out, html, json;
  std::int32_t token_budget = 2048;
  std::int32_t max_seqs = 256;
  std::int64_t max_context = 0;
  bool skip_bad_lines = false;
};

struct CompareArguments {
  std::vector<std::string> measured, predicted;  // files
  double tie = 2;  // %
};

struct ScenarioArguments : StudySettings {
  std::string name;  // empty: list what there is
  std::string json, html;
  bool quiet = false;
};

struct PlanArguments {
  std::string workload, models;  // files
  std::int32_t gpus = 0;
  double rate = 0;  // requests per second
  std::optional<double> quality, latency;  // one of them
  std::optional<double> penalty;
  bool path = false;  // the least p95 along the path, not of the slowest model
  std::vector<double> thresholds, grid;
  double judge_s = 0.27;
  double gpu_usd = 2.67;  // per hour
  std::string profiles;
  std::uint64_t seed = 1;
  std::int64_t requests = 8000;  // that the plan is simulated with
  bool alternation = false;
  std::string json, html;
  bool no_wall = false;
  bool quiet = false;
  int threads = 0;  // 0: as many as there are cores
};

struct TuneArguments {
  WorkloadSource workload;
  std::vector<std::string> engines;  // profiles, an instance each
  std::string profiles;              // a file with more
  std::string placement = "workload_balance";
  std::string policy = "fcfs";
  std::string estimates = "lengths";
  std::string budget = "none";  // share, whole
  double slo_scale = 0;         // deadlines of so many times what a workflow takes alone; 0: those of the workload
  double rate_scale = 1;
  std::vector<double> alphas = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};
  std::int32_t seeds = 5;
  double quantile = 0.95;
  std::int32_t token_budget = 2048;
  std::int32_t max_seqs = 256;
  std::string json;
  bool quiet = false;
  int threads = 0;  // 0: as many as there are cores
};

struct ClusterArguments {
  std::string file;
  std::string solver;  // empty: the first that is built in
  double seconds = 60;
  double gap = 1e-6;
  bool patterns = false;
  std::string mps, json;
  bool quiet = false;
};

struct TrainArguments {
  std::string log;
  std::string out, json, html;
  double holdout = 0.2;
  int trees = 100, min_leaf = 10;
  std::uint64_t seed = 1;
  bool skip_bad_lines = false;
  bool quiet = false;
  int threads = 0;  // 0: as many as there are cores
};

struct PredictArguments {
  std::string model, log;
  std::string output = "-";
  std::string format = "csv";
  bool skip_bad_lines = false;
};

using Arguments =
    std::variant<ReplayArguments, PoliciesArguments, ProfilesArguments, InspectArguments, GenerateArguments,
                 ReplayLogArguments, CalibrateArguments, CompareArguments, ScenarioArguments, PlanArguments,
                 TuneArguments, ClusterArguments, TrainArguments, PredictArguments>;

// The arguments, or the exit code where there is nothing left to do: help has been printed, or what is wrong.
std::variant<Arguments, int> ParseArguments(int argc, const char* const* argv);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_ARGUMENTS_H_
