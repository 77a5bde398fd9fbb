#include "takt/tool.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
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

// Commands of takt-plan. It is a separate program because it links solvers and takes as long to build as takt.
struct PlanCommand {
  const char *name, *text;
};
constexpr std::array kPlanCommands = {
    PlanCommand{"plan", "place models on GPUs for the lowest latency at a given quality (runs takt-plan)"},
    PlanCommand{"tune", "choose the alpha of workload_balance by simulation (runs takt-plan)"},
    PlanCommand{"cluster", "plan a cluster by solving an integer program (runs takt-plan)"}};

// Replaces this process with takt-plan: the one in this program's folder, otherwise the first on PATH. Returns only if
// neither exists.
int RunPlan(const char* command, int argc, const char* const* argv) {
  std::error_code none;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", none);
  const std::string beside = none ? std::string() : (self.parent_path() / "takt-plan").string();
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i) arguments.push_back(const_cast<char*>(argv[i]));
  arguments.push_back(nullptr);
  if (!beside.empty()) execv(beside.c_str(), arguments.data());
  execvp("takt-plan", arguments.data());
  return Complain(
      command,
      absl::NotFoundError("takt-plan is missing; expected it in takt's folder or on PATH. Build "
                          "both in one folder with\n"
                          "  cmake --preset release && cmake --build --preset release --target takt_cli takt_plan"),
      kFailed);
}

void AddPlanCommands(CLI::App& tool, Chosen&) {
  for (const PlanCommand& command : kPlanCommands) tool.add_subcommand(command.name, command.text);
}

}  // namespace

int Main(int argc, const char* const* argv) {
  if (argc > 1) {
    const std::string command = argv[1];
    const auto found = std::ranges::find(kPlanCommands, command, &PlanCommand::name);
    if (found != kPlanCommands.end()) return RunPlan(found->name, argc, argv);
  }
  Program program{"takt", kToolHelp, kToolExamples, {}};
#define TAKT_ADD_COMMAND(name) program.commands.push_back(Add##name);
  TAKT_COMMANDS(TAKT_ADD_COMMAND)
#undef TAKT_ADD_COMMAND
  program.commands.push_back(AddPlanCommands);
  return RunProgram(program, argc, argv);
}

}  // namespace takt::tool
