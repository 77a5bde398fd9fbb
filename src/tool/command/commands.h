// Shared parts of programs with commands. A command prints its error on standard error and returns the exit code.
#ifndef TAKT_SRC_TOOL_COMMAND_COMMANDS_H_
#define TAKT_SRC_TOOL_COMMAND_COMMANDS_H_

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tool/command/options.h"

namespace takt::tool {

// Runs the chosen command and returns the exit code.
using Chosen = std::function<int()>;

// A program with several commands. Each command has a file of its own with its arguments, options and work.
struct Program {
  const char* name;
  const char* help;
  const char* examples;
  std::vector<void (*)(CLI::App& tool, Chosen& chosen)> commands;
};
int RunProgram(const Program& program, int argc, const char* const* argv);

CLI::App& AddCommand(CLI::App& tool, Chosen& chosen, const char* name, const char* text, const char* footer,
                     Chosen run);

// A command and its arguments. The options are written to the arguments, and the command runs with them.
template <class Arguments>
std::pair<CLI::App&, Arguments&> AddCommand(CLI::App& tool, Chosen& chosen, const char* name, const char* text,
                                            int (*run)(const Arguments&), const char* footer = "") {
  auto to = std::make_shared<Arguments>();
  return {AddCommand(tool, chosen, name, text, footer, [to, run] { return run(*to); }), *to};
}

// Prints the error on standard error, after the names of the program and the command. Returns `exit_code`.
int Complain(std::string_view command, const absl::Status& status, int exit_code);

// Writes to standard output. Returns a failure code if that fails.
int Print(std::string_view command, std::string_view text);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_COMMANDS_H_
