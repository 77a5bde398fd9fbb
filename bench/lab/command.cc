#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/output.h"
#include "lab/scenario.h"
#include "tool/run/terminal.h"
#include "tool/command/write_reports.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

struct ScenarioArguments : StudySettings {
  std::string name;  // empty: list all scenarios
  std::string json, html;
  std::string regime_name;  // empty: the scenario's default
  double width = 0;  // 0: not derived from a width
  bool quiet = false;
};

constexpr std::string_view kScenario = "scenario";

std::string List() {
  std::string text = "Scenarios\n";
  for (const Scenario& s : Scenarios()) text += fmt::format("  {:<19}  {}\n", s.name, s.text);
  return text;
}

constexpr int kPilotSeeds = 6, kMostSeeds = 64;  // used if the requested width determines the number of seeds

// Returns how many seeds give the claims' intervals the requested half width, by Stein's two stages (Ann. Math. Stat.
// 16, 1945). The pilot supplies the deviation. `width`: relative for ratios, an absolute share for % and points.
int SeedsFor(const ScenarioReport& pilot, double width, int most) {
  double seeds = static_cast<double>(pilot.seeds);
  for (const ScenarioClaim& claim : pilot.claims) {
    if (!claim.low || !claim.high || !std::isfinite(*claim.high - *claim.low)) continue;
    const double half = (*claim.high - *claim.low) / 2 / (claim.unit == "x" ? 1 : 100);
    seeds = std::max(seeds, static_cast<double>(pilot.seeds) * (half / width) * (half / width));
  }
  return static_cast<int>(std::min(std::ceil(seeds), static_cast<double>(most)));
}

constexpr ReportOf<ScenarioArguments, ScenarioReport> kScenarioReports[] = {
    {"--json", &ScenarioArguments::json, ScenarioJson}, {"--html", &ScenarioArguments::html, ScenarioHtml}};

absl::StatusOr<ScenarioReport> RunUnder(const Scenario& scenario, const StudySettings& settings, ProgressBar& bar) {
  absl::StatusOr<ScenarioReport> report = scenario.run(settings, bar);
  if (report.ok() && scenario.has_regimes) report->regime = takt::Name(settings.regime);
  return report;
}

int RunScenario(const ScenarioArguments& arguments) {
  if (arguments.name.empty()) return Print(kScenario, List());
  const auto begin = std::chrono::steady_clock::now();
  CatchInterrupts();
  const std::vector<Scenario> scenarios = Scenarios();
  const auto scenario = std::ranges::find(scenarios, arguments.name, &Scenario::name);
  if (scenario == scenarios.end()) {
    return Complain(kScenario,
                    absl::InvalidArgumentError(fmt::format("unknown scenario '{}'\n{}", arguments.name, List())),
                    kUsage);
  }
  StudySettings settings = arguments;
  if (!arguments.regime_name.empty()) {
    if (!scenario->has_regimes) {
      return Complain(kScenario,
                      absl::InvalidArgumentError(fmt::format(
                          "--regime: scenario '{}' has only one regime, because it repeats no paper's experiments",
                          arguments.name)),
                      kUsage);
    }
    settings.regime = *FromName<Regime>(arguments.regime_name);
  }
  const NamedPath data{"--data", arguments.data};
  if (absl::Status usage = CheckPaths(std::span(&data, 1), PathsOf(arguments, kScenarioReports)); !usage.ok()) {
    return Complain(kScenario, usage, kUsage);
  }
  absl::StatusOr<std::vector<OutputFile>> files = OpenReports(arguments, kScenarioReports);
  if (!files.ok()) return Complain(kScenario, files.status(), kFailed);

  ProgressBar bar(!arguments.quiet);
  if (arguments.width > 0 && settings.seeds == 0) settings.seeds = kPilotSeeds;
  absl::StatusOr<ScenarioReport> report = RunUnder(*scenario, settings, bar);
  if (report.ok() && arguments.width > 0 && !report->interrupted) {
    const auto pilot = static_cast<int>(report->seeds);
    const int wanted = SeedsFor(*report, arguments.width, std::max(kMostSeeds, pilot));
    settings.seeds = wanted;
    if (wanted > pilot) report = RunUnder(*scenario, settings, bar);
    if (report.ok()) {
      report->conditions.push_back({"Seeds", fmt::format("{}, which narrows the claims' intervals to {:g} on either "
                                                         "side, as estimated from {} of them; at most {}",
                                                         wanted, arguments.width, pilot, std::max(kMostSeeds, pilot))});
    }
  }
  if (report.ok() && scenario->has_regimes && settings.full && !report->interrupted) {
    settings.regime = settings.regime == Regime::kPaper ? Regime::kTakt : Regime::kPaper;
    const absl::StatusOr<ScenarioReport> other = RunUnder(*scenario, settings, bar);
    if (other.ok()) AddOtherRegime(*report, *other);
    else report = other.status();
  }
  bar.Clear();
  if (!report.ok()) return Complain(kScenario, report.status(), kFailed);
  report->name = arguments.name;
  if (settings.first_seed != 1) {
    report->conditions.push_back({"First seed", fmt::format("{}", settings.first_seed)});
  }
  if (std::string note = SampleNote(settings.data); !note.empty())
    report->conditions.push_back({"Data", std::move(note)});
  report->full = arguments.full;
  if (!arguments.no_wall)
    report->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const absl::Status fault = WriteReports(*report, arguments, kScenarioReports, *files, arguments.quiet, ScenarioText);
  if (!fault.ok()) return Complain(kScenario, fault, kFailed);
  return report->interrupted ? kInterrupted : kDone;
}

