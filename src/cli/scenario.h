// A paper's experiments, repeated: rows of figures, and what the paper claims next to them.
#ifndef TAKT_SRC_CLI_SCENARIO_H_
#define TAKT_SRC_CLI_SCENARIO_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/plot.h"
#include "cli/progress_bar.h"
#include "cli/reports.h"
#include "cli/table.h"

namespace takt::cli {

// Figures of one set of conditions, by their keys in the JSON.
using ScenarioRow = std::vector<std::pair<std::string, std::variant<std::string, std::int64_t, double>>>;

struct ScenarioClaim {
  std::string name;
  std::optional<double> ours;  // none: it could not be measured
  std::optional<double> paper_low, paper_high;  // none: without that bound
  std::string unit;
  bool holds = false;
  std::string reason;
  std::optional<double> limit = {};  // the end of ours' 95 % interval that decides; none: not shown
};

struct ScenarioTable {
  std::string heading;
  Table table;
  bool page_only = false;  // not part of the text
};

struct ScenarioPlots {
  std::string heading;
  std::vector<Plot> plots;  // their lines, by style, are the legend
};

struct ScenarioFigure {
  std::string heading, text;
  std::string svg;  // of the page's own style sheet: classes node, edge, ...
};

struct ScenarioReport {
  std::string title;
  std::vector<Condition> conditions;
  std::vector<std::string> findings;  // a sentence or two each
  std::vector<ScenarioTable> tables;
  std::vector<ScenarioPlots> plots;
  std::vector<ScenarioFigure> figures;
  std::vector<ScenarioRow> rows;
  std::vector<ScenarioClaim> claims;
  std::string claims_heading = "The paper's claims", claimed_by = "paper";
  std::int64_t seeds = 0;
  bool interrupted = false;  // rows and claims of what had not ended by then are missing, or without a figure
  double wall_s = 0;
};

struct Scenario {
  std::string_view name, text;
  absl::StatusOr<ScenarioReport> (*run)(const ScenarioArguments& arguments, ProgressBar& bar);
  bool takes_first_seed = false;
};

// By name; a further one is a line here, a file of its own and a section of docs/scenarios.md.
std::span<const Scenario> Scenarios();

absl::StatusOr<ScenarioReport> RunAging(const ScenarioArguments& arguments, ProgressBar& bar);
absl::StatusOr<ScenarioReport> RunChimera(const ScenarioArguments& arguments, ProgressBar& bar);
absl::StatusOr<ScenarioReport> RunDefault(const ScenarioArguments& arguments, ProgressBar& bar);
absl::StatusOr<ScenarioReport> RunDefaultSensitivity(const ScenarioArguments& arguments, ProgressBar& bar);
absl::StatusOr<ScenarioReport> RunHexgenFlow(const ScenarioArguments& arguments, ProgressBar& bar);
absl::StatusOr<ScenarioReport> RunCascadia(const ScenarioArguments& arguments, ProgressBar& bar);
absl::StatusOr<ScenarioReport> RunKairos(const ScenarioArguments& arguments, ProgressBar& bar);
absl::StatusOr<ScenarioReport> RunLamps(const ScenarioArguments& arguments, ProgressBar& bar);

// Where a scenario's file is: `given` itself, or in it where it is a folder, below `folder` or not; where nothing was
// given, in the folder that TAKT_DATA names, or in ../shared/data. NotFound says where it was looked for.
absl::StatusOr<std::string> FindData(const std::string& given, const std::string& folder, const std::string& file);

std::string ScenarioText(const ScenarioReport& report, bool colour);
std::string ScenarioHtml(const ScenarioReport& report);
std::string ScenarioJson(const ScenarioArguments& arguments, const ScenarioReport& report);

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_SCENARIO_H_
