#include "tool/command/call_log.h"

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "tool/run/output.h"
#include "fmt/format.h"
#include "takt/workload/workload.h"
#include "workload/csv_columns.h"
#include "workload/format.h"
#include "workload/json_members.h"
#include "workload/lines.h"

namespace takt::tool {
namespace {

constexpr std::size_t kMessages = 5;
constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;
constexpr std::int64_t kMaxTokens = kMaxContextTokens / 2;

// The first column is required if outputs are required.
enum Column : std::size_t {
  kOutput,
  kPrompt,
  kSystem,
  kUser,
  kGenerated,
  kCallsBefore,
  kTokensBefore,
  kBeforeTool,
  kSolved,
  kWorkflow,
  kModel,
  kKind,
  kStage,
  kText,
  kColumns
};
constexpr std::array<std::string_view, kColumns> kNames = {"output_tokens",
                                                           "prompt_tokens",
                                                           "system_tokens",
                                                           "user_tokens",
                                                           "generated_tokens",
                                                           "calls_before",
                                                           "tokens_before",
                                                           "before_tool_tokens",
                                                           "solved",
                                                           "workflow",
                                                           "model",
                                                           "kind",
                                                           "stage",
                                                           "text"};

// A line whose texts are not stored yet. Numbers below 0: unknown.
struct Line {
  std::array<std::int64_t, kSolved + 1> numbers;
  std::array<std::string, kColumns> texts = {};
  bool known = false;  // the line has at least one known column

  Line() { numbers.fill(-1); }
};

class JsonLines {
 public:
  absl::StatusOr<Line> Read(std::string_view text) const {
    const absl::StatusOr<Json> json = ParseJsonLine(text);
    if (!json.ok()) return json.status();
    absl::Status fault;
    Members members(*json, "", fault);
    Line line;
    for (std::size_t c = 0; c <= kSolved; ++c) {
      const Json* value = members.Find(kNames[c].data());
      line.known |= value != nullptr;
      if (value == nullptr || value->is_null()) continue;
      if (c == kSolved && value->is_boolean()) line.numbers[c] = value->get<bool>() ? 1 : 0;
      else line.numbers[c] = members.WholeOf(*value, std::string(kNames[c]), 0, c == kSolved ? 1 : kMaxTokens);
    }
    for (std::size_t c = kWorkflow; c < kColumns; ++c) {
      const Json* value = members.Find(kNames[c].data());
      line.known |= value != nullptr;
      if (value == nullptr || value->is_null()) continue;
      if (value->is_number_integer()) line.texts[c] = value->dump();
      else line.texts[c] = members.Text(kNames[c].data());
    }
    if (!fault.ok()) return fault;
    return line;
  }
};

class CsvLines {
 public:
  explicit CsvLines(bool outputs) : columns_(kNames, outputs ? kOutput + 1 : 0) {}

  absl::Status Header(std::string_view line) { return columns_.Header(line); }

  absl::StatusOr<Line> Read(std::string_view text) {
    if (absl::Status s = columns_.Split(text); !s.ok()) return s;
    Line line;
    for (std::size_t c = 0; c < kColumns; ++c) line.known |= columns_.has(c);
    for (std::size_t c = 0; c <= kSolved; ++c) {
      const std::string_view field = columns_.field(c);
      if (!columns_.has(c) || field.empty()) continue;
      if (c == kSolved && (field == "true" || field == "false")) {
        line.numbers[c] = field == "true" ? 1 : 0;
        continue;
      }
      const absl::StatusOr<std::int64_t> whole = ParseWhole(field, c == kSolved ? 1 : kMaxTokens);
      if (!whole.ok()) return BadField(kNames[c], std::string(whole.status().message()));
      line.numbers[c] = *whole;
    }
    for (std::size_t c = kWorkflow; c < kColumns; ++c) {
      if (columns_.has(c)) line.texts[c] = columns_.field(c);
    }
    return line;
  }

 private:
  CsvColumns columns_;
};

class Reader {
 public:
  Reader(std::unique_ptr<ByteSource> source, const std::string& name, const CallLogOptions& options,
         CallLogReport& report)
      : lines_(Unpacked(std::move(source), kMaxBytes)), name_(name), options_(options), report_(report) {}

