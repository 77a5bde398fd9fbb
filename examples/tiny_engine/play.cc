#include "play.h"

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/exit_code.h"
#include "cli/load_workload.h"
#include "cli/progress_bar.h"
#include "cli/reports.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "fmt/format.h"
#include "gains.h"
#include "setup.h"
#include "step_log.h"
#include "takt/record.h"
#include "trace_run.h"

namespace tiny {
namespace {

using takt::cli::Comparison;
using takt::cli::OutputFile;
using takt::cli::Run;

// For reports, which speak of profiles.
takt::Profile ProfileOf(const Model& model, const Arguments& arguments) {
  takt::Profile profile;
  profile.id =
      fmt::format("tiny_engine, {:.1f} M parameters, {}{}", static_cast<double>(model.config().parameters()) / 1e6,
                  takt::cli::Counted(static_cast<long long>(arguments.threads), "thread"),
                  arguments.processor_time ? ", processor time" : "");
  profile.kv_capacity_tokens = std::int64_t{arguments.kv_blocks} * arguments.block_tokens;
  return profile;
}

struct TraceFiles {
  std::vector<OutputFile> reports;
  std::optional<OutputFile> steps, log;
};

absl::StatusOr<TraceFiles> OpenFiles(const Arguments& arguments) {
  TraceFiles files;
  absl::StatusOr<std::optional<OutputFile>> steps = OpenIfNamed(arguments.steps), log = OpenIfNamed(arguments.log);
  auto reports = takt::cli::OpenReports(arguments.common);
  for (const absl::Status& status : {steps.status(), log.status(), reports.status()}) {
    if (!status.ok()) return status;
  }
  if (*steps) files.steps.emplace(**std::move(steps));
  if (*log) files.log.emplace(**std::move(log));
  files.reports = *std::move(reports);
  return files;
}

absl::Status CheckUsage(const Arguments& arguments) {
  const takt::cli::ReplayArguments& common = arguments.common;
  if (!arguments.trace) return absl::InvalidArgumentError("--trace FILE is needed");
  if (common.estimates.size() > 1) return absl::InvalidArgumentError("--estimates: one kind at a time");
  if (common.policies.size() > 1 && !(arguments.log.empty() && arguments.steps.empty())) {
    return absl::InvalidArgumentError("--log and --steps are of one run: give one --policy");
  }
  const takt::cli::NamedPath trace{"--trace", common.workload.file};
  std::vector<takt::cli::NamedPath> outputs = takt::cli::ReportPaths(common);
  outputs.push_back({"--steps", arguments.steps});
  outputs.push_back({"--log", arguments.log});
  return takt::cli::CheckPaths(std::span(&trace, 1), outputs);
}

// What the text tells besides what every comparison does.
std::string Postscript(const std::string& policy, const TraceResult& traced, const StepTimes& steps) {
  std::string text = fmt::format("\nSteps under {}, by the number of requests in them:\n{}", policy, steps.Table());
  if (traced.result.stopped) {
    text += fmt::format("Cut: {} that ran and {} that waited or called tools.\n",
                        takt::cli::Counted(traced.cut_running, "request"), traced.cut_waiting);
  }
  return text;
}

absl::Status RunPolicy(const Model& model, const Arguments& arguments, const EngineOptions& engine, TraceFiles& files,
                       takt::cli::ProgressBar& bar, Comparison& comparison, Run& run) {
  const takt::cli::ReplayArguments& common = comparison.arguments;
  TraceOptions options;
  options.engine = engine;
  options.engine.policy = run.settings.policy;
  options.estimates = run.settings.estimates;
  options.seed = common.workload.seed;
  options.rate_scale = common.rate_scale;
  options.closed_loop = common.closed_loop;
  options.processor_time = arguments.processor_time;
  options.slo = {takt::FromSeconds(common.slo_ttft), takt::FromSeconds(common.slo_tpot)};
  options.progress = [&](double share) {
    bar.Show(share, "serving under " + run.settings.policy);
    return !takt::cli::Interrupted();
  };
  takt::Recorder recorder([&](std::string_view bytes) { files.log->Write(bytes); });
  if (files.log) options.engine.recorder = &recorder;
  StepTimes steps;
  if (!common.perfetto.empty()) {
    run.trace = std::make_unique<takt::cli::ScheduleTrace>(comparison.workload,
                                                           static_cast<std::size_t>(common.perfetto_limit));
  }
  options.on_step = [&](const StepReport& report, std::int64_t waiting, takt::Duration between) {
    steps.Add(report);
    if (files.steps) files.steps->Write(StepLine(report, between));
    if (run.trace) run.trace->OnStep({0, report.begin, report.end, waiting, report.plan, report.rows});
  };

  const auto begin = std::chrono::steady_clock::now();
  absl::StatusOr<TraceResult> traced = RunTrace(model, comparison.workload, options);
  if (files.log) recorder.Flush();
  if (!traced.ok()) return traced.status();
  run.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const StepTimes::Peak peak = steps.peak();
  run.measured = {{"most_requests_in_a_step", static_cast<double>(peak.requests)},
                  {"step_p50_s_at_most_requests", peak.step_s},
                  {"plan_commit_p50_s_at_most_requests", peak.plan_s},
                  {"computing_s", takt::ToSeconds(traced->counters.computing)},
                  {"plan_commit_s", takt::ToSeconds(traced->counters.scheduling)}};
  comparison.postscript += Postscript(run.settings.policy, *traced, steps);
  takt::cli::Keep(std::move(traced->result), true, run);
  return absl::OkStatus();
}

}  // namespace

int PlayTrace(Arguments arguments) {
  using takt::cli::kFailed;
  takt::cli::ReplayArguments& common = arguments.common;
  if (common.policies.empty()) common.policies = {"fcfs"};
  if (common.estimates.empty()) common.estimates = {"oracle"};
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return Complain(usage, takt::cli::kUsage);
  const absl::StatusOr<takt::EstimateSpec> estimates = takt::EstimateSpec::Parse(common.estimates[0]);
  if (!estimates.ok()) return Complain(estimates.status(), takt::cli::kUsage);
  const absl::StatusOr<EngineOptions> engine = MakeEngineOptions(arguments);
  if (!engine.ok()) return Complain(engine.status(), takt::cli::kUsage);
  const absl::StatusOr<Model> model = MakeModel(arguments.model);
  if (!model.ok()) return Complain(model.status(), kFailed);

  Comparison comparison;
  absl::StatusOr<takt::Workload> workload = takt::cli::LoadWorkload(common.workload);
  if (!workload.ok()) return Complain(workload.status(), kFailed);
  comparison.workload = *std::move(workload);
  comparison.profile = ProfileOf(*model, arguments);
  for (const std::string& policy : common.policies) {
    comparison.runs.emplace_back().settings = {policy, *estimates, std::nullopt, common.rate_scale};
  }
  comparison.arguments = common;
  absl::StatusOr<TraceFiles> files = OpenFiles(arguments);
  if (!files.ok()) return Complain(files.status(), kFailed);

  takt::cli::CatchInterrupts();
  takt::cli::ProgressBar bar(!common.quiet);
  const auto begin = std::chrono::steady_clock::now();
  for (Run& run : comparison.runs) {
    if (takt::cli::Interrupted()) break;
    absl::Status ran = RunPolicy(*model, arguments, *engine, *files, bar, comparison, run);
    if (!ran.ok()) return Complain(ran, kFailed);
  }
  bar.Clear();
  comparison.interrupted = takt::cli::Interrupted();
  comparison.postscript = GainTable(comparison) + comparison.postscript;
  comparison.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  absl::Status written = takt::cli::WriteReports(comparison, files->reports);
  if (files->steps) written.Update(files->steps->Close());
  if (files->log) written.Update(files->log->Close());
  if (!written.ok()) return Complain(written, kFailed);
  return comparison.interrupted ? takt::cli::kInterrupted : takt::cli::kDone;
}

}  // namespace tiny
