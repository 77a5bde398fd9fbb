#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/scenario.h"
#include "cli/terminal.h"
#include "cli/write_reports.h"
#include "fmt/format.h"

namespace takt::cli {
namespace {

constexpr std::string_view kName = "scenario";

constexpr Scenario kScenarios[] = {
    {"aging", "shortest total job first with a starvation counter: from which load on it is first come, first served",
     RunAging},
    {"cascadia", "cascades of models: GPUs, replicas and thresholds, against six rivals", RunCascadia},
    {"chimera", "agentic workflows on models of unlike sizes: vLLM, MLFQ, LTR and Chimera, latency against score",
     RunChimera},
    {"default", "the default order against every rival, each on its own workload, and all of them on one GPU",
     RunDefault, true},
    {"default-sensitivity", "the default order with its constants halved and doubled, and in other surroundings",
     RunDefaultSensitivity, true},
    {"hexgen-flow", "text-to-SQL workflows under deadlines on unequal GPUs: vLLM, VTC, QLM and HexGen-Flow",
     RunHexgenFlow},
    {"kairos", "agents that share a model: Parrot, Ayo and Kairos, from no queue to deep overload", RunKairos},
    {"lamps", "requests that call tools: vLLM, InferCept and LAMPS at 1 to 10 requests a second", RunLamps},
};

std::string List() {
  std::string text = "Scenarios\n";
  for (const Scenario& s : Scenarios()) text += fmt::format("  {:<19}  {}\n", s.name, s.text);
  return text;
}

struct ScenarioRun {
  const ScenarioArguments& arguments;
  const ScenarioReport& report;
};
struct Report {
  const char* name;
  std::string ScenarioArguments::* path;
  std::string (*write)(const ScenarioRun&);
};
constexpr Report kReports[] = {
    {"--json", &ScenarioArguments::json,
     [](const ScenarioRun& run) { return ScenarioJson(run.arguments, run.report); }},
    {"--html", &ScenarioArguments::html, [](const ScenarioRun& run) { return ScenarioHtml(run.report); }}};

// The exit code of writing all that was asked for; every file is tried.
int Write(const ScenarioRun& run, std::vector<OutputFile>& files) {
  const auto& [arguments, report] = run;
  std::FILE* stream = stdout;
  absl::Status fault = WriteReports(run, kReports, files, stream);
  if (!arguments.quiet) {
    if (std::fputs(ScenarioText(report, WantsColour(stream)).c_str(), stream) < 0 || std::fflush(stream) != 0) {
      fault.Update(absl::UnavailableError("cannot write the table"));
    }
  }
  if (!fault.ok()) return Complain(kName, fault, kFailed);
  return report.interrupted ? kInterrupted : kDone;
}

}  // namespace

std::span<const Scenario> Scenarios() { return kScenarios; }

absl::StatusOr<std::string> FindData(const std::string& given, const std::string& folder, const std::string& file) {
  namespace fs = std::filesystem;
  const char* named = std::getenv("TAKT_DATA");
  const fs::path root = !given.empty() ? given : named != nullptr && *named != '\0' ? named : "../shared/data";
  std::error_code ignored;
  if (!given.empty() && !fs::is_directory(root, ignored)) return given;  // reading it tells what is wrong with it
  for (const fs::path& path : {root / folder / file, root / file}) {
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return absl::NotFoundError(fmt::format("neither {} nor {} is there; --data says where {} is",
                                         (root / folder / file).string(), (root / file).string(), file));
}

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
  report->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return Write({arguments, *report}, *files);
}

}  // namespace takt::cli
