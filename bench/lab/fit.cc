#include "lab/fit.h"

#include <cmath>
#include <cstddef>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace takt::tool {

double FitError(const Fit& fit, const Fit::Tried& tried) {
  double sum = 0;
  for (std::size_t i = 0; i < fit.figures.size(); ++i) {
    const double off = std::log(tried.ours[i] / fit.figures[i].second);
    sum += off * off;
  }
  return 100 * (std::exp(std::sqrt(sum / static_cast<double>(fit.figures.size()))) - 1);
}

ScenarioTable FitTable(const Fit& fit) {
  std::vector<Table::Column> columns = {{"", fit.parameter, false}};
  for (const auto& [name, _] : fit.figures) columns.push_back({"baseline", name});
  columns.push_back({"", "off by %", true, Best::kSmallest});
  columns.push_back({"", "", false});
  Table table(std::move(columns));
  table.BeginSection();
  table.BeginRow();
  table.Text("the paper");
  for (const auto& [_, paper] : fit.figures) table.Number(paper);
  table.Number(Table::kNoNumber);
  table.Text("");
  table.BeginSection();
  for (const Fit::Tried& t : fit.tried) {
    if (t.ours.empty()) continue;
    table.BeginRow();
    table.Text(t.value);
    for (const double ours : t.ours) table.Number(ours);
    table.Number(FitError(fit, t));
    table.Text(t.note);
  }
  return {fmt::format("The fit of {} to the paper's baseline", fit.parameter), std::move(table)};
}

std::vector<ScenarioRow> FitRows(const Fit& fit) {
  std::vector<ScenarioRow> rows;
  for (const Fit::Tried& t : fit.tried) {
    if (t.ours.empty()) continue;
    ScenarioRow& row = rows.emplace_back(
        ScenarioRow{{"part", std::string("fit")}, {"parameter", fit.parameter}, {"value", t.value}, {"note", t.note}});
    for (std::size_t i = 0; i < fit.figures.size(); ++i) {
      row.emplace_back(fit.figures[i].first, t.ours[i]);
      row.emplace_back(fit.figures[i].first + ", paper", fit.figures[i].second);
    }
    row.emplace_back("off_by_pct", FitError(fit, t));
  }
  return rows;
}

std::string FitText(const Fit& fit) {
  std::vector<std::string> texts;
  for (const Fit::Tried& t : fit.tried) {
    if (!t.note.empty() && !t.ours.empty()) {
      texts.push_back(fmt::format("{} ({}): off by {:.0f} %", t.value, t.note, FitError(fit, t)));
    }
  }
  return fmt::format("{}: {}", fit.parameter, fmt::join(texts, "; "));
}

}  // namespace takt::tool
