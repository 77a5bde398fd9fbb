// Reads a user's log of calls, for takt train and takt predict.
#ifndef TAKT_SRC_TOOL_COMMAND_CALL_LOG_H_
#define TAKT_SRC_TOOL_COMMAND_CALL_LOG_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "takt/learning/call_predictor.h"

namespace takt::tool {

struct CallLog {
  std::vector<LoggedCall> calls = {};  // in the order of the file; their texts point into `texts`
  std::vector<std::string_view> workflows =
      {};  // name of each call's workflow; empty: the call is a workflow of its own
  std::vector<std::int64_t> lines = {};  // line number of each call
  std::set<std::string, std::less<>> names = {};
  std::deque<std::string> texts = {};

  // Returns the calls of each workflow, in the order of the workflows' first lines.
  std::vector<std::vector<LoggedCall>> ByWorkflow() const;
};

struct CallLogOptions {
  bool outputs = true;  // every line must have output_tokens
  bool skip_bad_lines = false;
};

struct CallLogReport {
  std::int64_t bad_lines = 0;  // skipped
  std::vector<std::string> bad_line_messages = {};  // the first few
};

// Reads a log of calls: JSON lines, or CSV with a header, plain or gzip; "-" reads standard input.
// docs/howto/prediction.md lists the columns. If a line lacks calls_before and tokens_before, they are counted from the
// earlier lines of its workflow. The tokens are unknown if one of those lines lacks output_tokens. Errors: NotFound or
// the system's error for the file; otherwise InvalidArgument with file, line, field and value.
absl::StatusOr<CallLog> ReadCallLog(const std::string& path, const CallLogOptions& options, CallLogReport& report);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_CALL_LOG_H_
