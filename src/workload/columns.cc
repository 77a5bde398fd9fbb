// Reads tables with a user's own columns: CSV with a header, or one JSON object per line. ReadOptions::columns maps
// them.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "workload/csv_columns.h"
#include "workload/format.h"
#include "workload/json_members.h"

namespace takt {
namespace {

enum ColumnKey : std::size_t {
  kPrompt,
  kOutput,
  kArrival,
  kWorkflow,
  kSession,
  kTenant,
  kClass,
  kPriority,
  kDeadline,
  kAgent,
  kStage,
  kPrefix,
  kKeys
};
constexpr std::size_t kNeeded = kOutput + 1;
constexpr std::array<std::string_view, kKeys> kKeyNames = {"prompt",   "output", "arrival", "workflow",
                                                           "session",  "tenant", "class",   "priority",
                                                           "deadline", "agent",  "stage",   "prefix"};

constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> kUnits = {
    {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}, {"time", 0}}};  // in ns; 0: a date and time

struct ColumnMap {
  std::array<std::string, kKeys> columns;  // empty: no column
  std::int64_t unit = kUnits[0].second, deadline_unit = kUnits[0].second;
  std::int64_t block_tokens = 0;  // tokens per prefix hash; 0: not given

  bool has(ColumnKey key) const { return !columns[key].empty(); }
};

absl::Status Bad(const std::string& what) { return BadField("columns", what); }

// Parses "arrival=ts:ms,prompt=in,output=out". A name with commas is quoted as in CSV: "\"prompt=in, all\"".
absl::StatusOr<ColumnMap> ParseColumns(std::string_view text) {
  ColumnMap map;
  for (CsvFields fields(text); fields.Next();) {
    const std::string_view field = fields.field();
    if (!fields.closed()) return Bad("a quoted name is invalid; expected a closing quote");
    const std::size_t equals = field.find('=');
    const auto key = std::ranges::find(kKeyNames, field.substr(0, equals));
    if (equals == std::string_view::npos || key == kKeyNames.end()) {
      const bool rest = equals == std::string_view::npos && field.data() != text.data();
      return Bad(fmt::format("{} is invalid; expected KEY=COLUMN with KEY one of {}{}", Quoted(field),
                             fmt::join(kKeyNames, ", "), rest ? "; quote KEY=COLUMN if COLUMN has a comma" : ""));
    }
    std::string_view column = field.substr(equals + 1);
    const bool is_arrival = *key == kKeyNames[kArrival];
    const std::size_t colon = column.rfind(':');
    const std::string_view suffix = colon != std::string_view::npos ? column.substr(colon + 1) : std::string_view();
    if (is_arrival || *key == kKeyNames[kDeadline]) {
      const auto* unit = std::ranges::find(kUnits, suffix, &std::pair<std::string_view, std::int64_t>::first);
      if (unit != kUnits.end()) {
        (is_arrival ? map.unit : map.deadline_unit) = unit->second;
        column = column.substr(0, colon);
      }
    }
    if (*key == kKeyNames[kPrefix]) {
      const absl::StatusOr<std::int64_t> tokens = ParseWhole(suffix, kMaxContextTokens);
      if (!tokens.ok() || *tokens == 0) {
        return Bad(fmt::format("{} is invalid; expected prefix=COLUMN:TOKENS with the number of tokens per hash",
                               Quoted(field)));
      }
      map.block_tokens = *tokens;
      column = column.substr(0, colon);
    }
    std::string& named = map.columns[static_cast<std::size_t>(key - kKeyNames.begin())];
    if (column.empty()) return Bad(fmt::format("{} is invalid; expected a column after =", Quoted(field)));
    if (!named.empty()) return Bad(fmt::format("{} is invalid; expected each key once", *key));
    if (std::ranges::find(map.columns, column) != map.columns.end()) {
      return Bad(fmt::format("{} is invalid; expected each column once", Quoted(column)));
    }
    named = column;
  }
  for (std::size_t key = 0; key < kNeeded; ++key) {
    if (map.columns[key].empty()) return Bad(fmt::format("{}=COLUMN is missing", kKeyNames[key]));
  }
  if (map.has(kWorkflow) && map.has(kSession)) return Bad("workflow and session: expected one of them");
  return map;
}

// Parses a time. Times since 1970 are exact to the nanosecond: a double has too few digits for them, so whole units and
// the fraction are converted apart. Times with an exponent are as exact as a double.
absl::StatusOr<TimePoint> ParseTime(std::string_view text, std::int64_t unit, std::string_view key) {
  if (unit == 0) return ParseTimestamp(text);
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty()) return absl::InvalidArgumentError("is empty");
  if (stop != end || error != std::errc() || std::isnan(value)) {
    return absl::InvalidArgumentError(
        Quoted(text) + " is invalid; expected a number" +
        (ParseTimestamp(text).ok() ? fmt::format(" (for dates and times, write {}=COLUMN:time)", key) : ""));
  }
  if (!(value >= 0) || value * static_cast<double>(unit) > 9e18) {
    return absl::InvalidArgumentError(
        Quoted(text) + " is invalid; expected a time from 0 to 285 years" +
        (value > 0 && unit > 1'000'000 ? fmt::format(" (for milliseconds, write {}=COLUMN:ms)", key) : ""));
  }
  std::int64_t whole = 0;
  if (text.find_first_of("eE") == std::string_view::npos) {
    const char* point = std::from_chars(text.data(), end, whole).ptr;
    value = 0;
    if (point != end) std::from_chars(point, end, value);
  }
  return TimePoint(Duration(whole * unit + std::llround(value * static_cast<double>(unit))));
}

