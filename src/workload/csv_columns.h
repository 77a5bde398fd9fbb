// Tables of text: their fields, and their columns by name.
#ifndef TAKT_SRC_WORKLOAD_CSV_COLUMNS_H_
#define TAKT_SRC_WORKLOAD_CSV_COLUMNS_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "workload/format.h"

namespace takt {

// Iterates over the fields of a record that LineReader::AsCsv found. A field may be quoted, with its quotes doubled.
// Blanks around an unquoted field are removed.
class CsvFields {
 public:
  explicit CsvFields(std::string_view line) : rest_(line) {}

  bool Next() {
    if (!more_) return false;
    std::size_t comma;
    if (!rest_.empty() && rest_[0] == '"') {
      std::size_t quote = rest_.find('"', 1);
      doubled_ = false;
      while (quote != std::string_view::npos && rest_.substr(quote + 1).starts_with('"')) {
        doubled_ = true;
        quote = rest_.find('"', quote + 2);
      }
      quote = std::min(quote, rest_.size());
      field_ = rest_.substr(1, quote - 1);
      comma = rest_.find(',', quote);
      closed_ &= quote < rest_.size() && quote + 1 == std::min(comma, rest_.size());
    } else {
      doubled_ = false;
      comma = rest_.find(',');
      field_ = rest_.substr(0, comma);
      while (!field_.empty() && field_.front() == ' ') field_.remove_prefix(1);
      while (!field_.empty() && field_.back() == ' ') field_.remove_suffix(1);
    }
    more_ = comma != std::string_view::npos;
    rest_.remove_prefix(more_ ? comma + 1 : rest_.size());
    return true;
  }

  std::string_view field() const { return field_; }  // with quotes still doubled
  bool doubled() const { return doubled_; }  // the field has doubled quotes
  bool closed() const { return closed_; }  // every quoted field so far ends with its quote

 private:
  std::string_view rest_, field_;
  bool more_ = true, doubled_ = false, closed_ = true;
};

// Finds columns by their names in the header, in any order. Other columns are ignored.
class CsvColumns {
 public:
  // An empty name means no such column, and its field is empty. The first `needed` columns with a name are required.
  // `names` must outlive this object.
  CsvColumns(std::span<const std::string_view> names, std::size_t needed)
      : names_(names), needed_(needed), found_(names.size()), fields_(names.size()), unquoted_(names.size()) {}

  absl::Status Header(std::string_view line) {
    for (CsvFields fields(line); fields.Next();) {
      const std::size_t column = Find(fields.field());
      if (column < names_.size() && found_[column])
        return BadField(fields.field(), "occurs twice; expected each column once");
      if (column < names_.size()) found_[column] = true;
      column_of_.push_back(column);
    }
    for (std::size_t i = 0; i < needed_; ++i) {
      if (names_[i].empty() || found_[i]) continue;
      std::string columns;
      for (CsvFields fields(line); fields.Next();) {
        columns += fmt::format("{}{}", columns.empty() ? "" : ", ", Quoted(fields.field()));
      }
      return BadField("header", fmt::format("column {} is missing; the columns are {}", Quoted(names_[i]), columns));
    }
    return absl::OkStatus();
  }

  absl::Status Split(std::string_view line) {
    std::size_t n = 0;
    for (CsvFields fields(line); fields.Next(); ++n) {
      if (n < column_of_.size() && column_of_[n] < names_.size()) Keep(column_of_[n], fields);
    }
    if (n == column_of_.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{} fields; expected {}, as in the header", n, column_of_.size()));
  }

  bool has(std::size_t column) const { return found_[column]; }
  std::string_view field(std::size_t column) const { return fields_[column]; }  // of the last line that was split

 private:
  void Keep(std::size_t column, const CsvFields& fields) {
    fields_[column] = fields.field();
    if (!fields.doubled()) return;
    std::string& text = unquoted_[column];
    text.clear();
    for (std::size_t i = 0; i < fields.field().size(); ++i) {
      text += fields.field()[i];
      if (fields.field()[i] == '"') ++i;  // second quote of the pair
    }
    fields_[column] = text;
  }

  std::size_t Find(std::string_view name) const {
    if (name.empty()) return names_.size();
    return static_cast<std::size_t>(std::ranges::find(names_, name) - names_.begin());
  }

  std::span<const std::string_view> names_;
  std::size_t needed_;
  std::vector<bool> found_;
  std::vector<std::size_t> column_of_ = {};  // by position in the line; names_.size() for ignored columns
  std::vector<std::string_view> fields_;
  std::vector<std::string> unquoted_;  // by column; used if quotes were doubled
};

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_CSV_COLUMNS_H_
