// What the tool can do, and what its commands have in common. Each prints what goes wrong on standard error and returns
// the exit code.
#ifndef TAKT_SRC_TOOL_COMMAND_COMMANDS_H_
#define TAKT_SRC_TOOL_COMMAND_COMMANDS_H_

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "tool/command/options.h"

namespace takt::tool {

// In the order of the help. A command is a file of its own, with its arguments, its options and what it does, and a
// line here.
#define TAKT_COMMANDS(X) \
  X(Replay)              \
  X(Calibrate)           \
  X(Train)               \
  X(Predict)             \
  X(Compare)             \
  X(Scenario)            \
  X(Plan)                \
  X(Tune)                \
  X(Cluster)             \
  X(Policies)            \
  X(Profiles)            \
  X(Workload)            \
  X(Generate)            \
  X(ReplayLog)

// What is to be run: that of the command which was given.
using Chosen = std::function<int()>;

#define TAKT_DECLARE_COMMAND(name) void Add##name(CLI::App& tool, Chosen& chosen);
TAKT_COMMANDS(TAKT_DECLARE_COMMAND)
#undef TAKT_DECLARE_COMMAND

CLI::App& AddCommand(CLI::App& tool, Chosen& chosen, const char* name, const char* text, const char* footer,
                     Chosen run);

// A command, and the arguments that its options are written to and that it is run with.
template <class Arguments>
std::pair<CLI::App&, Arguments&> AddCommand(CLI::App& tool, Chosen& chosen, const char* name, const char* text,
                                            int (*run)(const Arguments&), const char* footer = "") {
  auto to = std::make_shared<Arguments>();
  return {AddCommand(tool, chosen, name, text, footer, [to, run] { return run(*to); }), *to};
}

// Says what is wrong on standard error, under the command's name; returns `exit_code`.
int Complain(std::string_view command, const absl::Status& status, int exit_code);

// Writes to standard output; the exit code says whether it could.
int Print(std::string_view command, std::string_view text);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_COMMANDS_H_
