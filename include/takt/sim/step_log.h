// What a host's steps computed, and how long each took: what a cost model is fitted to (sim/calibrate.h).
// docs/howto/fitting_profiles.md describes the file and how to obtain it.
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
  Duration time{0};                  // of the step and of what comes between it and the next
  std::int64_t longest_context = 0;  // of a row, the step's tokens included; where rows are unknown, of a decode's mean
};

struct StepLog {
  std::vector<TimedStep> steps = {};  // in the order of the file
  bool knows_prefill_work = true;  // false: loads have none, as the context before a chunk is unknown
  bool knows_samples = true;  // false: loads count the decodes alone, as it is unknown which prefills ended
};

struct StepLogOptions {
  bool plan_time = true;  // a step's time contains what its host says the planning took
  bool skip_bad_lines = false;  // count them in the report instead of failing at the first
  std::int64_t max_bytes = std::int64_t{4} << 30;  // of text, unpacked: more is refused
};

struct StepLogReport {
  std::int64_t bad_lines = 0;  // skipped
  std::vector<std::string> bad_line_messages = {};  // the first few of them
};

// Reads lines of JSON {"time_s", "plan_s", "rows": [[tokens, position, prefill, samples], ...]}, or CSV with the
// columns time_s, prefill_tokens, decode_rows, context_tokens and perhaps plan_s, prefill_work, samples; plain or gzip.
// Errors: NotFound or what the system says of the file; else InvalidArgument, naming file, line, field and value.
// `report` may be null.
absl::StatusOr<StepLog> ReadStepLog(const std::string& path, const StepLogOptions& options = {},
                                    StepLogReport* report = nullptr);

// The same from memory; `name` stands for the file in messages.
absl::StatusOr<StepLog> ParseStepLog(std::string_view text, const std::string& name, const StepLogOptions& options = {},
                                     StepLogReport* report = nullptr);

// A plan that has been carried out, as a line of such a file without its end. For hosts of the scheduler. `plan_time`
// is what comes on top of the time from begin to end.
std::string StepLogLine(const StepPlan& plan, TimePoint begin, TimePoint end, Duration plan_time = Duration(0));

}  // namespace takt

#endif  // TAKT_SIM_STEP_LOG_H_
