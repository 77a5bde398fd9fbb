#include "play.h"

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tool/run/exit_code.h"
#include "tool/run/load_workload.h"
#include "tool/run/progress_bar.h"
#include "tool/command/report_files.h"
#include "tool/report/json_writer.h"
#include "tool/report/reports.h"
#include "tool/report/table.h"
#include "tool/run/terminal.h"
#include "fmt/format.h"
#include "gains.h"
#include "setup.h"
#include "step_log.h"
#include "takt/record.h"
#include "takt/workload/sessions.h"
#include "trace_run.h"

namespace serving {
namespace {

using takt::tool::Comparison;
using takt::tool::OutputFile;
using takt::tool::Run;

// Returns a profile for reports.
takt::Profile ProfileOf(const Program& program, const ServedModel& model, const Arguments& arguments) {
  takt::Profile profile;
  profile.id = fmt::format("{}, {:.1f} M parameters, {}{}", program.name(), model.parameters() / 1e6,
                           takt::tool::Counted(static_cast<long long>(arguments.threads), "thread"),
                           arguments.processor_time ? ", processor time" : "");
  profile.kv_capacity_tokens = std::int64_t{arguments.kv_blocks} * arguments.block_tokens;
  return profile;
}

struct TraceFiles {
  std::vector<OutputFile> reports;
  std::optional<OutputFile> steps, log, tokens;
};

absl::StatusOr<TraceFiles> OpenFiles(const Arguments& arguments) {
  TraceFiles files;
  absl::StatusOr<std::optional<OutputFile>> steps = OpenIfNamed(arguments.steps), log = OpenIfNamed(arguments.log),
                                            tokens = OpenIfNamed(arguments.tokens);
  auto reports = takt::tool::OpenReports(arguments.common);
  for (const absl::Status& status : {steps.status(), log.status(), tokens.status(), reports.status()}) {
    if (!status.ok()) return status;
  }
  if (*steps) files.steps.emplace(**std::move(steps));
  if (*log) files.log.emplace(**std::move(log));
  if (*tokens) files.tokens.emplace(**std::move(tokens));
  files.reports = *std::move(reports);
  return files;
}

absl::Status CheckUsage(const Arguments& arguments) {
  const CommonArguments& common = arguments.common;
  if (!arguments.trace) return absl::InvalidArgumentError("--trace FILE is required");
  if (common.estimates.size() > 1) return absl::InvalidArgumentError("--estimates: expected a single kind");
  if (common.horizon > 0 && common.closed_loop == 0)
    return absl::InvalidArgumentError("--horizon: needs --closed-loop");
  if (common.think_cap && !(common.horizon > 0)) return absl::InvalidArgumentError("--think-cap: needs --horizon");
  if (common.policies.size() > 1 && !(arguments.log.empty() && arguments.steps.empty() && arguments.tokens.empty())) {
    return absl::InvalidArgumentError("--log, --steps and --tokens: expected a single --policy");
  }
  const takt::tool::NamedPath trace{"--trace", common.workload.file};
  std::vector<takt::tool::NamedPath> outputs = takt::tool::ReportPaths(common);
  outputs.push_back({"--steps", arguments.steps});
  outputs.push_back({"--log", arguments.log});
  outputs.push_back({"--tokens", arguments.tokens});
  return takt::tool::CheckPaths(std::span(&trace, 1), outputs);
}

// Returns the part of the report that other comparisons lack.
std::string Postscript(const std::string& policy, const TraceResult& traced, const StepTimes& steps) {
  std::string text = fmt::format("\nSteps under {}, by number of requests in a step:\n{}", policy, steps.Table());
  if (traced.result.stopped) {
    text += fmt::format("Interrupted: {} were running, and {} were waiting or calling tools.\n",
                        takt::tool::Counted(traced.cut_running, "request"), traced.cut_waiting);
  }
  return text;
}

std::string TokensLine(const CallTokens& call) {
  takt::tool::JsonWriter json(0);
  const auto list = [&json](std::string_view name, std::span<const std::int32_t> tokens) {
    json.Key(name).BeginArray();
    for (const std::int32_t token : tokens) json.Value(token);
    json.EndArray();
  };
  json.BeginObject().Field("call", call.call);
  list("prompt", call.prompt);
  list("output", call.output);
  json.Key("tools").BeginArray();
  for (const ToolCall& tool : call.tools) {
    json.BeginObject().Field("after", tool.after_tokens);
    list("answer", tool.answer);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take() + "\n";
}

absl::Status RunPolicy(const ServedModel& model, const Arguments& arguments, const EngineOptions& engine,
                       TraceFiles& files, takt::tool::ProgressBar& bar, Comparison& comparison, Run& run) {
  const CommonArguments& common = arguments.common;
  TraceOptions options{.engine = engine};
  options.engine.policy = run.settings.policy;
  options.estimates = run.settings.estimates;
  options.seed = common.workload.seed;
  options.rate_scale = common.rate_scale;
  options.closed_loop = common.closed_loop;
  options.horizon = takt::FromSeconds(common.horizon);
  options.warm_up = takt::FromSeconds(common.horizon * common.warm_up);
  options.processor_time = arguments.processor_time;
  options.slo = {takt::FromSeconds(common.slo_ttft), takt::FromSeconds(common.slo_tpot)};
  options.progress = [&](double share) {
    bar.Show(share, "serving under " + run.settings.policy);
    return !takt::tool::Interrupted();
  };
  takt::Recorder recorder([&](std::string_view bytes) { files.log->Write(bytes); });
  if (files.log) options.engine.recorder = &recorder;
  StepTimes steps;
  if (!common.perfetto.empty()) {
    run.trace = std::make_unique<takt::tool::ScheduleTrace>(comparison.workload,
                                                            static_cast<std::size_t>(common.perfetto_limit));
  }
  options.on_step = [&](const StepReport& report, std::int64_t waiting, takt::WaitsFor head, takt::Duration between) {
    steps.Add(report);
    if (files.steps) files.steps->Write(StepLine(report, between));
    if (run.trace) run.trace->OnStep({0, report.begin, report.end, waiting, head, report.plan, report.rows});
  };

  if (files.tokens) options.on_tokens = [&](const CallTokens& call) { files.tokens->Write(TokensLine(call)); };

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
  takt::tool::Keep(comparison, std::move(traced->result), true, run);
  return absl::OkStatus();
}

}  // namespace

int PlayTrace(Program& program, Arguments arguments) {
  using takt::tool::kFailed;
  CommonArguments& common = arguments.common;
  if (common.policies.empty()) common.policies = {"fcfs"};
  if (common.estimates.empty()) common.estimates = {"oracle"};
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return program.Complain(usage, takt::tool::kUsage);
  const absl::StatusOr<takt::EstimateSpec> estimates = takt::EstimateSpec::Parse(common.estimates[0]);
  if (!estimates.ok()) return program.Complain(estimates.status(), takt::tool::kUsage);
  const absl::StatusOr<EngineOptions> engine = MakeEngineOptions(arguments);
  if (!engine.ok()) return program.Complain(engine.status(), takt::tool::kUsage);
  const absl::StatusOr<std::unique_ptr<ServedModel>> model = program.Load(arguments);
  if (!model.ok()) return program.Complain(model.status(), kFailed);

  Comparison comparison;
  absl::StatusOr<takt::Workload> workload = takt::tool::LoadWorkload(common.workload);
  if (!workload.ok()) return program.Complain(workload.status(), kFailed);
  comparison.workload = *std::move(workload);
  if (common.horizon > 0) {
    takt::SessionLoad load{
        .closed_loop = common.closed_loop, .horizon = takt::FromSeconds(common.horizon), .seed = common.workload.seed};
    if (common.think_cap) load.think_cap = takt::FromSeconds(*common.think_cap);
    workload = takt::DrawSessions(comparison.workload, load);
    if (!workload.ok()) return program.Complain(workload.status(), kFailed);
    comparison.workload = *std::move(workload);
  }
  comparison.profile = ProfileOf(program, **model, arguments);
  for (const std::string& policy : common.policies) {
    comparison.runs.emplace_back().settings = {policy, *estimates, std::nullopt, common.rate_scale};
  }
  comparison.setup = common;
  comparison.source = common.workload.file;
  comparison.seed = common.workload.seed;
  comparison.tells_wall = !common.no_wall;
  absl::StatusOr<TraceFiles> files = OpenFiles(arguments);
  if (!files.ok()) return program.Complain(files.status(), kFailed);

  takt::tool::CatchInterrupts();
  takt::tool::ProgressBar bar(!common.quiet);
  const auto begin = std::chrono::steady_clock::now();
  for (Run& run : comparison.runs) {
    if (takt::tool::Interrupted()) break;
    absl::Status ran = RunPolicy(**model, arguments, *engine, *files, bar, comparison, run);
    if (!ran.ok()) return program.Complain(ran, kFailed);
  }
  bar.Clear();
  comparison.interrupted = takt::tool::Interrupted();
  comparison.postscript = GainTable(comparison) + comparison.postscript;
  comparison.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  absl::Status written = takt::tool::WriteReports(comparison, common, files->reports);
  if (files->steps) written.Update(files->steps->Close());
  if (files->log) written.Update(files->log->Close());
  if (files->tokens) written.Update(files->tokens->Close());
  if (!written.ok()) return program.Complain(written, kFailed);
  return comparison.interrupted ? takt::tool::kInterrupted : takt::tool::kDone;
}

}  // namespace serving
