// A paper's experiments, repeated: rows of figures, and what the paper claims next to them.
#ifndef TAKT_BENCH_LAB_REPORT_SCENARIO_REPORT_H_
#define TAKT_BENCH_LAB_REPORT_SCENARIO_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tool/report/plot.h"
#include "tool/report/reports.h"
#include "tool/report/table.h"

namespace takt::tool {

// Figures of one set of conditions, by their keys in the JSON.
using ScenarioRow = std::vector<std::pair<std::string, std::variant<std::string, std::int64_t, double>>>;

// Undecided: the 95 % interval contains the claimed figure and no effect, or nothing was measured. Beyond: the whole
// interval lies above the claimed range.
enum class Verdict : std::uint8_t { kHolds, kFails, kUndecided, kBeyond };
constexpr auto NamesOf(Verdict) { return std::to_array<std::string_view>({"holds", "fails", "undecided", "beyond"}); }

// Author of a claim. Fitted: the paper's figure, used to fit an engine's parameters.
enum class ClaimSource : std::uint8_t { kPaper, kOwn, kFitted };
constexpr auto NamesOf(ClaimSource) { return std::to_array<std::string_view>({"paper", "takt's own", "fitted"}); }

struct ScenarioClaim {
  std::string name;
  std::optional<double> ours;  // none: it could not be measured
  std::optional<double> paper_low, paper_high;  // none: without that bound
  std::string unit;
  Verdict verdict = Verdict::kUndecided;
  std::string reason;
  std::optional<double> limit = {};  // the end of ours' 95 % interval that decides; none: not shown
  std::optional<double> low = {}, high = {};  // ours' 95 % interval; none: judged by the figure alone
  ClaimSource source = ClaimSource::kPaper;

  bool holds() const { return verdict == Verdict::kHolds; }
};

// "4.61", "over 98", "27 to 85"
std::string PaperText(const ScenarioClaim& claim);

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
  std::string name;   // of the scenario
  std::string regime = {};  // under which it was run; empty: it has one alone
  bool full = false;  // at its full length
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
  bool interrupted = false;  // true: rows and claims of unfinished runs are missing, or have no figure
  std::optional<double> wall_s;  // wall-clock time; none: not reported
};

std::string ScenarioText(const ScenarioReport& report, bool colour);
std::string ScenarioHtml(const ScenarioReport& report);
std::string ScenarioJson(const ScenarioReport& report);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_REPORT_SCENARIO_REPORT_H_