class ColumnsParser : public LineParser {
 public:
  ColumnsParser(ColumnMap map, const ReadOptions& options, WorkloadBuilder& builder)
      : map_(std::move(map)),
        names_(map_.columns.begin(), map_.columns.end()),
        csv_(names_, kKeys),
        builder_(builder),
        limit_(static_cast<std::size_t>(options.limit)),
        generated_(options) {
    if (map_.has(kPrefix)) builder_.workload().prefix_block_tokens = static_cast<std::int32_t>(map_.block_tokens);
  }

  absl::Status Header(std::string_view line) override {
    json_ = line.starts_with('{');
    return json_ ? absl::OkStatus() : csv_.Header(line);
  }
  bool has_header() const override { return !json_; }
  bool has_times() const override { return map_.has(kArrival); }
  std::int64_t held() const override { return std::ssize(rows_); }
  bool full() const override { return !has_groups() && rows_.size() >= limit_; }

  absl::Status Parse(std::string_view line) override {
    if (absl::Status s = json_ ? SplitJson(line) : csv_.Split(line); !s.ok()) return s;
    Row row;
    std::array<std::int64_t, kNeeded> tokens{};
    for (const ColumnKey key : {kPrompt, kOutput}) {
      const absl::StatusOr<std::int64_t> parsed = ParseWhole(WithoutZeros(Field(key)), kMaxContextTokens / 2);
      if (!parsed.ok()) return AtColumn(key, parsed.status());
      tokens[key] = *parsed;
    }
    const absl::StatusOr<TimePoint> time = map_.has(kArrival) ? Near(ParseTime(Field(kArrival), map_.unit, "arrival"))
                                                              : absl::StatusOr<TimePoint>(generated_.now());
    if (!time.ok()) return AtColumn(kArrival, time.status());
    row.time = *time;
    row.tenant = builder_.Tenant(Field(kTenant));
    row.name = builder_.Name(Field(kClass));
    row.agent = builder_.Name(Field(kAgent));
    row.stage = builder_.Name(Field(kStage));
    if (absl::Status s = ReadGoals(row); !s.ok()) return s;
    if (absl::Status s = ReadPrefix(std::max<std::int64_t>(tokens[kPrompt], 1), row.hashes); !s.ok()) return s;
    if (absl::Status s = Join(row); !s.ok()) return s;
    generated_.Next();
    row.prompt = AtLeastOne(tokens[kPrompt]);
    row.output = AtLeastOne(tokens[kOutput]);
    if (!first_) first_ = row.time;
    rows_.push_back(std::move(row));
    return absl::OkStatus();
  }

