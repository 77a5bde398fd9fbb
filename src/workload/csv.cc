// The CSV formats. Columns are found by their names in the header, in any order; others are ignored.
#include <algorithm>
#include <array>
#include <optional>

#include "fmt/format.h"
#include "takt/base/random.h"
#include "workload/format.h"

namespace takt {
namespace {

enum Column : std::size_t { kTime, kPrompt, kOutput, kModel, kLogType, kColumns };

struct Scheme {
  WorkloadFormat format;
  std::array<std::string_view, kColumns> columns;  // empty: the format has no such column
};

constexpr std::array<Scheme, 3> kSchemes = {{
    {WorkloadFormat::kAzure, {"TIMESTAMP", "ContextTokens", "GeneratedTokens", "", ""}},
    {WorkloadFormat::kBurstGpt, {"Timestamp", "Request tokens", "Response tokens", "Model", "Log Type"}},
    {WorkloadFormat::kShareGpt, {"", "num_prefill_tokens", "num_decode_tokens", "", ""}},
}};

// Walks over the fields of a line. A field may be quoted; blanks around one that is not are taken off.
class Fields {
 public:
  explicit Fields(std::string_view line) : rest_(line) {}

  bool Next() {
    if (!more_) return false;
    std::size_t comma;
    if (!rest_.empty() && rest_[0] == '"') {
      const std::size_t quote = std::min(rest_.find('"', 1), rest_.size());
      field_ = rest_.substr(1, quote - 1);
      comma = rest_.find(',', quote);
    } else {
      comma = rest_.find(',');
      field_ = rest_.substr(0, comma);
      while (!field_.empty() && field_.front() == ' ') field_.remove_prefix(1);
      while (!field_.empty() && field_.back() == ' ') field_.remove_suffix(1);
    }
    more_ = comma != std::string_view::npos;
    rest_.remove_prefix(more_ ? comma + 1 : rest_.size());
    return true;
  }

  std::string_view field() const { return field_; }

 private:
  std::string_view rest_, field_;
  bool more_ = true;
};

class CsvParser : public LineParser {
 public:
  CsvParser(const Scheme& scheme, const ReadOptions& options, WorkloadBuilder& builder)
      : scheme_(scheme), builder_(builder), rate_(options.rate), random_(options.seed) {}

  absl::Status Header(std::string_view line) override {
    std::array<bool, kColumns> found = {};
    for (Fields fields(line); fields.Next();) {
      const std::size_t column = Find(fields.field());
      if (column < kColumns && found[column]) return BadField(fields.field(), "this column is there twice");
      if (column < kColumns) found[column] = true;
      column_of_.push_back(column);
    }
    for (const Column column : {kTime, kPrompt, kOutput}) {
      const std::string_view name = scheme_.columns[column];
      if (!name.empty() && !found[column]) return BadField("header", fmt::format("no column {}", name));
    }
    return absl::OkStatus();
  }

  absl::Status Parse(std::string_view line) override {
    if (absl::Status s = Split(line); !s.ok()) return s;
    const absl::StatusOr<std::int64_t> prompt = ParseWhole(fields_[kPrompt], kMaxContextTokens / 2);
    if (!prompt.ok()) return Bad(kPrompt, prompt.status());
    const absl::StatusOr<std::int64_t> output = ParseWhole(fields_[kOutput], kMaxContextTokens / 2);
    if (!output.ok()) return Bad(kOutput, output.status());
    const absl::StatusOr<TimePoint> arrival = Arrival();  // last: it changes what the next arrival is
    if (!arrival.ok()) return Bad(kTime, arrival.status());
    const std::uint32_t model = builder_.Name(fields_[kModel]);
    const std::uint32_t log_type = builder_.Name(fields_[kLogType]);
    builder_.Add(*arrival, AtLeastOne(*prompt), AtLeastOne(*output), model, log_type);
    return absl::OkStatus();
  }

 private:
  std::size_t Find(std::string_view name) const {
    if (name.empty()) return kColumns;
    return static_cast<std::size_t>(std::ranges::find(scheme_.columns, name) - scheme_.columns.begin());
  }

  absl::Status Split(std::string_view line) {
    std::size_t n = 0;
    for (Fields fields(line); fields.Next(); ++n) {
      if (n < column_of_.size() && column_of_[n] < kColumns) fields_[column_of_[n]] = fields.field();
    }
    if (n == column_of_.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("{} fields, but the header has {}", n, column_of_.size()));
  }

  absl::StatusOr<TimePoint> Arrival() {
    if (scheme_.format == WorkloadFormat::kAzure) return NearTheFirst(ParseTimestamp(fields_[kTime]));
    if (scheme_.format == WorkloadFormat::kShareGpt) return TimePoint(Generated());
    const absl::StatusOr<Duration> arrival = ParseSeconds(fields_[kTime]);
    if (!arrival.ok()) return arrival.status();
    return TimePoint(*arrival);
  }

  // Absolute times: what counts is how far they are apart.
  absl::StatusOr<TimePoint> NearTheFirst(absl::StatusOr<TimePoint> time) {
    if (!time.ok()) return time;
    if (!first_) first_ = *time;
    if (std::chrono::abs(*time - *first_) <= kMaxWorkloadTime / 2) return time;
    return absl::InvalidArgumentError(Quoted(fields_[kTime]) + " is too far from the first");
  }

  Duration Generated() {
    const Duration now = generated_;
    generated_ += std::min(FromSeconds(random_.Exponential() / rate_), kMaxWorkloadTime - now);
    return now;
  }

  absl::Status Bad(Column column, const absl::Status& status) const {
    return BadField(scheme_.columns[column], std::string(status.message()));
  }

  const Scheme& scheme_;
  WorkloadBuilder& builder_;
  std::vector<std::size_t> column_of_;  // by position in the line; kColumns for what is ignored
  std::array<std::string_view, kColumns> fields_;
  std::optional<TimePoint> first_;
  double rate_;
  Random random_;
  Duration generated_{0};
};

}  // namespace

std::unique_ptr<LineParser> MakeCsvParser(const ReadOptions& options, WorkloadFormat format, WorkloadBuilder& builder) {
  const auto* scheme = std::ranges::find(kSchemes, format, &Scheme::format);
  return std::make_unique<CsvParser>(*scheme, options, builder);
}

WorkloadFormat DetectCsv(std::string_view line) {
  for (Fields fields(line); fields.Next();) {
    if (fields.field().empty()) continue;
    for (const Scheme& scheme : kSchemes) {
      if (std::ranges::find(scheme.columns, fields.field()) != scheme.columns.end()) return scheme.format;
    }
  }
  return WorkloadFormat::kAuto;
}

}  // namespace takt
