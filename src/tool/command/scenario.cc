#include <chrono>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/output.h"
#include "tool/lab/scenario.h"
#include "tool/run/terminal.h"
#include "tool/command/write_reports.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr std::string_view kName = "scenario";

std::string List() {
  std::string text = "Scenarios\n";
  for (const Scenario& s : Scenarios()) text += fmt::format("  {:<19}  {}\n", s.name, s.text);
  return text;
}

struct Report {
  const char* name;
  std::string ScenarioArguments::* path;
  std::string (*write)(const ScenarioReport&);
};
constexpr Report kReports[] = {{"--json", &ScenarioArguments::json, ScenarioJson},
                               {"--html", &ScenarioArguments::html, ScenarioHtml}};

// The exit code of writing all that was asked for; every file is tried.
int Write(const ScenarioArguments& arguments, const ScenarioReport& report, std::vector<OutputFile>& files) {
  std::FILE* stream = stdout;
  absl::Status fault = WriteReports(report, arguments, kReports, files, stream);
  if (!arguments.quiet) {
    if (std::fputs(ScenarioText(report, WantsColour(stream)).c_str(), stream) < 0 || std::fflush(stream) != 0) {
      fault.Update(absl::UnavailableError("cannot write the table"));
    }
  }
  if (!fault.ok()) return Complain(kName, fault, kFailed);
  return report.interrupted ? kInterrupted : kDone;
}

}  // namespace

int RunCommand(const ScenarioArguments& arguments) {
  if (arguments.name.empty()) return Print(kName, List());
  const auto begin = std::chrono::steady_clock::now();
  CatchInterrupts();
  const Scenario* scenario = nullptr;
  for (const Scenario& s : Scenarios()) {
    if (s.name == arguments.name) scenario = &s;
  }
  if (scenario == nullptr) {
    return Complain(kName, absl::InvalidArgumentError(fmt::format("there is no '{}'\n{}", arguments.name, List())),
                    kUsage);
  }
  if (arguments.first_seed != 1 && !scenario->takes_first_seed) {
    return Complain(
        kName,
        absl::InvalidArgumentError(fmt::format("--first-seed: scenario '{}' begins with seed 1", arguments.name)),
        kUsage);
  }
  const NamedPath data{"--data", arguments.data};
  if (absl::Status usage = CheckPaths(std::span(&data, 1), PathsOf(arguments, kReports)); !usage.ok()) {
    return Complain(kName, usage, kUsage);
  }
  absl::StatusOr<std::vector<OutputFile>> files = OpenReports(arguments, kReports);
  if (!files.ok()) return Complain(kName, files.status(), kFailed);

  ProgressBar bar(!arguments.quiet);
  absl::StatusOr<ScenarioReport> report = scenario->run(arguments, bar);
  bar.Clear();
  if (!report.ok()) return Complain(kName, report.status(), kFailed);
  report->name = arguments.name;
  report->full = arguments.full;
  if (!arguments.no_wall)
    report->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Write(arguments, *report, *files);
}

}  // namespace takt::tool
