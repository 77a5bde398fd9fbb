// What the readers of all formats have in common.
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
inline constexpr std::size_t kMaxCalls = 100'000;  // of one workflow

inline absl::Status BadField(std::string_view field, const std::string& what) {
  return absl::InvalidArgumentError(std::string(field) + ": " + what);
}

// The same kind of error, with the place in front.
inline absl::Status AtPlace(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(), place + ": " + std::string(status.message()));
}

// Absolute times of one workload: what counts is how far they are apart.
inline bool NearEnough(TimePoint a, TimePoint b) {
  return Between(std::min(a, b), std::max(a, b)) <= kMaxWorkloadTime / 2;
}

// Turns lines into workflows. A line that fails leaves nothing behind but names; its message names field and value.
class LineParser {
 public:
  virtual ~LineParser() = default;
  virtual absl::Status Header(std::string_view) { return absl::OkStatus(); }  // of the first line
  virtual bool has_times() const { return true; }          // false: arrivals are generated
  virtual bool has_header() const { return false; }        // the first line is no data

  // Of a format whose workflows have several lines: they are added in the end.
  virtual std::int64_t held() const { return 0; }  // good lines whose workflows are not there yet
  virtual bool full() const { return false; }      // with these, all workflows are there that the limit allows
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

  std::int64_t long_sessions_ = 0;  // left out

 private:
  std::int64_t raised_ = 0;
};

// Poisson arrivals for a file that has none. Next() only once the line is good.
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
std::string CsvHeaders();  // of each format the columns that it must have, for people
std::unique_ptr<LineParser> MakeCsvParser(const ReadOptions& options, WorkloadFormat format, WorkloadBuilder& builder);
std::unique_ptr<LineParser> MakeJsonParser(const ReadOptions& options, WorkloadFormat format, WorkloadBuilder& builder);
std::unique_ptr<LineParser> MakeSessionsParser(const ReadOptions& options, WorkloadBuilder& builder);
// Of the columns that `options` name; the error says what is wrong with them.
absl::StatusOr<std::unique_ptr<LineParser>> MakeColumnsParser(const ReadOptions& options, WorkloadBuilder& builder);

// The format that a first line belongs to; kAuto: none.
WorkloadFormat DetectCsv(std::string_view line);
WorkloadFormat DetectJson(std::string_view line);

// Numbers as a whole field; the message says what is wrong with the value.
absl::StatusOr<std::int64_t> ParseWhole(std::string_view text, std::int64_t most);
absl::StatusOr<Duration> ParseSeconds(std::string_view text);

// YYYY-MM-DD, a blank or T, HH:MM:SS, up to nine digits of a fraction, Z or +HH:MM or nothing.
absl::StatusOr<TimePoint> ParseTimestamp(std::string_view text);

// What a message shows of a value: quoted, not too long.
std::string Quoted(std::string_view value);

}  // namespace takt

#endif  // TAKT_SRC_WORKLOAD_FORMAT_H_
