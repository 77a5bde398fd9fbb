// Measures takt's features for people who run a service: classes with targets, tenants, memory, answers to clients.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "lab/claim.h"
#include "lab/operators/chat.h"
#include "lab/operators/parts.h"
#include "lab/operators/roles.h"
#include "lab/operators/study.h"
#include "lab/operators/systems.h"
#include "lab/scenario.h"
#include "tool/run/terminal.h"

namespace takt::tool {
namespace {

constexpr std::size_t kBestStatic = 0, kPressure = 1, kPacedPriority = 2, kPacedTargets = 3;

std::vector<NamedSystem> ClassSystems(const Profile& profile) {
  return {StaticBudget("edf", kTunedPrompts, profile), PressureBudget("priority", profile),
          Paced("priority, paced", "priority", profile), Paced("first_token, paced", "first_token", profile)};
}

void AddClasses(const CapacityStudy& study, ScenarioReport& report) {
  Table table({{"", "system"},
               {"", "capacity [rho]", true, Best::kLargest},
               {"at rho 0.6", "interactive [%]", true},
               {"at rho 0.6", "agents [%]", true},
               {"at rho 0.6", "batch [%]", true},
               {"at rho 0.6", "late steps [%]", true},
               {"at rho 0.8", "interactive [%]", true},
               {"at rho 0.8", "agents [%]", true},
               {"at rho 0.8", "batch [%]", true},
               {"at rho 0.8", "late steps [%]", true}});
  for (std::size_t s = 0; s < study.systems().size(); ++s) {
    const std::optional<Interval> capacity = study.Capacity(s);
    if (!capacity) continue;
    table.BeginRow();
    table.Text(study.systems()[s].label);
    table.Number(capacity->mean);
    ScenarioRow row = {{"part", std::string("classes")}, {"system", study.systems()[s].label}};
    row.emplace_back("capacity_rho", capacity->mean);
    for (const double load : {0.6, 0.8}) {
      const CapacityCell* cell = study.Find({s, load});
      for (const auto figure :
           {&CapacityFigures::interactive, &CapacityFigures::agents, &CapacityFigures::batch, &CapacityFigures::late}) {
        table.Text(cell != nullptr ? fmt::format("{:.1f}", 100 * cell->Mean(figure)) : "-");
      }
      if (cell != nullptr) row.emplace_back(fmt::format("late_share_{:g}", load), cell->Mean(&CapacityFigures::late));
    }
    report.rows.push_back(std::move(row));
  }
  report.tables.push_back({"Three classes with bursts", std::move(table)});
}

std::vector<ScenarioClaim> ClassClaims(const CapacityStudy& study) {
  Claims claims;
  const auto ratio = [&](std::size_t ours, std::size_t other, const std::string& name, double least) {
    const std::vector<double> a = study.Capacities(ours), b = study.Capacities(other);
    Moments moments;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (b[i] > 0) moments.Add(a[i] / b[i]);
    }
    if (moments.count() == 0) return claims.Lacking(name, Over(least), "x");
    const Interval of = IntervalOf(moments);
    claims.Add(name, of, Over(least), "x", of.low > least, IntervalText(of), of.low);
  };
  ratio(kPacedPriority, kBestStatic, "(a) classes: capacity over the best fixed limit and order", 1.3);
  ratio(kPacedTargets, kBestStatic, "(a) classes: the same with first_token as the order", 1.3);
  ratio(kPacedPriority, kPressure, "(a) classes: capacity over a limit by pressure (stand-in)", 1);
  const CapacityCell* cell = study.Find({kPacedPriority, 0.8});
  const std::string name = "(a) classes: share of steps that keep the pace while prompts wait, rho 0.8";
  if (cell == nullptr) {
    claims.Lacking(name, {0.99, {}}, "");
  } else {
    const Interval late = cell->Of(&CapacityFigures::late), kept{1 - late.mean, 1 - late.high, 1 - late.low};
    claims.Add(name, kept, {0.99, {}}, "", kept.low >= 0.99, IntervalText(kept), kept.low);
  }
  return claims.Take();
}

absl::StatusOr<ScenarioReport> RunOperators(const StudySettings& settings, ProgressBar& bar) {
  const absl::StatusOr<Profile> profile = FindProfile(kOperatorProfile);
  if (!profile.ok()) return profile.status();
  const double minutes = settings.minutes > 0 ? settings.minutes : 5;
  CapacityStudy study(settings.Seeds(4, 12), ClassSystems(*profile), *profile, minutes);
  for (std::size_t s = 0; s < study.systems().size(); ++s) {
    for (const double load : kCapacityLoads) study.Add({s, load});
  }
  if (absl::Status run = study.Run(settings.threads, bar); !run.ok()) return run;

  ScenarioReport report;
  report.title = "Operators: classes, tenants, memory and answers";
  report.seeds = study.seeds();
  report.claims_heading = "Claims";
  report.claimed_by = "target";
  report.conditions = study.Conditions();
  report.conditions.push_back(
      {"Rivals", "the best order and fixed limit of scenario operators-tuning, seeds 901 to 912"});
  AddClasses(study, report);
  report.claims = ClassClaims(study);
  if (absl::Status s = AddOperatorParts(settings, *profile, study.seed_range(), bar, report); !s.ok()) return s;
  if (absl::Status s = AddChatPart(settings, study.seed_range(), bar, report); !s.ok()) return s;
  if (absl::Status s = AddRolesPart(settings, study.seed_range(), bar, report); !s.ok()) return s;
  report.interrupted = Interrupted();
  return report;
}

}  // namespace

Scenario OperatorsScenario() {
  return {"operators", "features for people who run a service: classes, tenants, memory, answers to clients",
          RunOperators};
}

}  // namespace takt::tool
