#include "takt/sim/step_log.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "fmt/format.h"
#include "takt/workload/workload.h"
#include "workload/csv_columns.h"
#include "workload/format.h"
#include "workload/json_members.h"
#include "workload/lines.h"

namespace takt {
namespace {

constexpr std::size_t kMessages = 5;
constexpr std::int64_t kMaxTokens = kMaxContextTokens / 2;

// A step, and the fields that its line lacks.
struct ReadStep {
  TimedStep step = {};
  Duration plan_time{0};
  bool knows_prefill_work = true;
  bool knows_samples = true;
  std::vector<PathRange> paths = {};
};

// ---- JSON ----------------------------------------------------------------------------------------------------------

// Reads a flag: 0 or 1, false or true.
bool FlagOf(Members& line, const Json& value, const std::string& key) {
  return value.is_boolean() ? value.get<bool>() : line.WholeOf(value, key, 0, 1) == 1;
}

// Reads [tokens in this step, context before it, prefill or not, yields a token or not]. A decode of several tokens
// verifies drafts, which costs as much as a prefill chunk (model/cost_model.h).
void AddRow(Members& line, const Json& row, const std::string& key, ReadStep& read) {
  if (!row.is_array() || row.size() < 3 || row.size() > 4) {
    return line.Fault(key, Shown(row) + " is not [tokens, position, prefill] or [tokens, position, prefill, samples]");
  }
  const std::int64_t tokens = line.WholeOf(row[0], key + "[0]", 1, kMaxTokens);
  const std::int64_t position = line.WholeOf(row[1], key + "[1]", 0, kMaxTokens);
  const bool prefill = FlagOf(line, row[2], key + "[2]");
  const bool samples = row.size() > 3 ? FlagOf(line, row[3], key + "[3]") : !prefill;
  if (prefill || tokens > 1) {
    read.step.load.AddPrefill(tokens, position, samples);
  } else {
    read.step.load.AddDecode(position + 1);  // a token attends to itself, too
  }
  read.knows_samples &= row.size() > 3 || !prefill;
  read.step.longest_context = std::max(read.step.longest_context, position + tokens);
}

absl::StatusOr<ReadStep> ReadJson(std::string_view text) {
  const absl::StatusOr<Json> json = ParseJsonLine(text);
  if (!json.ok()) return json.status();
  absl::Status fault;
  Members line(*json, "", fault);
  ReadStep read;
  read.step.time = line.Time("time_s", 1);
  read.plan_time = line.Time("plan_s", 1, Duration(0));
  if (const Json* flag = line.Find("from_arrival")) read.step.from_arrival = FlagOf(line, *flag, "from_arrival");
  const std::span<const Json> paths = line.Array("path_us");
  for (std::size_t i = 0; i < paths.size() && fault.ok(); ++i) {
    const std::string key = fmt::format("path_us[{}]", i);
    if (!paths[i].is_array() || paths[i].size() != 2) {
      line.Fault(key, Shown(paths[i]) + " is not [least, most]");
      break;
    }
    constexpr std::int64_t kMost = 3'600'000'000;  // [us]
    const std::int64_t least = line.WholeOf(paths[i][0], key + "[0]", -kMost, kMost);
    const std::int64_t most = line.WholeOf(paths[i][1], key + "[1]", -kMost, kMost);
    read.paths.push_back({std::chrono::microseconds(least), std::chrono::microseconds(most)});
  }
  const std::span<const Json> rows = line.Array("rows", false);
  if (rows.empty()) line.Fault("rows", "is empty; expected a row");
  for (std::size_t i = 0; i < rows.size() && fault.ok(); ++i) AddRow(line, rows[i], fmt::format("rows[{}]", i), read);
  if (!fault.ok()) return fault;
  return read;
}

// ---- CSV -----------------------------------------------------------------------------------------------------------

enum Column : std::size_t { kTime, kPrefill, kDecodes, kContext, kPlan, kWork, kSamples };
constexpr std::array<std::string_view, 7> kColumns = {"time_s", "prefill_tokens", "decode_rows", "context_tokens",
                                                      "plan_s", "prefill_work",   "samples"};

class CsvReader {
 public:
  absl::Status Header(std::string_view line) { return columns_.Header(line); }

  absl::StatusOr<ReadStep> Read(std::string_view line) {
    if (absl::Status s = columns_.Split(line); !s.ok()) return s;
    status_ = absl::OkStatus();
    ReadStep read;
    StepLoad& load = read.step.load;
    read.step.time = Time(kTime);
    load.prefill_tokens = Whole(kPrefill, kMaxTokens);
    load.decodes = Whole(kDecodes, kMaxTokens);
    load.decode_context = Whole(kContext, std::int64_t{1} << 53);
    if (columns_.has(kPlan)) read.plan_time = Time(kPlan);
    read.knows_prefill_work = columns_.has(kWork);
    if (read.knows_prefill_work) load.prefill_work = static_cast<double>(Whole(kWork, std::int64_t{1} << 53));
    read.knows_samples = columns_.has(kSamples);
    load.samples = read.knows_samples ? Whole(kSamples, kMaxTokens) : load.decodes;
    if (load.tokens() == 0) Fault(kPrefill, "0 is invalid; expected a number above 0 here or in decode_rows");
    if (load.decodes == 0 && load.decode_context > 0) {
      Fault(kContext, fmt::format("{} without decode_rows; expected 0", load.decode_context));
    }
    if (load.decodes > 0) read.step.longest_context = load.decode_context / load.decodes;
    if (!status_.ok()) return status_;
    return read;
  }

