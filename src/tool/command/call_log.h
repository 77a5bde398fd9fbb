// A user's own log of calls, for takt train and takt predict.
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
  std::vector<LoggedCall> calls = {};  // in the order of the file; their texts point to what follows
  std::vector<std::string_view> workflows = {};  // the name of each call's; empty: it is one of its own
  std::vector<std::int64_t> lines = {};          // where each stands
  std::set<std::string, std::less<>> names = {};
  std::deque<std::string> texts = {};

  // The calls of each workflow, in the order of their first lines.
  std::vector<std::vector<LoggedCall>> ByWorkflow() const;
};

struct CallLogOptions {
  bool outputs = true;  // every line must tell output_tokens
  bool skip_bad_lines = false;
};

struct CallLogReport {
  std::int64_t bad_lines = 0;  // skipped
  std::vector<std::string> bad_line_messages = {};  // the first few of them
};

// Lines of JSON, or CSV with a header, plain or gzip, from standard input for "-"; docs/howto/prediction.md lists
// the columns. Where a line does not tell calls_before and tokens_before, they are those of the lines of its workflow
// before it; tokens are not known where one of those does not tell output_tokens. Errors: NotFound or what the system
// says of the file; else InvalidArgument, naming file, line, field and value.
absl::StatusOr<CallLog> ReadCallLog(const std::string& path, const CallLogOptions& options, CallLogReport& report);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_CALL_LOG_H_
