#include "takt/tool.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "tool/command/commands.h"
#include "tool/run/exit_code.h"

namespace takt::tool {

// Commands, in the order of the help.
#define TAKT_COMMANDS(X) \
  X(Replay)              \
  X(Calibrate)           \
  X(Train)               \
  X(Predict)             \
  X(Compare)             \
  X(Policies)            \
  X(Profiles)            \
  X(Workload)            \
  X(Generate)            \
  X(ReplayLog)
#define TAKT_DECLARE_COMMAND(name) void Add##name(CLI::App& tool, Chosen& chosen);
TAKT_COMMANDS(TAKT_DECLARE_COMMAND)
#undef TAKT_DECLARE_COMMAND

namespace {

constexpr const char* kToolHelp =
    R"(takt schedules requests in LLM serving engines. This tool replays a workload through virtual engines under
several policies and compares the latency and throughput of each.)";

constexpr const char* kToolExamples = R"(Start here
  takt replay                              replay the bundled workload under four policies
  takt replay --html report.html           also write a page with plots
  takt policies                            list the policies
  takt replay --help                       list all options)";

// Commands of other programs. takt-plan links solvers and takes as long to build as takt. takt-observe needs an HTTP
// library.
struct OtherCommand {
  const char *name, *program, *target, *text;
};
constexpr std::array kOtherCommands = {
    OtherCommand{"plan", "takt-plan", "takt_plan",
                 "place models on GPUs for the lowest latency at a given quality (runs takt-plan)"},
    OtherCommand{"tune", "takt-plan", "takt_plan",
                 "choose the alpha of workload_balance by simulation (runs takt-plan)"},
    OtherCommand{"cluster", "takt-plan", "takt_plan", "plan a cluster by solving an integer program (runs takt-plan)"},
    OtherCommand{"observe", "takt-observe", "takt_observe",
                 "send a workload to a server and record what its clients see (runs takt-observe)"}};

// Replaces this process with the command's program: the one in this program's folder, otherwise the first on PATH.
// Returns only if neither exists.
int RunOther(const OtherCommand& command, int argc, const char* const* argv) {
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::string beside = none ? std::string() : (self.parent_path() / command.program).string();
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i) arguments.push_back(const_cast<char*>(argv[i]));
  arguments.push_back(nullptr);
  if (!beside.empty()) execv(beside.c_str(), arguments.data());
  execvp(command.program, arguments.data());
  return Complain(command.name,
                  absl::NotFoundError(fmt::format(
                      "{} is missing; expected it in takt's folder or on PATH. Build both in one folder with\n"
                      "  cmake --preset release && cmake --build --preset release --target takt_cli {}",
                      command.program, command.target)),
                  kFailed);
}

void AddOtherCommands(CLI::App& tool, Chosen&) {
  for (const OtherCommand& command : kOtherCommands) tool.add_subcommand(command.name, command.text);
}

}  // namespace

int Main(int argc, const char* const* argv) {
  if (argc > 1) {
    const std::string command = argv[1];
    const auto found = std::ranges::find(kOtherCommands, command, &OtherCommand::name);
    if (found != kOtherCommands.end()) return RunOther(*found, argc, argv);
  }
  Program program{"takt", kToolHelp, kToolExamples, {}};
#define TAKT_ADD_COMMAND(name) program.commands.push_back(Add##name);
  TAKT_COMMANDS(TAKT_ADD_COMMAND)
#undef TAKT_ADD_COMMAND
  program.commands.push_back(AddOtherCommands);
  return RunProgram(program, argc, argv);
}

}  // namespace takt::tool
