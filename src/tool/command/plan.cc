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
#include "tool/command/plan_input.h"
#include "tool/report/plan_report.h"
#include "tool/run/progress_bar.h"
#include "tool/run/terminal.h"
#include "tool/command/write_reports.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr std::string_view kName = "plan";

struct PlanFile {
  const char* name;
  std::string PlanArguments::* path;
  std::string (*write)(const PlanRun&);
};
constexpr PlanFile kFiles[] = {{"--json", &PlanArguments::json, PlanJson}, {"--html", &PlanArguments::html, PlanHtml}};

absl::Status CheckUsage(const PlanArguments& arguments) {
  const NamedPath inputs[] = {
      {"--workload", arguments.workload}, {"--models", arguments.models}, {"--profiles", arguments.profiles}};
  return CheckPaths(inputs, PathsOf(arguments, kFiles));
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
      return absl::InvalidArgumentError(fmt::format("--thresholds: {} for {} models; each model but the last has one",
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

// Every file is tried; the first error is told.
absl::Status WriteAll(const PlanRun& run, const PlanArguments& arguments, std::vector<OutputFile>& files) {
  std::FILE* stream = stdout;
  absl::Status fault = WriteReports(run, arguments, kFiles, files, stream);
  if (!arguments.quiet &&
      (std::fputs(PlanText(run, WantsColour(stream)).c_str(), stream) < 0 || std::fflush(stream) != 0)) {
    fault.Update(absl::UnavailableError("cannot write the table"));
  }
  return fault;
}

}  // namespace

int RunCommand(const PlanArguments& arguments) {
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return Complain(kName, usage, kUsage);
  absl::StatusOr<std::vector<OutputFile>> files = OpenReports(arguments, kFiles);
  if (!files.ok()) return Complain(kName, files.status(), kFailed);
  CatchInterrupts();
  ProgressBar bar(!arguments.quiet);
  const absl::StatusOr<PlanRun> run = MakePlan(arguments, bar);
  bar.Clear();
  if (!run.ok()) {
    return Complain(kName, run.status(), absl::IsCancelled(run.status()) ? kInterrupted : kFailed);
  }
  const absl::Status written = WriteAll(*run, arguments, *files);
  return written.ok() ? kDone : Complain(kName, written, kFailed);
}

}  // namespace takt::tool
