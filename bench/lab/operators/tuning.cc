// Chooses the rivals of the scenario of operators: which order and which fixed limit serve three classes best.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "lab/operators/study.h"
#include "lab/operators/systems.h"
#include "lab/scenario.h"
#include "tool/run/terminal.h"

namespace takt::tool {
namespace {

absl::StatusOr<ScenarioReport> RunOperatorsTuning(const StudySettings& settings, ProgressBar& bar) {
  const absl::StatusOr<Profile> profile = FindProfile(kOperatorProfile);
  if (!profile.ok()) return profile.status();
  std::vector<NamedSystem> systems = StaticBudgets(*profile);
  for (const char* policy : {"fcfs", "priority", "edf"}) systems.push_back(PressureBudget(policy, *profile));
  CapacityStudy study(settings.Seeds(2, 4), systems, *profile, settings.minutes > 0 ? settings.minutes : 5);
  for (std::size_t s = 0; s < systems.size(); ++s) {
    for (const double load : kCapacityLoads) study.Add({s, load});
  }
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "Operators: the rivals' tuning";
  report.seeds = study.seeds();
  report.interrupted = Interrupted();
  report.conditions = study.Conditions();
  struct Row {
    std::size_t system;
    double capacity, late;
  };
  std::vector<Row> rows;
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const std::optional<Interval> capacity = study.Capacity(s);
    const CapacityCell* usual = study.Find({s, 0.8});
    if (capacity && usual != nullptr) rows.push_back({s, capacity->mean, usual->Mean(&CapacityFigures::late)});
  }
  std::ranges::stable_sort(rows, std::ranges::greater{}, &Row::capacity);
  Table table({{"", "system"}, {"", "capacity [rho]", true}, {"", "late steps at 0.8 [%]", true}});
  for (const Row& row : rows) {
    table.BeginRow();
    table.Text(systems[row.system].label), table.Text(fmt::format("{:.3f}", row.capacity));
    table.Text(fmt::format("{:.1f}", 100 * row.late));
    report.rows.push_back(
        {{"system", systems[row.system].label}, {"capacity_rho", row.capacity}, {"late_share", row.late}});
  }
  report.tables.push_back({"Capacity at 90 % attainment of every class", std::move(table)});
  return report;
}

}  // namespace

Scenario OperatorsTuningScenario() {
  return {"operators-tuning", "the rivals of the scenario operators: orders and fixed step limits", RunOperatorsTuning};
}

}  // namespace takt::tool
