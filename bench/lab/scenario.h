// A paper's experiments, repeated: rows of figures, and what the paper claims next to them.
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

// Under which conditions a paper's systems are judged.
enum class Regime : unsigned char {
  kPaper,  // free engine parameters fitted to what the paper measured of its baselines, never of its own system
  kTakt,   // what takt has chosen for all of them
};
constexpr auto NamesOf(Regime) { return std::to_array<std::string_view>({"paper", "takt"}); }

// What a scenario is run with.
struct StudySettings {
  std::string data;  // a file, or a folder that holds it; empty: where bench/lab/README.md says
  bool full = false;
  int seeds = 0;  // 0: as many as the scenario takes
  int first_seed = 1;
  double minutes = 0;  // of arrivals in every run; 0: as the scenario has it
  int threads = 0;     // 0: as many as there are cores
  bool no_wall = false;  // leaves out what wall clocks tell
  Regime regime = Regime::kPaper;  // of scenarios that have both

  // What was asked for; else so many as are usual, or with --full.
  SeedRange Seeds(int usual, int thorough) const { return {seeds > 0 ? seeds : full ? thorough : usual, first_seed}; }
};

struct Scenario {
  std::string_view name, text;
  absl::StatusOr<ScenarioReport> (*run)(const StudySettings& settings, ProgressBar& bar);
  bool has_regimes = false;
};

// All that there are, by name. A folder defines each; a further one is a line here and a section of
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
  X(Strangers)
#define TAKT_DECLARE_SCENARIO(name) Scenario name##Scenario();
TAKT_SCENARIOS(TAKT_DECLARE_SCENARIO)
#undef TAKT_DECLARE_SCENARIO

std::vector<Scenario> Scenarios();

// Puts the claims of another regime beside those of `report`: a table, and for each claim that differs why.
void AddOtherRegime(ScenarioReport& report, const ScenarioReport& other);

// Where a scenario's file is: `given` itself, or in it where it is a folder, below `folder` or not; where nothing was
// given, in the folder that TAKT_DATA names, or in ../shared/data. NotFound says where it was looked for.
absl::StatusOr<std::string> FindData(const std::string& given, const std::string& folder, const std::string& file);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_SCENARIO_H_
