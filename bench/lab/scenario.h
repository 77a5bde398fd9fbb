// Repeats a paper's experiments: rows of figures, and the paper's claims next to them.
#ifndef TAKT_BENCH_LAB_SCENARIO_H_
#define TAKT_BENCH_LAB_SCENARIO_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/study.h"
#include "lab/report/scenario_report.h"
#include "tool/run/progress_bar.h"

namespace takt::tool {

// Conditions under which a paper's systems are judged.
enum class Regime : unsigned char {
  kPaper,  // free engine parameters fitted to the paper's measurements of its baselines, never of its own system
  kTakt,   // parameters that takt chose, the same for all systems
};
constexpr auto NamesOf(Regime) { return std::to_array<std::string_view>({"paper", "takt"}); }

// Options of a scenario's run.
struct StudySettings {
  std::string data;  // file, or folder that contains it; empty: the default of bench/lab/README.md
  bool full = false;
  int seeds = 0;  // 0: the scenario's default
  int first_seed = 1;
  double minutes = 0;  // minutes of arrivals in each run; 0: the scenario's default
  int threads = 0;     // 0: one per core
  bool no_wall = false;  // omit figures measured by wall clock
  Regime regime = Regime::kPaper;  // for scenarios with both regimes

  // Returns the requested number, else the usual one or, with --full, the full one.
  SeedRange Seeds(int usual, int thorough) const { return {seeds > 0 ? seeds : full ? thorough : usual, first_seed}; }
};

struct Scenario {
  std::string_view name, text;
  absl::StatusOr<ScenarioReport> (*run)(const StudySettings& settings, ProgressBar& bar);
  bool has_regimes = false;
};

// All scenarios by name. Each folder defines one. A new scenario needs a line here and a section in
// bench/lab/README.md.
#define TAKT_SCENARIOS(X) \
  X(Agents)               \
  X(Aging)                \
  X(Cascadia)             \
  X(Chimera)              \
  X(ChimeraFrontier)      \
  X(Default)              \
  X(DefaultSensitivity)   \
  X(HexgenFlow)           \
  X(Kairos)               \
  X(Lamps)                \
  X(Operators)            \
  X(OperatorsTuning)      \
  X(Strangers)
#define TAKT_DECLARE_SCENARIO(name) Scenario name##Scenario();
TAKT_SCENARIOS(TAKT_DECLARE_SCENARIO)
#undef TAKT_DECLARE_SCENARIO

std::vector<Scenario> Scenarios();

// Puts the claims under another regime next to those of `report`: a table, and the reason for each difference.
void AddOtherRegime(ScenarioReport& report, const ScenarioReport& other);

// Finds a scenario's file: `given` itself, or in the folder `given`, also in its subfolder `folder`. Without `given`,
// searches the folder that TAKT_DATA names, or ../shared/data, or the samples in bench/lab/samples if there is no other
// folder. A NotFound error lists the places searched.
absl::StatusOr<std::string> FindData(const std::string& given, const std::string& folder, const std::string& file);

// Returns the description of the samples if FindData searches a folder of samples, else an empty text.
std::string SampleNote(const std::string& given);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_SCENARIO_H_
