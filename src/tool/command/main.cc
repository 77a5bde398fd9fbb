#include "takt/tool.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "tool/command/commands.h"
#include "tool/command/completion.h"
#include "tool/command/other_programs.h"
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
  X(ReplayLog)           \
  X(Doctor)              \
  X(Completion)
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

// Replaces this process with the command's program. Returns only if it is missing.
int RunOther(const OtherCommand& command, int argc, const char* const* argv) {
  std::vector<char*> arguments;
  for (int i = 0; i < argc; ++i) arguments.push_back(const_cast<char*>(argv[i]));
  arguments.push_back(nullptr);
  if (const std::string path = PathOf(command.program); !path.empty()) execv(path.c_str(), arguments.data());
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

std::string PathOf(const std::string& program) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::filesystem::path> folders;
  if (!error) folders.push_back(self.parent_path());
  const char* const path = std::getenv("PATH");
  std::istringstream listed(path != nullptr ? path : "");
  for (std::string folder; std::getline(listed, folder, ':');) folders.emplace_back(folder.empty() ? "." : folder);
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path found = folder / program;
    if (access(found.c_str(), X_OK) == 0 && !std::filesystem::is_directory(found, error)) return found.string();
  }
  return "";
}

int Main(int argc, const char* const* argv) {
  if (argc > 1) {
    const bool completes = argc > 3 && std::string_view(argv[1]) == kCompleteWords;  // asks the command's program
    const std::string command = argv[completes ? 2 : 1];
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