  // The rows of a workflow are its calls, in sequence by time.
  void End() override {
    TimePoint first = TimePoint::max();
    for (const Row& row : rows_) first = std::min(first, row.time);
    std::ranges::stable_sort(rows_, {}, [](const Row& row) { return std::pair(row.workflow, row.time); });
    std::vector<CallDraft> calls;
    for (std::size_t begin = 0, end; begin < rows_.size(); begin = end) {
      calls.clear();
      for (end = begin; end < rows_.size() && rows_[end].workflow == rows_[begin].workflow; ++end) {
        Row& row = rows_[end];
        CallDraft& call = calls.emplace_back();
        call.call = {.prompt_tokens = row.prompt, .output_tokens = row.output, .stage = row.stage, .agent = row.agent};
        call.hashes = std::move(row.hashes);
        if (end == begin) continue;
        call.after = {static_cast<std::uint32_t>(end - begin - 1)};
        if (!map_.has(kSession)) continue;
        call.call.delay = std::min(Between(rows_[end - 1].time, row.time), kMaxWorkloadTime);
        calls[calls.size() - 2].call.then = TurnEnd::kUser;
      }
      const Row& head = rows_[begin];
      // The builder accepts every row, because each was checked on reading.
      (void)builder_.Add({.arrival = TimePoint(Between(first, head.time)),
                          .deadline = head.deadline,
                          .name = head.name,
                          .tenant = head.tenant,
                          .priority = head.priority},
                         calls);
      if (limit_ > 0 && builder_.workload().workflows.size() >= limit_) break;
    }
    rows_.clear();
  }

 private:
  struct Row {
    TimePoint time{};
    std::int32_t prompt = 0, output = 0;
    std::uint32_t workflow = 0, tenant = 0, name = 0, agent = 0, stage = 0;
    std::int32_t priority = 0;
    Duration deadline = Duration::max();  // from the row's time
    std::vector<std::uint64_t> hashes = {};
  };
  struct Known {
    std::uint32_t number = 0, tenant = 0, name = 0;  // from its first row
  };

  bool has_groups() const { return map_.has(kWorkflow) || map_.has(kSession); }
  std::string_view group() const { return Field(map_.has(kSession) ? kSession : kWorkflow); }

