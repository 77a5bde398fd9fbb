// One description of a study's figure, from which rows, tables, plots and claims are made.
#ifndef TAKT_BENCH_LAB_FIGURE_H_
#define TAKT_BENCH_LAB_FIGURE_H_

#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lab/study.h"
#include "tool/report/plot.h"
#include "lab/report/scenario_report.h"
#include "tool/report/table.h"

namespace takt::tool {

template <class Figures>
struct Figure {
  const char* key;  // in the JSON's rows
  double Figures::* member;
  const char *label = "", *unit = "";    // in plots and headings
  const char *group = "", *column = "";  // in tables, with the unit; no column: omitted from tables
  Best best = Best::kNone;

  std::string Text() const { return *unit == '\0' ? label : std::string(label) + " [" + unit + "]"; }
};

template <class Figures, std::size_t N>
constexpr const Figure<Figures>& FigureOf(const Figure<Figures> (&all)[N],
                                          std::type_identity_t<double Figures::*> member) {
  std::size_t i = 0;
  while (i + 1 < N && all[i].member != member) ++i;
  return all[i];
}

// Returns the figures with these members, in the order of `members`.
template <class Figures, std::size_t N>
std::vector<Figure<Figures>> Only(const Figure<Figures> (&all)[N],
                                  std::initializer_list<std::type_identity_t<double Figures::*>> members) {
  std::vector<Figure<Figures>> some;
  for (const auto member : members) some.push_back(FigureOf(all, member));
  return some;
}

template <class Cell, class FigureList>
void AddMeans(ScenarioRow& row, const Cell& cell, const FigureList& figures) {
  for (const auto& f : figures) row.emplace_back(f.key, cell.Mean(f.member));
}

// Appends to `first` a column for each figure that tables show.
template <class FigureList>
Table TableOf(std::vector<Table::Column> first, const FigureList& figures) {
  for (const auto& f : figures) {
    if (*f.column != '\0') first.push_back({f.group, f.column, true, f.best});
  }
  return Table(std::move(first));
}
// `show(member)` returns the text of each cell.
template <class FigureList, class Show>
void FillCells(const FigureList& figures, Show show) {
  for (const auto& f : figures) {
    if (*f.column != '\0') show(f.member);
  }
}

// Plots the figure against x. cell(x) is null if the run is incomplete.
template <class Figures, class Xs, class CellAt>
PlotLine LineOf(std::string name, std::size_t style, double Figures::* figure, const Xs& xs, CellAt cell) {
  PlotLine line{std::move(name), style, {}};
  for (const auto x : xs) {
    if (const auto* c = cell(x)) line.points.push_back({static_cast<double>(x), c->Mean(figure)});
  }
  return line;
}

// Cells of a study that are reported together, with the part's own labels. A cell may be in several parts.
struct StudyPart {
  std::string name;
  std::vector<std::size_t> cells;
  std::vector<std::string> labels;

  // "Changing load"
  std::string Heading() const {
    std::string heading = name;
    heading.front() = static_cast<char>(heading.front() - 'a' + 'A');
    return heading;
  }
};

template <class StudyType>
class StudyParts {
 public:
  explicit StudyParts(StudyType& study) : study_(study) {}

  void Begin(const char* name) { parts_.push_back({name, {}, {}}); }
  void Add(const decltype(StudyType::CellType::setup)& setup) {
    parts_.back().cells.push_back(study_.Add(setup));
    parts_.back().labels.push_back(setup.system.label);
  }
  // Calls the function with (part, cell, label) for each complete cell.
  template <class Told>
  void ForEach(Told told) const {
    for (const StudyPart& part : parts_) {
      for (std::size_t i = 0; i < part.cells.size(); ++i) {
        if (study_[part.cells[i]].complete()) told(part, study_[part.cells[i]], part.labels[i]);
      }
    }
  }
  const std::vector<StudyPart>& parts() const { return parts_; }

 private:
  StudyType& study_;
  std::vector<StudyPart> parts_;
};

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_FIGURE_H_
