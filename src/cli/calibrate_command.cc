#include <cstdio>
#include <string>
#include <vector>

#include "cli/calibration_report.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/load_workload.h"
#include "cli/output.h"
#include "cli/write_reports.h"
#include "fmt/format.h"
#include "sim/profiles_table.h"

namespace takt::cli {
namespace {

struct Report {
  std::string CalibrateArguments::* path;
  std::string (*write)(const CalibrationRun&);
};

constexpr Report kReports[] = {{&CalibrateArguments::out, ProfileFile},
                               {&CalibrateArguments::html, CalibrationHtml},
                               {&CalibrateArguments::json, CalibrationJson}};

absl::Status CheckUsage(const CalibrateArguments& arguments) {
  const std::vector<std::string_view> parts = internal::SplitId(arguments.id);
  bool whole = parts.size() >= 5 && internal::NumberAfter("tp", parts.back()) > 0;
  for (const std::string_view part : parts) whole &= !part.empty();
  if (!whole) {
    return absl::InvalidArgumentError(fmt::format(
        "--id: '{}' is not FAMILY/MODEL/GPU/DTYPE/tpN, such as own/llama-3.1-8b/h100/bf16/tp1", arguments.id));
  }
  int to_stdout = 0;
  for (const Report& report : kReports) to_stdout += IsStdout(arguments.*report.path) ? 1 : 0;
  if (to_stdout > 1) return absl::InvalidArgumentError("only one file can go to standard output");
  return absl::OkStatus();
}

CalibrateOptions OptionsOf(const CalibrateArguments& arguments) {
  CalibrateOptions options{.holdout = arguments.holdout,
                           .max_seqs = arguments.max_seqs,
                           .token_budget = arguments.token_budget,
                           .max_context = arguments.max_context};
  for (std::size_t form = 0; form < kCostFormNames.size(); ++form) {
    if (arguments.form == kCostFormNames[form]) options.form = static_cast<CostForm>(form);
  }
  return options;
}

absl::StatusOr<StepLog> LoadLog(const CalibrateArguments& arguments) {
  StepLogReport report;
  absl::StatusOr<StepLog> log = ReadStepLog(
      arguments.log, {.plan_time = !arguments.no_plan_time, .skip_bad_lines = arguments.skip_bad_lines}, &report);
  if (log.ok()) NoteBadLines(arguments.log, report.bad_lines, report.bad_line_messages);
  return log;
}

// Every file is tried; the first error is told.
absl::Status WriteAll(const CalibrationRun& run) {
  std::FILE* stream = stdout;
  absl::Status fault = WriteReports(run, kReports, stream);
  if (std::fputs(CalibrationText(run).c_str(), stream) < 0 || std::fflush(stream) != 0) {
    fault.Update(absl::UnavailableError("cannot write the table"));
  }
  return fault;
}

}  // namespace

int RunCommand(const CalibrateArguments& arguments) {
  constexpr std::string_view kName = "calibrate";
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return Complain(kName, usage, kUsage);
  absl::StatusOr<StepLog> log = LoadLog(arguments);
  if (!log.ok()) return Complain(kName, log.status(), kFailed);
  absl::StatusOr<EngineCalibration> found = Calibrate(*log, OptionsOf(arguments));
  if (!found.ok()) {
    return Complain(kName, absl::InvalidArgumentError(arguments.log + ": " + std::string(found.status().message())),
                    kFailed);
  }
  const absl::Status written = WriteAll({arguments, *std::move(log), *std::move(found)});
  return written.ok() ? kDone : Complain(kName, written, kFailed);
}

}  // namespace takt::cli