  absl::Status ReadGoals(Row& row) const {
    if (const std::string_view text = WithoutZeros(Field(kPriority)); !text.empty()) {
      const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), row.priority);
      if (stop != text.data() + text.size() || error != std::errc()) {
        return BadField(map_.columns[kPriority],
                        Quoted(text) + " is invalid; expected a whole number from -2^31 to 2^31-1");
      }
    }
    const std::string_view text = Field(kDeadline);
    if (text.empty()) return absl::OkStatus();
    const absl::StatusOr<TimePoint> parsed = ParseTime(text, map_.deadline_unit, "deadline");
    if (!parsed.ok()) return AtColumn(kDeadline, parsed.status());
    const bool is_date = map_.deadline_unit == 0;
    row.deadline = is_date ? Between(row.time, *parsed) : parsed->time_since_epoch();
    if (row.deadline <= Duration::zero() || row.deadline > kMaxWorkloadTime) {
      return BadField(map_.columns[kDeadline], fmt::format("{} is invalid; expected a time {}of at most {} s",
                                                           Quoted(text), is_date ? "after the arrival, " : "above 0, ",
                                                           kMaxWorkloadTime / std::chrono::seconds(1)));
    }
    return absl::OkStatus();
  }

  // Reads whole numbers, decimal or hexadecimal with 0x, separated by blanks, commas, semicolons or bars.
  absl::Status ReadPrefix(std::int64_t prompt, std::vector<std::uint64_t>& hashes) const {
    constexpr std::string_view kBetween = " ,;|[]\"";
    for (std::string_view rest = Field(kPrefix);;) {
      const std::size_t first = rest.find_first_not_of(kBetween);
      if (first == std::string_view::npos) break;
      rest.remove_prefix(first);
      const std::string_view text = rest.substr(0, rest.find_first_of(kBetween));
      rest.remove_prefix(text.size());
      const bool is_hex = text.starts_with("0x");
      const std::string_view digits = text.substr(is_hex ? 2 : 0);
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), hashes.emplace_back(), is_hex ? 16 : 10);
      if (stop != digits.data() + digits.size() || error != std::errc()) {
        return BadField(map_.columns[kPrefix], Quoted(text) + " is invalid; expected whole numbers from 0 to 2^64-1");
      }
    }
    if (!hashes.empty() && (std::ssize(hashes) - 1) * map_.block_tokens >= prompt) {
      return BadField(map_.columns[kPrefix],
                      fmt::format("{} blocks of {} tokens are too many for a prompt of {} tokens", hashes.size(),
                                  map_.block_tokens, prompt));
    }
    return absl::OkStatus();
  }

  // "512.0" is 512, because data frames write a column with gaps as fractions.
  static std::string_view WithoutZeros(std::string_view text) {
    const std::size_t dot = text.find('.');
    const bool zeros = dot != std::string_view::npos && dot > 0 && dot + 1 < text.size() &&
                       text.find_first_not_of('0', dot + 1) == std::string_view::npos;
    return zeros ? text.substr(0, dot) : text;
  }

  std::string_view Field(ColumnKey key) const { return json_ ? std::string_view(texts_[key]) : csv_.field(key); }

  // Reads the members of an object as a CSV file's fields. A key with dots names a nested member.
  absl::Status SplitJson(std::string_view line) {
    const absl::StatusOr<Json> object = ParseJsonLine(line);
    if (!object.ok()) return object.status();
    if (!object->is_object()) return absl::InvalidArgumentError(Shown(*object) + " is invalid; expected an object");
    for (std::size_t key = 0; key < kKeys; ++key) {
      texts_[key].clear();
      if (!map_.has(static_cast<ColumnKey>(key))) continue;
      const Json* value = Member(*object, map_.columns[key]);
      if (value == nullptr || value->is_null()) {
        if (key <= kArrival) return BadField(map_.columns[key], "is missing");
        continue;
      }
      if (value->is_structured() && !(key == kPrefix && value->is_array()))
        return BadField(map_.columns[key], Shown(*value) + " is invalid; expected a single value");
      texts_[key] = value->is_string() ? value->get<std::string>() : value->dump();
    }
    return absl::OkStatus();
  }

  static const Json* Member(const Json& object, std::string_view path) {
    if (const auto found = object.find(path); found != object.end()) return &*found;
    const std::size_t dot = path.find('.');
    if (dot == std::string_view::npos) return nullptr;
    const auto found = object.find(path.substr(0, dot));
    return found != object.end() && found->is_object() ? Member(*found, path.substr(dot + 1)) : nullptr;
  }

  absl::StatusOr<TimePoint> Near(absl::StatusOr<TimePoint> time) const {
    if (!time.ok() || !first_ || NearEnough(*first_, *time)) return time;
    return absl::InvalidArgumentError(Quoted(Field(kArrival)) +
                                      " is invalid; expected a time within 285 years of the first");
  }

  // Sets the number of the row's workflow: a new number, unless the workflow's column has a known value.
  absl::Status Join(Row& row) {
    row.workflow = workflows_;
    if (const std::string_view name = group(); !name.empty()) {
      const auto [at, is_new] = known_.try_emplace(std::string(name), Known{workflows_, row.tenant, row.name});
      const Known& known = at->second;
      row.workflow = known.number;
      const Workload& w = builder_.workload();
      if (row.tenant != known.tenant) {
        return BadField(map_.columns[kTenant], Differs(Field(kTenant), w.TenantOf({.tenant = known.tenant})));
      }
      if (row.name != known.name) return BadField(map_.columns[kClass], Differs(Field(kClass), w.names[known.name]));
      if (!is_new) return absl::OkStatus();
    }
    ++workflows_;
    return absl::OkStatus();
  }

  std::string Differs(std::string_view own, std::string_view known) const {
    return fmt::format("{} differs from the first row of workflow {}, which has {}", Quoted(own), Quoted(group()),
                       Quoted(known));
  }

  absl::Status AtColumn(ColumnKey key, const absl::Status& status) const {
    return BadField(map_.columns[key], std::string(status.message()));
  }

  const ColumnMap map_;
  const std::vector<std::string_view> names_;  // keys of map_
  CsvColumns csv_;
  bool json_ = false;
  std::array<std::string, kKeys> texts_;  // of the last object that was split
  WorkloadBuilder& builder_;
  std::size_t limit_;
  GeneratedArrivals generated_;
  std::optional<TimePoint> first_;
  std::uint32_t workflows_ = 0;
  std::map<std::string, Known, std::less<>> known_;
  std::vector<Row> rows_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LineParser>> MakeColumnsParser(const ReadOptions& options, WorkloadBuilder& builder) {
  if (options.format != WorkloadFormat::kAuto && options.format != WorkloadFormat::kColumns) {
    return Bad(fmt::format("is invalid with a format ({}); expected columns or a format", Name(options.format)));
  }
  absl::StatusOr<ColumnMap> map = ParseColumns(options.columns);
  if (!map.ok()) return map.status();
  return std::make_unique<ColumnsParser>(*std::move(map), options, builder);
}

}  // namespace takt
