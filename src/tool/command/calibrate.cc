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

struct Report {
  const char* name;
  std::string CalibrateArguments::* path;
  std::string (*write)(const CalibrationRun&);
};

constexpr Report kReports[] = {{"--out", &CalibrateArguments::out, ProfileFile},
                               {"--html", &CalibrateArguments::html, CalibrationHtml},
                               {"--json", &CalibrateArguments::json, CalibrationJson}};

absl::Status CheckUsage(const CalibrateArguments& arguments) {
  const std::vector<std::string_view> parts = internal::SplitId(arguments.id);
  bool whole = parts.size() >= 5 && internal::NumberAfter("tp", parts.back()) > 0;
  for (const std::string_view part : parts) whole &= !part.empty();
  if (!whole) {
    return absl::InvalidArgumentError(fmt::format(
        "--id: '{}' is not FAMILY/MODEL/GPU/DTYPE/tpN, such as own/llama-3.1-8b/h100/bf16/tp1", arguments.id));
  }
  const NamedPath log{"LOG", arguments.log};
  return CheckPaths(std::span(&log, 1), PathsOf(arguments, kReports));
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

// Every file is tried; the first error is told.
absl::Status WriteAll(const CalibrationRun& run, const CalibrateArguments& arguments, std::vector<OutputFile>& files) {
  std::FILE* stream = stdout;
  absl::Status fault = WriteReports(run, arguments, kReports, files, stream);
  if (std::fputs(CalibrationText(run).c_str(), stream) < 0 || std::fflush(stream) != 0) {
    fault.Update(absl::UnavailableError("cannot write the table"));
  }
  return fault;
}

}  // namespace

int RunCommand(const CalibrateArguments& arguments) {
  constexpr std::string_view kName = "calibrate";
  if (absl::Status usage = CheckUsage(arguments); !usage.ok()) return Complain(kName, usage, kUsage);
  absl::StatusOr<std::vector<OutputFile>> files = OpenReports(arguments, kReports);
  if (!files.ok()) return Complain(kName, files.status(), kFailed);
  absl::StatusOr<StepLog> log = LoadLog(arguments);
  if (!log.ok()) return Complain(kName, log.status(), kFailed);
  absl::StatusOr<EngineCalibration> found = Calibrate(*log, OptionsOf(arguments));
  if (!found.ok()) {
    return Complain(kName,
                    absl::InvalidArgumentError(InputName(arguments.log) + ": " + std::string(found.status().message())),
                    kFailed);
  }
  const absl::Status written =
      WriteAll({arguments, arguments.out, *std::move(log), *std::move(found)}, arguments, *files);
  return written.ok() ? kDone : Complain(kName, written, kFailed);
}

}  // namespace takt::tool
