// Common parts of the readers of all formats.
#ifndef TAKT_SRC_WORKLOAD_FORMAT_H_
#define TAKT_SRC_WORKLOAD_FORMAT_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "takt/base/random.h"
#include "takt/base/time.h"
#include "takt/workload/read.h"
#include "workload/builder.h"

namespace takt {

inline constexpr std::int64_t kMostLineTokens = kMaxContextTokens / 2;
inline constexpr std::size_t kMaxCalls = 100'000;  // limit for one workflow

inline absl::Status BadField(std::string_view field, const std::string& what) {
  return absl::InvalidArgumentError(std::string(field) + ": " + what);
}

// Returns an error of the same kind with the place in front.
inline absl::Status AtPlace(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(), place + ": " + std::string(status.message()));
}

// Returns the place of a fault after line `number`; 0: before the first line.
inline std::string PlaceAfter(const std::string& name, std::int64_t number) {
  return number > 0 ? fmt::format("{}: after line {}", name, number) : name;
}

// Absolute times of one workload must be close enough for their differences.
inline bool NearEnough(TimePoint a, TimePoint b) {
  return Between(std::min(a, b), std::max(a, b)) <= kMaxWorkloadTime / 2;
}

// Turns lines into workflows. An invalid line leaves nothing behind but names. Its message names field and value.
class LineParser {
 public:
  virtual ~LineParser() = default;
  virtual absl::Status Header(std::string_view) { return absl::OkStatus(); }  // the first line
  virtual bool has_times() const { return true; }  // false: arrivals are generated
  virtual bool has_header() const { return false; }  // true: the first line is a header

  // Formats whose workflows have several lines add them at the end.
  virtual std::int64_t held() const { return 0; }  // valid lines whose workflows are not added yet
  virtual bool full() const { return false; }  // the workflows that the limit allows are all read
  virtual void End() {}

  absl::Status Line(std::string_view line) {
    const std::int64_t raised = raised_, long_sessions = long_sessions_;
    absl::Status status = Parse(line);
    if (!status.ok() || long_sessions_ > long_sessions) raised_ = raised;
    return status;
  }

  std::int64_t raised_lengths() const { return raised_; }
  std::int64_t long_sessions() const { return long_sessions_; }

 protected:
  virtual absl::Status Parse(std::string_view line) = 0;

  std::int32_t AtLeastOne(std::int64_t tokens) {
    raised_ += tokens == 0;
    return tokens == 0 ? 1 : static_cast<std::int32_t>(tokens);
  }

  std::int64_t long_sessions_ = 0;  // sessions that were excluded

 private:
  std::int64_t raised_ = 0;
};

// Poisson arrivals for a file without times. Call Next() only after the line is valid.
class GeneratedArrivals {
 public:
  explicit GeneratedArrivals(const ReadOptions& options) : rate_(options.rate), random_(options.seed) {}

  TimePoint now() const { return TimePoint(now_); }
  void Next() { now_ = std::min(Sum(now_, FromSeconds(random_.Exponential() / rate_)), kMaxWorkloadTime); }

 private:
  double rate_;
  Random random_;
  Duration now_{0};
};

bool IsCsv(WorkloadFormat format);
std::string CsvHeaders();  // the required columns of each format, for messages
std::unique_ptr<LineParser> MakeCsvParser(const ReadOptions& options, WorkloadFormat format, WorkloadBuilder& builder);
std::unique_ptr<LineParser> MakeJsonParser(const ReadOptions& options, WorkloadFormat format, WorkloadBuilder& builder);
std::unique_ptr<LineParser> MakeSessionsParser(const ReadOptions& options, WorkloadBuilder& builder);
// Makes a parser for the columns that `options` name. The error describes invalid columns.
absl::StatusOr<std::unique_ptr<LineParser>> MakeColumnsParser(const ReadOptions& options, WorkloadBuilder& builder);

// Returns the format of a first line; kAuto: none.
WorkloadFormat DetectCsv(std::string_view line);
WorkloadFormat DetectJson(std::string_view line);

// Parses a whole field as a number. The message describes the invalid value.
absl::StatusOr<std::int64_t> ParseWhole(std::string_view text, std::int64_t most);
absl::StatusOr<Duration> ParseSeconds(std::string_view text);

// Parses YYYY-MM-DD, a blank or T, HH:MM:SS, an optional fraction of up to nine digits, and an optional zone: Z or
// +HH:MM.
absl::StatusOr<TimePoint> ParseTimestamp(std::string_view text);

// Returns the value quoted and shortened for a message.
std::string Quoted(std::string_view value);

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_FORMAT_H_
