#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>
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
  std::string name;  // empty: list what there is
  std::string json, html;
  std::string regime_name;  // empty: the default
  double width = 0;  // 0: not by it
  bool quiet = false;
};

constexpr std::string_view kScenario = "scenario";

std::string List() {
  std::string text = "Scenarios\n";
  for (const Scenario& s : Scenarios()) text += fmt::format("  {:<19}  {}\n", s.name, s.text);
  return text;
}

constexpr int kPilotSeeds = 6, kMostSeeds = 64;  // where seeds are counted by the width that is wanted

// How many seeds make the half widths of the claims' intervals what is wanted, after Stein's two stages (Ann. Math.
// Stat. 16, 1945): a deviation is what the pilot says. `width`: of ratios, and as a share of those in % and points.
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
    return Complain(kScenario, absl::InvalidArgumentError(fmt::format("there is no '{}'\n{}", arguments.name, List())),
                    kUsage);
  }
  StudySettings settings = arguments;
  if (!arguments.regime_name.empty()) {
    if (!scenario->has_regimes) {
      return Complain(kScenario,
                      absl::InvalidArgumentError(fmt::format(
                          "--regime: scenario '{}' has one alone, since it repeats no paper's", arguments.name)),
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
      report->conditions.push_back(
          {"Seeds", fmt::format("{}, so that the claims' intervals become {:g} wide to either side, by what {} of them "
                                "showed; at most {}",
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
  report->full = arguments.full;
  if (!arguments.no_wall)
    report->wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const absl::Status fault = WriteReports(*report, arguments, kScenarioReports, *files, arguments.quiet, ScenarioText);
  if (!fault.ok()) return Complain(kScenario, fault, kFailed);
  return report->interrupted ? kInterrupted : kDone;
}

void AddScenario(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(
      tool, chosen, "scenario", "repeat a paper's experiments, and put its claims next to what comes out", RunScenario,
      "Without a name: which scenarios there are. bench/lab/README.md tells what each needs, and what was "
      "measured.\n\n"
      "Example\n"
      "  takt-lab scenario lamps --data infercept_multi_api.jsonl --html lamps.html");
  Group options(app, "Options");
  options.Add("name", to.name, "NAME", "which one");
  options.Add("--data", to.data, "PATH",
              "its data: a file, or a folder that holds it [the folder that TAKT_DATA names, or ../shared/data]");
  options.AddFlag("--full", to.full, "longer runs, more seeds, as bench/lab/README.md says");
  options.Add("--regime", to.regime_name, "NAME",
              "of chimera, chimera-frontier, lamps, kairos, hexgen-flow, cascadia: engines fitted to what the paper "
              "measured of its "
              "baselines, rivals as published (paper), or all as takt has chosen it (takt); --full tells both [paper]",
              OneOf({"paper", "takt"}));
  options.Add("--seeds", to.seeds, "N", "paired runs of every system [as bench/lab/README.md says]", Whole(1, 1000));
  options.Add("--width", to.width, "X",
              "as many seeds as make the claims' 95 % intervals about so wide to either side, as a share: 0.02 is 2 "
              "points; --seeds is then how many show how many that takes [6]; at most 64",
              Positive());
  options.Add("--first-seed", to.first_seed, "N",
              "the seed of the first of them [1]; what is fitted and learnt beforehand has its own",
              Whole(1, 1'000'000));
  options.Add("--minutes", to.minutes, "X", "of arrivals in every run [as bench/lab/README.md says]", Positive());
  options.Add("-j,--threads", to.threads, "N", "runs at once [as many as there are cores]; changes no result",
              Whole(1, 1024));
  Group output(app, "Output (a file, or - for standard output)");
  output.Add("--json", to.json, "FILE", "all figures and claims");
  output.Add("--html", to.html, "FILE", "a page with plots, which needs nothing else");
  output.AddFlag("--no-wall", to.no_wall, "leave out how long it all took, so that equal runs give equal files");
  output.AddFlag("-q,--quiet", to.quiet, "no table, no progress bar");
}

}  // namespace
}  // namespace takt::tool

int main(int argc, char** argv) {
  using namespace takt::tool;
  return RunProgram({"takt-lab",
                     "takt-lab repeats the experiments of papers, and puts their claims next to its results.",
                     "Begin with\n  takt-lab scenario        which scenarios there are",
                     {AddScenario}},
                    argc, argv);
}