  absl::StatusOr<CallLog> Read() {
    absl::StatusOr<bool> more = lines_.Next();
    if (more.ok() && !*more) return absl::InvalidArgumentError(name_ + ": is empty");
    const bool csv = more.ok() && !lines_.line().starts_with('{');
    if (csv) more = lines_.AsCsv();
    if (csv && more.ok()) {
      if (absl::Status s = csv_.emplace(options_.outputs).Header(lines_.line()); !s.ok()) {
        return absl::InvalidArgumentError(
            fmt::format("{}: {}; expected JSON, one object per line, or CSV with a header; known columns: {}", Place(),
                        std::string(s.message()), fmt::join(kNames, ", ")));
      }
      more = lines_.Next();
    }
    for (; more.ok() && *more; more = lines_.Next()) {
      absl::StatusOr<Line> line = csv_ ? csv_->Read(lines_.line()) : JsonLines().Read(lines_.line());
      if (line.ok() && options_.outputs && line->numbers[kOutput] < 0) line = BadField(kNames[kOutput], "is missing");
      if (line.ok()) {
        Keep(*line);
        continue;
      }
      const absl::Status fault = AtPlace(Place(), line.status());
      if (!options_.skip_bad_lines) return fault;
      ++report_.bad_lines;
      if (report_.bad_line_messages.size() < kMessages) report_.bad_line_messages.emplace_back(fault.message());
    }
    if (!more.ok()) return AtPlace(PlaceAfter(name_, lines_.number()), more.status());
    if (log_.calls.empty()) {
      return absl::InvalidArgumentError(report_.bad_lines > 0
                                            ? fmt::format("{} (and no line is valid)", report_.bad_line_messages[0])
                                            : name_ + ": holds no calls");
    }
    if (!known_) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the header has no known column; known columns: {}", name_, fmt::join(kNames, ", ")));
    }
    return std::move(log_);
  }

 private:
  std::string Place() const { return fmt::format("{}:{}", name_, lines_.number()); }
  std::string_view Name(const std::string& text) { return *log_.names.insert(text).first; }

  void Keep(Line& line) {
    known_ |= line.known;
    const auto count = [&](Column c) { return Tokens{static_cast<std::int32_t>(line.numbers[c])}; };
    LoggedCall logged{.call = {.model = Name(line.texts[kModel]),
                               .kind = Name(line.texts[kKind]),
                               .stage = Name(line.texts[kStage]),
                               .prompt_tokens = count(kPrompt),
                               .system_tokens = count(kSystem),
                               .user_tokens = count(kUser),
                               .generated = count(kGenerated)},
                      .output_tokens = count(kOutput),
                      .before_tool = count(kBeforeTool)};
    if (line.numbers[kSolved] >= 0) {
      logged.solved = line.numbers[kSolved] == 1 ? ConfidenceData::kSolved : ConfidenceData::kFailed;
    }
    if (!line.texts[kText].empty()) logged.call.text = log_.texts.emplace_back(std::move(line.texts[kText]));
    const std::string_view workflow = Name(line.texts[kWorkflow]);
    if (!workflow.empty()) {
      Before& before = before_[workflow];
      logged.call.calls_before = before.calls++;
      logged.call.tokens_before = {static_cast<std::int32_t>(before.tokens)};
      const bool known = before.tokens >= 0 && line.numbers[kOutput] >= 0;
      before.tokens = known ? std::min(before.tokens + line.numbers[kOutput], kMaxTokens) : -1;
    }
    if (line.numbers[kCallsBefore] >= 0) logged.call.calls_before = count(kCallsBefore).value;
    if (line.numbers[kTokensBefore] >= 0) logged.call.tokens_before = count(kTokensBefore);
    log_.calls.push_back(logged);
    log_.workflows.push_back(workflow);
    log_.lines.push_back(lines_.number());
  }

  struct Before {
    std::int32_t calls = 0;
    std::int64_t tokens = 0;  // output tokens of the workflow's earlier lines; below 0: unknown
  };

  LineReader lines_;
  const std::string& name_;
  const CallLogOptions& options_;
  CallLogReport& report_;
  std::optional<CsvLines> csv_;
  std::map<std::string_view, Before> before_;
  bool known_ = false;  // a line has a known column
  CallLog log_;
};

}  // namespace

std::vector<std::vector<LoggedCall>> CallLog::ByWorkflow() const {
  std::vector<std::vector<LoggedCall>> all;
  std::map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    std::size_t place = all.size();
    if (!workflows[i].empty()) place = places.try_emplace(workflows[i], all.size()).first->second;
    if (place == all.size()) all.emplace_back();
    all[place].push_back(calls[i]);
  }
  return all;
}

absl::StatusOr<CallLog> ReadCallLog(const std::string& path, const CallLogOptions& options, CallLogReport& report) {
  const std::string name = InputName(path);
  if (IsStdout(path)) {
    const absl::StatusOr<std::string> text = ReadFile(path);
    if (!text.ok()) return text.status();
    return Reader(OpenMemory(*text), name, options, report).Read();
  }
  absl::StatusOr<std::unique_ptr<ByteSource>> file = OpenFile(path);
  if (!file.ok()) return AtPlace(path, file.status());
  return Reader(*std::move(file), name, options, report).Read();
}

}  // namespace takt::tool