 private:
  void Fault(Column column, const std::string& what) {
    if (status_.ok()) status_ = BadField(kColumns[column], what);
  }
  std::int64_t Whole(Column column, std::int64_t most) {
    const absl::StatusOr<std::int64_t> whole = ParseWhole(columns_.field(column), most);
    if (!whole.ok()) Fault(column, std::string(whole.status().message()));
    return whole.value_or(0);
  }
  Duration Time(Column column) {
    const absl::StatusOr<Duration> time = ParseSeconds(columns_.field(column));
    if (!time.ok()) Fault(column, std::string(time.status().message()));
    return time.value_or(Duration(0));
  }

  CsvColumns columns_{kColumns, kContext + 1};
  absl::Status status_;
};

// ---- files ---------------------------------------------------------------------------------------------------------

class StepLogReader {
 public:
  StepLogReader(std::unique_ptr<ByteSource> source, const std::string& name, const StepLogOptions& options,
                StepLogReport& report)
      : lines_(Unpacked(std::move(source), options.max_bytes)), name_(name), options_(options), report_(report) {}

  absl::StatusOr<StepLog> Read() {
    absl::StatusOr<bool> more = lines_.Next();
    if (more.ok() && !*more) return absl::InvalidArgumentError(name_ + ": is empty");
    const bool csv = more.ok() && !lines_.line().starts_with('{');
    if (csv) more = lines_.AsCsv();
    if (csv && more.ok()) {
      if (absl::Status s = csv_.emplace().Header(lines_.line()); !s.ok()) return AtPlace(Place(), NotALog(s));
      more = lines_.Next();
    }
    for (; more.ok() && *more; more = lines_.Next()) {
      if (absl::Status s = Line(); !s.ok()) return s;
    }
    if (!more.ok()) return AtPlace(PlaceAfter(name_, lines_.number()), more.status());
    if (log_.steps.empty()) {
      return absl::InvalidArgumentError(report_.bad_lines > 0
                                            ? fmt::format("{} (and no line is valid)", report_.bad_line_messages[0])
                                            : name_ + ": has no steps");
    }
    return Finish();
  }

 private:
  std::string Place() const { return fmt::format("{}:{}", name_, lines_.number()); }

  static absl::Status NotALog(const absl::Status& status) {
    return absl::InvalidArgumentError(
        fmt::format("{}; expected JSON lines with time_s and rows, or CSV with the header time_s, prefill_tokens, "
                    "decode_rows, context_tokens",
                    std::string(status.message())));
  }

  absl::Status Line() {
    absl::StatusOr<ReadStep> read = csv_ ? csv_->Read(lines_.line()) : ReadJson(lines_.line());
    if (read.ok() && read->step.time <= Duration(0))
      read = BadField("time_s", "0 is invalid; expected a number above 0");
    if (read.ok()) {
      if (options_.plan_time) read->step.time = Sum(read->step.time, read->plan_time);
      log_.knows_prefill_work &= read->knows_prefill_work;
      log_.knows_samples &= read->knows_samples;
      log_.paths.insert(log_.paths.end(), read->paths.begin(), read->paths.end());
      log_.steps.push_back(read->step);
      return absl::OkStatus();
    }
    const absl::Status fault = AtPlace(Place(), read.status());
    if (!options_.skip_bad_lines) return fault;
    ++report_.bad_lines;
    if (report_.bad_line_messages.size() < kMessages) report_.bad_line_messages.emplace_back(fault.message());
    return absl::OkStatus();
  }

  // A field that one line lacks counts as unknown for all lines.
  StepLog Finish() {
    for (TimedStep& step : log_.steps) {
      if (!log_.knows_prefill_work) step.load.prefill_work = 0;
      if (!log_.knows_samples) step.load.samples = step.load.decodes;
    }
    return std::move(log_);
  }

  LineReader lines_;
  const std::string& name_;
  const StepLogOptions& options_;
  StepLogReport& report_;
  std::optional<CsvReader> csv_;
  StepLog log_;
};

absl::StatusOr<StepLog> Read(std::unique_ptr<ByteSource> source, const std::string& name, const StepLogOptions& options,
                             StepLogReport* report) {
  StepLogReport unread;
  StepLogReport& filled = report != nullptr ? *report : unread;
  filled = {};
  return StepLogReader(std::move(source), name, options, filled).Read();
}

}  // namespace

absl::StatusOr<StepLog> ReadStepLog(const std::string& path, const StepLogOptions& options, StepLogReport* report) {
  absl::StatusOr<std::unique_ptr<ByteSource>> file = OpenFile(path);
  if (!file.ok()) return AtPlace(path, file.status());
  return Read(*std::move(file), path, options, report);
}

absl::StatusOr<StepLog> ParseStepLog(std::string_view text, const std::string& name, const StepLogOptions& options,
                                     StepLogReport* report) {
  return Read(OpenMemory(text), name, options, report);
}

std::string StepLogLine(const StepPlan& plan, TimePoint begin, TimePoint end, Duration plan_time) {
  std::string line;
  const auto out = std::back_inserter(line);
  fmt::format_to(out, R"({{"step":{},"begin_s":{:.9f},"time_s":{:.9f},"plan_s":{:.9f},"rows":[)", plan.id.value,
                 ToSeconds(begin), ToSeconds(Between(begin, end)), ToSeconds(plan_time));
  const char* comma = "";
  for (const PlanEntry& entry : plan.run) {
    fmt::format_to(out, "{}[{},{},{:d},{:d}]", std::exchange(comma, ","), entry.tokens + entry.speculative,
                   entry.position, entry.prefill(), entry.samples());
  }
  return line += "]}";
}

}  // namespace takt
