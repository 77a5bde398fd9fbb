#include "takt/workload/read.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "takt/workload/generate.h"
#include "takt/workload/transform.h"
#include "workload/builder.h"
#include "workload/format.h"
#include "workload/lines.h"

namespace takt {
namespace {

constexpr std::size_t kMessages = 5;

absl::Status Check(const ReadOptions& options) {
  if (options.limit < 0)
    return absl::InvalidArgumentError(fmt::format("limit: {} is invalid; expected at least 0", options.limit));
  if (options.max_bytes < 1) {
    return absl::InvalidArgumentError(fmt::format("max_bytes: {} is invalid; expected at least 1", options.max_bytes));
  }
  if (!(options.rate > 0) || !std::isfinite(options.rate)) {
    return absl::InvalidArgumentError(fmt::format("rate: {} is invalid; expected a positive number", options.rate));
  }
  if (options.max_session_tokens < 1) {
    return absl::InvalidArgumentError(
        fmt::format("max_session_tokens: {} is invalid; expected at least 1", options.max_session_tokens));
  }
  return absl::OkStatus();
}

class Reader {
 public:
  Reader(std::unique_ptr<ByteSource> source, std::string name, const ReadOptions& options, ReadReport& report)
      : lines_(Unpacked(std::move(source), options.max_bytes)),
        name_(std::move(name)),
        options_(options),
        report_(report) {}

  absl::StatusOr<Workload> Read() {
    builder_.workload().name = name_.substr(name_.rfind('/') + 1);
    absl::StatusOr<bool> more = lines_.Next();
    if (more.ok() && !*more) return absl::InvalidArgumentError(name_ + ": is empty");
    csv_ = more.ok() && MayBeCsv();
    if (csv_) more = lines_.AsCsv();
    if (more.ok()) {
      if (absl::Status s = Begin(); !s.ok()) return AtPlace(Place(), s);
      if (parser_->has_header()) more = lines_.Next();
    }
    for (; more.ok() && *more && !Full(); more = lines_.Next()) {
      const absl::Status status = Line();
      if (!status.ok()) return status;
    }
    if (!more.ok()) return AtPlace(PlaceAfter(name_, lines_.number()), more.status());
    return Finish();
  }

 private:
  std::string Place() const { return fmt::format("{}:{}", name_, lines_.number()); }
  std::int64_t Workflows() { return std::ssize(builder_.workload().workflows); }
  std::int64_t Lines() { return Workflows() + parser_->held(); }
  bool Full() { return options_.limit > 0 && (Workflows() >= options_.limit || parser_->full()); }

  // Later lines may be read as CSV only if this returns true.
  bool MayBeCsv() const {
    const std::string_view line = lines_.line();
    const bool parquet = line.starts_with("PAR1");
    if (Mapped()) return !line.starts_with('{') && !parquet;  // as in ColumnsParser
    const bool json = line.find_first_not_of(" \t") == line.find('{');
    return options_.format == WorkloadFormat::kAuto ? !json && !parquet : IsCsv(options_.format);
  }
  bool Mapped() const { return !options_.columns.empty() || options_.format == WorkloadFormat::kColumns; }

  // Detects the format by the first line, and reads that line if it is a header.
  absl::Status Begin() {
    const std::string_view line = lines_.line();
    if (line.starts_with("PAR1")) {
      return absl::InvalidArgumentError(
          "is a Parquet file, which is unsupported. Convert it to CSV first, for example by duckdb -c \"COPY (FROM "
          "'trace.parquet') TO 'trace.csv'\". Then read the CSV file with --columns");
    }
    // No table has a single column.
    if (const std::size_t other = line.find_first_of(";\t|");
        csv_ && line.find(',') == line.npos && other != line.npos) {
      return absl::InvalidArgumentError(
          fmt::format("{} has fields separated by {}; expected commas. Convert the file first, for example by duckdb "
                      "-c \"COPY (FROM "
                      "'trace.csv') TO 'commas.csv'\"",
                      Quoted(line), line[other] == '\t' ? "tabs" : Quoted(line.substr(other, 1))));
    }
    if (Mapped()) {
      absl::StatusOr<std::unique_ptr<LineParser>> parser = MakeColumnsParser(options_, builder_);
      if (!parser.ok()) return parser.status();
      report_.format = WorkloadFormat::kColumns;
      parser_ = *std::move(parser);
      return ReadHeader(line);
    }
    WorkloadFormat format = options_.format;
    if (format == WorkloadFormat::kAuto) format = DetectJson(line);
    if (format == WorkloadFormat::kAuto && csv_) format = DetectCsv(line);
    if (format == WorkloadFormat::kAuto) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is the start of no known format; expected workflow (JSON with calls), mooncake (JSON with "
          "input_length), infercept (JSON with segments), text2sql (JSON with n_stages), sessions (JSON with "
          "block_tokens), or CSV with a header: {}. "
          "For other CSV or JSON lines, map the columns by --columns (ReadOptions::columns): "
          "arrival=ts:ms,prompt=in,output=out. python -m takt.convert reads traces of Dynamo, Weka and OpenTelemetry",
          Quoted(line), CsvHeaders()));
    }
    report_.format = format;
    parser_ = IsCsv(format) ? MakeCsvParser(options_, format, builder_) : MakeJsonParser(options_, format, builder_);
    return ReadHeader(line);
  }