void AddScenario(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(
      tool, chosen, "scenario", "repeat a paper's experiments and compare the results with its claims", RunScenario,
      "Lists the scenarios if no name is given. bench/lab/README.md lists their inputs and results.\n\nExample\n  "
      "takt-lab scenario lamps --data infercept_multi_api.jsonl --html lamps.html");
  Group options(app, "Options");
  options.Add("name", to.name, "NAME", "which one");
  options.Add("--data", to.data, "PATH",
              "input: a file, or a folder that contains it [the folder that TAKT_DATA names, or ../shared/data]");
  options.AddFlag("--full", to.full, "run longer and with more seeds, as bench/lab/README.md describes");
  options.Add("--regime", to.regime_name, "NAME",
              "choose engine parameters for chimera, chimera-frontier, lamps, kairos, hexgen-flow and cascadia: paper: "
              "engines fitted to the paper's baselines, rivals as published; takt: takt's choice for all systems. "
              "--full reports both [paper]",
              OneOf({"paper", "takt"}));
  options.Add("--seeds", to.seeds, "N",
              "run every system with this many paired seeds [as listed in bench/lab/README.md]", Whole(1, 1000));
  options.Add("--width", to.width, "X",
              "choose the number of seeds, at most 64, for about this half width of the claims' 95 % intervals, as a "
              "share: 0.02 is 2 points. --seeds sets the size of the pilot [6]",
              Positive());
  options.Add("--first-seed", to.first_seed, "N", "set the first seed [1]; fitting and training use seeds of their own",
              Whole(1, 1'000'000));
  options.Add("--minutes", to.minutes, "X", "minutes of arrivals in every run [as listed in bench/lab/README.md]",
              Positive());
  options.Add("-j,--threads", to.threads, "N", "runs at once [one per core]; does not change results", Whole(1, 1024));
  Group output(app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "write all figures and claims as JSON");
  output.Add("--html", to.html, "FILE", "write a self-contained page with plots");
  output.AddFlag("--no-wall", to.no_wall, "leave out elapsed times, so that equal runs give equal files");
  output.AddFlag("-q,--quiet", to.quiet, "print no table and no progress bar");
}

}  // namespace
}  // namespace takt::tool

int main(int argc, char** argv) {
  using namespace takt::tool;
  return RunProgram({"takt-lab",
                     "takt-lab repeats experiments of papers and compares the results with the papers' claims.",
                     "Begin with\n  takt-lab scenario        list the scenarios",
                     {AddScenario}},
                    argc, argv);
}
