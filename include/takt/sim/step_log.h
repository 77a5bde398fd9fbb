// Work and duration of a host's steps, the input of sim/calibrate.h. docs/howto/fitting_profiles.md describes the file
// and how to obtain it.
#ifndef TAKT_SIM_STEP_LOG_H_
#define TAKT_SIM_STEP_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/base/time.h"
#include "takt/model/cost_model.h"
#include "takt/model/step.h"

namespace takt {

struct TimedStep {
  StepLoad load = {};
  Duration time{0};  // duration of the step and of the gap to the next step
  std::int64_t longest_context = 0;  // longest context of a row after the step; without rows, mean context of decodes
  bool from_arrival = false;  // `time` includes the path from a client to the engine, which was idle
};

// The path of a request to a busy engine and back took between these times.
struct PathRange {
  Duration least{0}, most{0};

  friend bool operator==(const PathRange&, const PathRange&) = default;
};

struct StepLog {
  std::vector<TimedStep> steps = {};  // in file order
  std::vector<PathRange> paths = {};
  bool knows_prefill_work = true;  // false: prefill_work is 0, since the context before chunks is unknown
  bool knows_samples = true;  // false: `samples` counts only decodes, since the ends of prefills are unknown
};

struct StepLogOptions {
  bool plan_time = true;  // true: a step's time includes the host's planning time
  bool skip_bad_lines = false;  // true: invalid lines are counted in the report; false: the first one is an error
  std::int64_t max_bytes = std::int64_t{4} << 30;  // maximum bytes of uncompressed text
};

struct StepLogReport {
  std::int64_t bad_lines = 0;  // number of skipped lines
  std::vector<std::string> bad_line_messages = {};  // errors of the first few skipped lines
};

// Reads plain or gzip files: JSON lines {"time_s", "plan_s", "from_arrival", "path_us": [[least, most], ...],
// "rows": [[tokens, position, prefill, samples], ...]}, or CSV with the columns time_s, prefill_tokens, decode_rows,
// context_tokens and optionally plan_s, prefill_work, samples. Errors: NotFound or the system's error; otherwise
// InvalidArgument with file, line, field and value. `report` may be null.
absl::StatusOr<StepLog> ReadStepLog(const std::string& path, const StepLogOptions& options = {},
                                    StepLogReport* report = nullptr);

// Same as ReadStepLog, but parses a text. Messages contain `name` as the file name.
absl::StatusOr<StepLog> ParseStepLog(std::string_view text, const std::string& name, const StepLogOptions& options = {},
                                     StepLogReport* report = nullptr);

// Returns the log line of an executed plan, without line end, for hosts of the scheduler. `plan_time` is added to the
// time from begin to end.
std::string StepLogLine(const StepPlan& plan, TimePoint begin, TimePoint end, Duration plan_time = Duration(0));

}  // namespace takt

#endif  // TAKT_SIM_STEP_LOG_H_
