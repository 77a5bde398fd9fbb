// A table with aligned columns.
#ifndef TAKT_SRC_TOOL_REPORT_TABLE_H_
#define TAKT_SRC_TOOL_REPORT_TABLE_H_

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tool/run/number_text.h"
#include "tool/run/shown_text.h"

namespace takt::tool {

enum class Best : unsigned char { kNone, kSmallest, kLargest };

class Table {
 public:
  struct Column {
    std::string group;  // shown once above neighbours that share it
    std::string name;
    bool right = true;
    Best best = Best::kNone;  // which number gets a mark
  };
  static constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {
    for (Column& c : columns_) c.group = ShownName(c.group), c.name = ShownName(c.name);
  }

  // Starts a section. Rows are compared only within their section.
  void BeginSection() { ++section_; }

  // Starts a row. Cells are filled from left to right. NaN is shown as a dash. Texts and column names pass through
  // ShownName.
  void BeginRow() { rows_.push_back({section_, {}}); }
  void Text(std::string_view text) { rows_.back().cells.push_back({.text = ShownName(text)}); }
  void Number(double number) { rows_.back().cells.push_back({.number = number, .is_number = true}); }

  // Returns the table as text. A column has one number of decimals: three significant digits for its smallest number,
  // at most 3. The best numbers have '*', and are bold if `colour`.
  std::string ToString(bool colour = false);

  // Returns the table as a <table>. The best cells have class "best", and a section's first row has class "new".
  std::string ToHtml();

 private:
  struct Cell {
    std::string text = {};
    double number = kNoNumber;
    bool is_number = false;
    bool best = false;
  };

  struct Row {
    int section = 0;
    std::vector<Cell> cells;
  };

  void Format();
  void FormatColumn(std::size_t column);
  void MarkBest(std::size_t column, int section);
  bool grouped() const;
  std::size_t WidthOf(std::size_t column) const;
  std::size_t GroupEnd(std::size_t column) const;
  std::string GroupLine(std::vector<std::size_t>& widths) const;
  std::string Line(const std::vector<Cell>& cells, const std::vector<std::size_t>& widths, bool colour) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
  int section_ = 0;
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_TABLE_H_
