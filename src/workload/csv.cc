// The CSV formats. Columns are found by their names in the header, in any order. Other columns are ignored.
#include <algorithm>
#include <array>
#include <optional>
#include <ranges>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "workload/csv_columns.h"
#include "workload/format.h"

namespace takt {
namespace {

enum Column : std::size_t { kTime, kPrompt, kOutput, kModel, kLogType, kColumns };

constexpr std::size_t kNeeded = kOutput + 1;  // number of columns that every format has

struct Scheme {
  WorkloadFormat format;
  std::array<std::string_view, kColumns> columns;  // empty or missing: the format has no such column
};

constexpr auto kSchemes = std::to_array<Scheme>({
    {WorkloadFormat::kAzure, {"TIMESTAMP", "ContextTokens", "GeneratedTokens"}},
    {WorkloadFormat::kBurstGpt, {"Timestamp", "Request tokens", "Response tokens", "Model", "Log Type"}},
    {WorkloadFormat::kShareGpt, {"", "num_prefill_tokens", "num_decode_tokens"}},
});

class CsvParser : public LineParser {
 public:
  CsvParser(const Scheme& scheme, const ReadOptions& options, WorkloadBuilder& builder)
      : scheme_(scheme), builder_(builder), columns_(scheme.columns, kNeeded), generated_(options) {}

  absl::Status Header(std::string_view line) override { return columns_.Header(line); }
  bool has_header() const override { return true; }
  bool has_times() const override { return !scheme_.columns[kTime].empty(); }

  absl::Status Parse(std::string_view line) override {
    if (absl::Status s = columns_.Split(line); !s.ok()) return s;
    const absl::StatusOr<std::int64_t> prompt = ParseWhole(columns_.field(kPrompt), kMaxContextTokens / 2);
    if (!prompt.ok()) return Bad(kPrompt, prompt.status());
    const absl::StatusOr<std::int64_t> output = ParseWhole(columns_.field(kOutput), kMaxContextTokens / 2);
    if (!output.ok()) return Bad(kOutput, output.status());
    const absl::StatusOr<TimePoint> arrival = Arrival();
    if (!arrival.ok()) return Bad(kTime, arrival.status());
    generated_.Next();
    const std::uint32_t model = builder_.Name(columns_.field(kModel));
    const std::uint32_t log_type = builder_.Name(columns_.field(kLogType));
    builder_.Add(*arrival, AtLeastOne(*prompt), AtLeastOne(*output), model, log_type);
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<TimePoint> Arrival() {
    if (!columns_.has(kTime)) return generated_.now();
    if (scheme_.format == WorkloadFormat::kAzure) return NearTheFirst(ParseTimestamp(columns_.field(kTime)));
    const absl::StatusOr<Duration> arrival = ParseSeconds(columns_.field(kTime));
    if (!arrival.ok()) return arrival.status();
    return TimePoint(*arrival);
  }

  absl::StatusOr<TimePoint> NearTheFirst(absl::StatusOr<TimePoint> time) {
    if (!time.ok()) return time;
    if (!first_) first_ = *time;
    if (NearEnough(*first_, *time)) return time;
    return absl::InvalidArgumentError(Quoted(columns_.field(kTime)) +
                                      " is invalid; expected a time within 285 years of the first");
  }

  absl::Status Bad(Column column, const absl::Status& status) const {
    return BadField(scheme_.columns[column], std::string(status.message()));
  }

  const Scheme& scheme_;
  WorkloadBuilder& builder_;
  CsvColumns columns_;
  std::optional<TimePoint> first_;
  GeneratedArrivals generated_;
};

}  // namespace

bool IsCsv(WorkloadFormat format) { return std::ranges::find(kSchemes, format, &Scheme::format) != kSchemes.end(); }

std::string CsvHeaders() {
  std::string text;
  for (const Scheme& scheme : kSchemes) {
    auto needed = scheme.columns | std::views::take(kNeeded) |
                  std::views::filter([](std::string_view name) { return !name.empty(); });
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", Name(scheme.format), fmt::join(needed, ","));
  }
  return text;
}

std::unique_ptr<LineParser> MakeCsvParser(const ReadOptions& options, WorkloadFormat format, WorkloadBuilder& builder) {
  const auto* scheme = std::ranges::find(kSchemes, format, &Scheme::format);
  return std::make_unique<CsvParser>(*scheme, options, builder);
}

WorkloadFormat DetectCsv(std::string_view line) {
  for (CsvFields fields(line); fields.Next();) {
    if (fields.field().empty()) continue;
    for (const Scheme& scheme : kSchemes) {
      if (std::ranges::find(scheme.columns, fields.field()) != scheme.columns.end()) return scheme.format;
    }
  }
  return WorkloadFormat::kAuto;
}

}  // namespace takt