  absl::Status ReadHeader(std::string_view line) {
    absl::Status status = parser_->Header(line);
    report_.arrivals_generated = !parser_->has_times();
    return status;
  }

  absl::Status Line() {
    const std::int64_t before = Lines();
    const absl::Status status = parser_->Line(lines_.line());
    if (status.ok()) {
      report_.lines += Lines() - before;
      return status;
    }
    const absl::Status fault = AtPlace(Place(), status);
    if (!options_.skip_bad_lines) return fault;
    ++report_.bad_lines;
    if (report_.bad_line_messages.size() < kMessages) report_.bad_line_messages.emplace_back(fault.message());
    return absl::OkStatus();
  }

  absl::StatusOr<Workload> Finish() {
    parser_->End();
    report_.long_sessions = parser_->long_sessions();
    if (Workflows() == 0 && report_.long_sessions > 0) {
      return absl::InvalidArgumentError(
          fmt::format("{}: has no session whose prompts have at most {} tokens", name_, options_.max_session_tokens));
    }
    if (Workflows() == 0) {
      const bool all_bad = report_.bad_lines > 0;
      return absl::InvalidArgumentError(all_bad ? fmt::format("{} (and no line is valid)", report_.bad_line_messages[0])
                                                : name_ + ": has no requests");
    }
    const Workload& w = builder_.workload();
    if (std::max({w.calls.size(), w.predecessors.size(), w.tools.size(), w.prefix_hashes.size(),
                  w.prefix_runs.size()}) > UINT32_MAX) {
      return absl::ResourceExhaustedError(
          name_ +
          ": is too large; expected at most 2^32 calls, and as many predecessors, tools or hashes; set a limit");
    }
    report_.raised_lengths = parser_->raised_lengths();
    report_.sorted = builder_.Finish();
    // Removes names that only skipped lines used.
    if (report_.bad_lines > 0 || report_.long_sessions > 0) return Tidied(builder_.workload());
    return std::move(builder_.workload());
  }

  LineReader lines_;
  std::string name_;
  const ReadOptions& options_;
  ReadReport& report_;
  WorkloadBuilder builder_;
  std::unique_ptr<LineParser> parser_;
  bool csv_ = false;  // lines are records
};

absl::StatusOr<Workload> Read(std::unique_ptr<ByteSource> source, const std::string& name, const ReadOptions& options,
                              ReadReport* report) {
  if (absl::Status s = Check(options); !s.ok()) return s;
  ReadReport unread;
  ReadReport& filled = report != nullptr ? *report : unread;
  filled = {};
  return Reader(std::move(source), name, options, filled).Read();
}

absl::StatusOr<Workload> Generate(const std::string& spec, const ReadOptions& options, ReadReport* report) {
  if (absl::Status s = Check(options); !s.ok()) return s;
  absl::StatusOr<Workload> workload = GenerateWorkload(spec);
  if (!workload.ok()) return workload;
  if (options.limit > 0) Truncate(*workload, static_cast<std::size_t>(options.limit));
  if (report != nullptr) *report = {.lines = std::ssize(workload->workflows), .arrivals_generated = true};
  return workload;
}

}  // namespace

absl::StatusOr<WorkloadFormat> ParseWorkloadFormat(std::string_view name) {
  if (const std::optional<WorkloadFormat> format = FromName<WorkloadFormat>(name)) return *format;
  return absl::InvalidArgumentError(fmt::format("format: {} is unknown; expected one of {}", Quoted(name),
                                                fmt::join(NamesOf(WorkloadFormat{}), ", ")));
}

absl::StatusOr<Workload> ReadWorkload(const std::string& path, const ReadOptions& options, ReadReport* report) {
  if (path.starts_with("gen:")) return Generate(path, options, report);
  absl::StatusOr<std::unique_ptr<ByteSource>> file = OpenFile(path);
  if (!file.ok()) return AtPlace(path, file.status());
  return Read(std::move(*file), path, options, report);
}

absl::StatusOr<Workload> ParseWorkload(std::string_view text, const std::string& name, const ReadOptions& options,
                                       ReadReport* report) {
  return Read(OpenMemory(text), name, options, report);
}

}  // namespace takt
