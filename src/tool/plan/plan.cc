#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/host_threads.h"
#include "tool/run/output.h"
#include "tool/plan/plan_input.h"
#include "tool/plan/plan_report.h"
#include "tool/run/progress_bar.h"
#include "tool/run/terminal.h"
#include "tool/command/write_reports.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

struct PlanArguments {
  std::string workload, models;  // files
  std::int32_t gpus = 0;
  double rate = 0;  // requests per second
  std::optional<double> quality, latency;  // exactly one has a value
  std::optional<double> penalty;
  bool path = false;  // minimises the p95 along the path, not that of the slowest model
  std::vector<double> thresholds, grid;
  double judge_s = 0.27;
  double gpu_usd = 2.67;  // per hour
  std::string profiles;
  std::uint64_t seed = 1;
  std::int64_t requests = 8000;  // requests of the plan's simulation
  bool alternation = false;
  std::string json, html;
  bool no_wall = false;
  bool quiet = false;
  int threads = 0;  // 0: one per core
};

constexpr const char* kPlanExamples =
    R"(A line of the workload is {"prompt": 400, "outputs": [600, 550], "scores": [62, 91]}, one number per model; or
give cascadia:1 to cascadia:3 for requests like those of Cascadia's traces. The file of models is {"models": [{"name": "8b", "profile":
"aic/llama-3.1-8b/h100/bf16", "tp": [1, 2, 4, 8], "pp": [1, 2, 4]}, ...]}. See docs/howto/plan.md.

Examples
  takt plan --workload profiled.jsonl --models cascade.json --gpus 32 --rate 10 --quality 80 --html plan.html
  takt plan --workload cascadia:1 --models cascade.json --gpus 32 --rate 10 --latency 30 --alternation

Exit code: 0 done, 1 failed or no plan (the message lists what is missing), 2 wrong usage, 130 interrupted.)";

constexpr std::string_view kPlan = "plan";

constexpr ReportOf<PlanArguments, PlanRun> kPlanReports[] = {{"--json", &PlanArguments::json, PlanJson},
                                                             {"--html", &PlanArguments::html, PlanHtml}};

absl::Status CheckUsage(const PlanArguments& arguments) {
  const NamedPath inputs[] = {
      {"--workload", arguments.workload}, {"--models", arguments.models}, {"--profiles", arguments.profiles}};
  return CheckPaths(inputs, PathsOf(arguments, kPlanReports));
}

CascadeGoal GoalOf(const PlanArguments& arguments) {
  CascadeGoal goal;
  if (arguments.latency) {
    goal.kind = CascadeGoal::Kind::kLatencyBudget;
    goal.latency_budget = *arguments.latency;
  } else {
    goal.quality_floor = arguments.quality.value_or(0);
    goal.end_to_end = arguments.path;
  }
  if (arguments.penalty) goal.penalty = *arguments.penalty;
  return goal;
}

absl::StatusOr<CascadeProblem> ReadProblem(const PlanArguments& arguments) {
  std::vector<Profile> more;
  if (!arguments.profiles.empty()) {
    absl::StatusOr<std::vector<Profile>> read = ReadProfiles(arguments.profiles);
    if (!read.ok()) return read.status();
    more = *std::move(read);
  }
  absl::StatusOr<std::vector<ServedModel>> models = ReadModels(arguments.models, more);
  if (!models.ok()) return models.status();
  absl::StatusOr<std::vector<CascadeSample>> sample = ReadSample(arguments.workload, models->size());
  if (!sample.ok()) return sample.status();
  CascadeProblem problem{.models = *std::move(models), .sample = *std::move(sample)};
  problem.rate = arguments.rate;
  problem.gpus = arguments.gpus;
  problem.judge_s = arguments.judge_s;
  problem.gpu_usd_per_hour = arguments.gpu_usd;
  return problem;
}

absl::StatusOr<CascadeOptions> OptionsOf(const PlanArguments& arguments, std::size_t models) {
  CascadeOptions options;
  options.seed = arguments.seed;
  options.simulated = arguments.requests;
  if (!arguments.thresholds.empty()) {
    if (arguments.thresholds.size() + 1 != models) {
      return absl::InvalidArgumentError(
          fmt::format("--thresholds: {} for {} models; expected one for each model but the last",
                      arguments.thresholds.size(), models));
    }
    for (const double h : arguments.thresholds) options.grids.push_back({h});
  }
  options.grid = arguments.grid;
  return options;
}

