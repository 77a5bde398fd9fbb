#include "tool/report/table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tool/report/html_text.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

constexpr std::size_t kGap = 2;  // blanks before every column
constexpr std::size_t kMark = 1;  // blank after a column, for '*'

void TrimRight(std::string& text) { text.erase(text.find_last_not_of(' ') + 1); }

}  // namespace

void Table::FormatColumn(std::size_t column) {
  int decimals = 0;
  for (const Row& row : rows_) {
    const double number = row.cells[column].number;
    if (std::isfinite(number) && number != std::trunc(number)) decimals = std::max(decimals, Decimals(number));
  }
  for (Row& row : rows_) {
    Cell& cell = row.cells[column];
    if (cell.is_number) cell.text = Fixed(cell.number, decimals);
  }
}

// Compares the shown text. All best numbers get the mark, unless all numbers are equal.
void Table::MarkBest(std::size_t column, int section) {
  const auto better = [&](double a, double b) { return columns_[column].best == Best::kSmallest ? a < b : a > b; };
  std::vector<Cell*> cells;
  for (Row& row : rows_) {
    if (row.section == section) cells.push_back(&row.cells[column]);
  }
  const Cell* best = nullptr;
  for (const Cell* cell : cells) {
    if (!std::isnan(cell->number) && (best == nullptr || better(cell->number, best->number))) best = cell;
  }
  const auto equals_best = [&](const Cell* cell) { return cell->text == best->text; };
  if (best == nullptr || std::all_of(cells.begin(), cells.end(), equals_best)) return;
  for (Cell* cell : cells) cell->best = equals_best(cell);
}

void Table::Format() {
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    FormatColumn(c);
    if (columns_[c].best == Best::kNone) continue;
    for (int section = 0; section <= section_; ++section) MarkBest(c, section);
  }
}

bool Table::grouped() const {
  return std::any_of(columns_.begin(), columns_.end(), [](const Column& c) { return !c.group.empty(); });
}

std::size_t Table::WidthOf(std::size_t column) const {
  std::size_t width = columns_[column].name.size();
  for (const Row& row : rows_) width = std::max(width, row.cells[column].text.size());
  return width + kMark;
}

// Returns the first column after `column` outside its group.
std::size_t Table::GroupEnd(std::size_t column) const {
  const std::string& group = columns_[column].group;
  std::size_t end = column + 1;
  while (end < columns_.size() && !group.empty() && columns_[end].group == group) ++end;
  return end;
}

// Returns a line with each group's name over its columns: centred over several columns, aligned as the column over one.
// Widens the group's first column if the name needs more room.
std::string Table::GroupLine(std::vector<std::size_t>& widths) const {
  std::string line;
  for (std::size_t from = 0, to = 0; from < columns_.size(); from = to) {
    to = GroupEnd(from);
    const std::string& group = columns_[from].group;
    const bool wide = to > from + 1;
    std::size_t width = kGap * (to - from - 1);
    for (std::size_t c = from; c < to; ++c) width += widths[c];
    const std::size_t wished = group.size() + kMark + (wide ? 4 : 0);
    if (!group.empty() && wished > width) {
      widths[from] += wished - width;
      width = wished;
    }
    const std::size_t inner = width - kMark;
    line += std::string(kGap, ' ');
    line += wide ? fmt::format("{:-^{}}", fmt::format(" {} ", group), inner) : fmt::format("{:>{}}", group, inner);
    line += std::string(kMark, ' ');
  }
  TrimRight(line);
  return line + "\n";
}

std::string Table::Line(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths, bool colour) const {
  std::string line;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const Cell& cell = cells[c];
    const std::string blanks(widths[c] - kMark - cell.text.size(), ' ');
    line += std::string(kGap, ' ');
    if (columns_[c].right) line += blanks;
    line += cell.best && colour ? fmt::format("{}{}{}", kBold, cell.text, kPlain) : cell.text;
    line += cell.best ? '*' : ' ';
    if (!columns_[c].right) line += blanks;
  }
  TrimRight(line);
  return line + "\n";
}

std::string Table::ToString(bool colour) {
  Format();
  std::vector<std::size_t> widths;
  std::vector<Cell> names;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(WidthOf(c));
    names.push_back({.text = columns_[c].name});
  }
  std::string out = grouped() ? GroupLine(widths) : "";
  out += Line(names, widths, false);
  int section = rows_.empty() ? 0 : rows_.front().section;
  for (const Row& row : rows_) {
    if (std::exchange(section, row.section) != row.section) out += "\n";
    out += Line(row.cells, widths, colour);
  }
  return out;
}

std::string Table::ToHtml() {
  Format();
  std::string html = "<table><thead>\n";
  if (grouped()) {
    html += "<tr>";
    for (std::size_t from = 0, to = 0; from < columns_.size(); from = to) {
      to = GroupEnd(from);
      html += fmt::format("<th{} colspan={}>{}</th>", to > from + 1 ? " class=group" : "", to - from,
                          HtmlText(columns_[from].group));
    }
    html += "</tr>\n";
  }
  html += "<tr>";
  for (const Column& c : columns_) html += fmt::format("<th{}>{}</th>", c.right ? "" : " class=text", HtmlText(c.name));
  html += "</tr></thead><tbody>\n";
  int section = rows_.empty() ? 0 : rows_.front().section;
  for (const Row& row : rows_) {
    html += std::exchange(section, row.section) != row.section ? "<tr class=new>" : "<tr>";
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const char* kind = row.cells[c].best ? " class=best" : columns_[c].right ? "" : " class=text";
      html += fmt::format("<td{}>{}</td>", kind, HtmlText(row.cells[c].text));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table>\n";
}

}  // namespace takt::tool
