#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "tool/report/calibration_report.h"
#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/load_workload.h"
#include "tool/run/output.h"
#include "tool/command/write_reports.h"
#include "fmt/format.h"
#include "sim/profiles_table.h"

namespace takt::tool {
namespace {

struct CalibrateArguments : CalibrationSetup {
  std::string out, html, json;
  std::int32_t token_budget = 2048;
  std::int32_t max_seqs = 256;
  std::int64_t max_context = 0;
  bool skip_bad_lines = false;
};

constexpr const char* kCalibrateExamples =
    R"(The log is JSON, one step per line: {"time_s": 0.031, "rows": [[1, 812, 0, 1], [512, 0, 1, 0]]}. A row is
[tokens computed, context computed before, prefill, yields a token]. CSV with totals per step works, too.
docs/howto/fitting_profiles.md explains how to log the steps of takt, vLLM or llama.cpp.

Examples
  takt calibrate steps.jsonl --html fit.html
  takt calibrate steps.jsonl --id own/llama-3.1-8b/h100/bf16/tp1 --kv-tokens 430000 --out own.json
  takt replay --profiles own.json --profile own/llama-3.1-8b/h100/bf16/tp1)";

constexpr ReportOf<CalibrateArguments, CalibrationRun> kCalibrateReports[] = {
    {"--out", &CalibrateArguments::out, ProfileFile},
    {"--html", &CalibrateArguments::html, CalibrationHtml},
    {"--json", &CalibrateArguments::json, CalibrationJson}};

absl::Status CheckUsage(const CalibrateArguments& arguments) {
  const std::vector<std::string_view> parts = internal::SplitId(arguments.id);
  bool whole = parts.size() >= 5 && internal::NumberAfter("tp", parts.back()) > 0;
  for (const std::string_view part : parts) whole &= !part.empty();
  if (!whole) {
    return absl::InvalidArgumentError(fmt::format(
        "--id: '{}' is invalid; expected FAMILY/MODEL/GPU/DTYPE/tpN, such as own/llama-3.1-8b/h100/bf16/tp1",
        arguments.id));
  }
  const NamedPath log{"LOG", arguments.log};
  return CheckPaths(std::span(&log, 1), PathsOf(arguments, kCalibrateReports));
}

CalibrateOptions OptionsOf(const CalibrateArguments& arguments) {
  CalibrateOptions options{.holdout = arguments.holdout,
                           .max_seqs = arguments.max_seqs,
                           .token_budget = arguments.token_budget,
                           .max_context = arguments.max_context};
  options.form = FromName<CostForm>(arguments.form);
  return options;
}

absl::StatusOr<StepLog> LoadLog(const CalibrateArguments& arguments) {
  const StepLogOptions options{.plan_time = !arguments.no_plan_time, .skip_bad_lines = arguments.skip_bad_lines};
  const std::string name = InputName(arguments.log);
  StepLogReport report;
  absl::StatusOr<StepLog> log;
  if (IsStdout(arguments.log)) {
    const absl::StatusOr<std::string> text = ReadFile(arguments.log);
    log = text.ok() ? ParseStepLog(*text, name, options, &report) : text.status();
  } else {
    log = ReadStepLog(arguments.log, options, &report);
  }
  if (log.ok()) NoteBadLines(name, report.bad_lines, report.bad_line_messages);
  return log;
}

int RunCalibrate(const CalibrateArguments& arguments) {
  constexpr std::string_view kName = "calibrate";
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return Complain(kName, usage, kUsage);
  absl::StatusOr<std::vector<OutputFile>> files = OpenReports(arguments, kCalibrateReports);
  if (!files.ok()) return Complain(kName, files.status(), kFailed);
  absl::StatusOr<StepLog> log = LoadLog(arguments);
  if (!log.ok()) return Complain(kName, log.status(), kFailed);
  absl::StatusOr<EngineCalibration> found = Calibrate(*log, OptionsOf(arguments));
  if (!found.ok()) {
    return Complain(kName,
                    absl::InvalidArgumentError(InputName(arguments.log) + ": " + std::string(found.status().message())),
                    kFailed);
  }
  const CalibrationRun run = {arguments, arguments.out, *std::move(log), *std::move(found)};
  const absl::Status written = WriteReports(run, arguments, kCalibrateReports, *files, false,
                                            [](const CalibrationRun& r, bool) { return CalibrationText(r); });
  return written.ok() ? kDone : Complain(kName, written, kFailed);
}

}  // namespace

void AddCalibrate(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] =
      AddCommand(tool, chosen, "calibrate", "fit a profile to the log of an engine's steps and report its error",
                 RunCalibrate, kCalibrateExamples);
  Group log(app, "Log");
  log.Add("log", to.log, "FILE", "read each step's rows and duration; plain or gzip; - for standard input").Required();
  log.AddFlag("--skip-bad-lines", to.skip_bad_lines, "count and skip invalid lines");
  log.AddFlag("--no-plan-time", to.no_plan_time, "exclude the recorded planning time from the step times");
  Group fit(app, "Fit");
  fit.Add("--form", to.form, "NAME", "fit a linear or saturating model, or choose by held-out error (auto)",
          OneOf({"auto", "linear", "saturating"}));
  fit.Add("--holdout", to.holdout, "SHARE", "hold out this share of the steps to compare the models", Share(0.5));
  fit.Add("--token-budget", to.token_budget, "N", "warn if no step of the log has N prefill tokens", Whole(1));
  fit.Add("--max-seqs", to.max_seqs, "N", "warn if no step of the log has N decode rows", Whole(1));
  fit.Add("--max-context", to.max_context, "N", "warn if no step of the log has a context of N tokens [not checked]",
          Whole(1, INT64_MAX));
  Group profile(app, "Profile");
  profile.Add("--id", to.id, "ID", "name the profile FAMILY/MODEL/GPU/DTYPE/tpN");
  profile.Add("--kv-tokens", to.kv_tokens, "N", "set the capacity of the KV cache, in tokens", Whole(1, INT64_MAX));
  profile.Add("--kv-bytes-per-token", to.kv_bytes_per_token, "N",
              "set the KV bytes per token, for swaps and pause policies", Whole(1, INT64_MAX));
  profile.Add("--weight-bytes", to.weight_bytes, "N", "set the bytes of the model's weights", Whole(1, INT64_MAX));
  Group output(app, "Output (a file, or - for standard output)");
  output.Add("--out", to.out, "FILE", "write the profile as a file for --profiles");
  output.Add("--html", to.html, "FILE", "write a self-contained page with plots of the errors");
  output.Add("--json", to.json, "FILE", "write all figures");
}

}  // namespace takt::tool