absl::StatusOr<PlanRun> MakePlan(const PlanArguments& arguments, ProgressBar& bar) {
  auto seconds = [begin = std::chrono::steady_clock::now()]() mutable {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(begin, now)).count();
  };
  PlanRun run;
  run.workload = arguments.workload;
  run.tells_wall = !arguments.no_wall;
  run.goal = GoalOf(arguments);
  if (absl::Status status = run.goal.Validate(); !status.ok()) return status;
  absl::StatusOr<CascadeProblem> problem = ReadProblem(arguments);
  if (!problem.ok()) return problem.status();
  absl::StatusOr<CascadeOptions> options = OptionsOf(arguments, problem->models.size());
  if (!options.ok()) return options.status();
  run.problem = *std::move(problem);
  seconds();
  const absl::StatusOr<CascadePlanner> planner =
      CascadePlanner::Create(run.problem, *std::move(options), OnThreads(arguments.threads), [&](double done) {
        bar.Show(done, "measuring replicas");
        return !Interrupted();
      });
  if (!planner.ok()) return planner.status();
  run.measure_s = seconds();
  bar.Show(1, "planning");
  absl::StatusOr<CascadePlan> plan = planner->Plan(run.goal);
  if (!plan.ok()) return plan.status();
  run.plan = *std::move(plan);
  run.plan_s = seconds();
  if (arguments.alternation) {
    absl::StatusOr<CascadePlan> alternation = planner->Alternate(run.goal);
    if (alternation.ok()) {
      run.alternation = *std::move(alternation);
    } else {
      run.alternation_fault = std::string(alternation.status().message());
    }
  }
  run.frontier = planner->Frontier();
  run.routings = planner->routings();
  run.utopia = planner->utopia();
  run.nadir = planner->nadir();
  run.best_quality = planner->best_quality();
  run.most = planner->SustainableRate(run.plan.quality);
  return run;
}

int RunPlan(const PlanArguments& arguments) {
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return Complain(kPlan, usage, kUsage);
  absl::StatusOr<std::vector<OutputFile>> files = OpenReports(arguments, kPlanReports);
  if (!files.ok()) return Complain(kPlan, files.status(), kFailed);
  CatchInterrupts();
  ProgressBar bar(!arguments.quiet);
  const absl::StatusOr<PlanRun> run = MakePlan(arguments, bar);
  bar.Clear();
  if (!run.ok()) {
    return Complain(kPlan, run.status(), absl::IsCancelled(run.status()) ? kInterrupted : kFailed);
  }
  const absl::Status written = WriteReports(*run, arguments, kPlanReports, *files, arguments.quiet, PlanText);
  return written.ok() ? kDone : Complain(kPlan, written, kFailed);
}

}  // namespace

void AddPlan(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] =
      AddCommand(tool, chosen, "plan", "plan a cascade of models on a cluster: GPUs, replicas and thresholds", RunPlan,
                 kPlanExamples);
  Group problem(app, "Problem");
  problem.Add("--workload", to.workload, "FILE", "read requests answered by every model, with the judge's scores")
      .Required();
  problem.Add("--models", to.models, "FILE", "read the models of the cascade, the smallest first").Required();
  problem.Add("--gpus", to.gpus, "N", "set the number of GPUs of the cluster", Whole(1, 65536)).Required();
  problem.Add("--rate", to.rate, "X", "set the arrival rate, in requests per second", Positive()).Required();
  problem.Add("--judge-s", to.judge_s, "S", "set the judge's time per answer, in seconds");
  problem.Add("--gpu-usd", to.gpu_usd, "USD", "set the price of a GPU per hour");
  problem.Add("--profiles", to.profiles, "FILE", "read more profiles from a JSON file");
  Group goal(app, "Goal");
  const Flag quality =
      goal.Add("--quality", to.quality, "Q", "minimise the p95 latency with a mean score of at least Q [0]");
  const Flag latency = goal.Add("--latency", to.latency, "S",
                                "maximise the quality with a p95 latency of at most S seconds instead", Positive())
                           .Excludes({quality});
  goal.AddFlag("--path", to.path, "minimise the p95 latency of whole requests instead of the slowest model's p95")
      .Excludes({latency});
  goal.Add("--penalty", to.penalty, "MU",
           "allow a miss of the target, at a cost of MU per unit of the range [not allowed]", Positive());
  Group search(app, "Search");
  const Flag thresholds = search
                              .Add("--thresholds", to.thresholds, "H,...",
                                   "plan only for these thresholds, one for each model but the last")
                              .Listed();
  search.Add("--grid", to.grid, "H,...", "try these ascending thresholds for each model [0, 1 .. 101]")
      .Listed()
      .Excludes({thresholds});
  search.AddFlag("--alternation", to.alternation,
                 "also run the Cascadia paper's alternating search on the same tables");
  search.Add("--requests", to.requests, "N", "simulate the plan with N requests; 0: no simulation",
             Whole(0, 100'000'000));
  search.Add("--seed", to.seed, "N", "seed the random arrivals of the simulation");
  search.Add("-j,--threads", to.threads, "N", "use N threads [one per core]; results do not change", Whole(1, 1024));
  Group output(app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "write the plan, and the frontier of latency and quality");
  output.Add("--html", to.html, "FILE", "write a self-contained page with a picture of the plan");
  output.AddFlag("--no-wall", to.no_wall, "omit wall-clock times, so that equal runs write equal files");
  output.AddFlag("-q,--quiet", to.quiet, "print no table and no progress bar");
}

}  // namespace takt::tool
