// Commands of the tool that are programs of their own.
#ifndef TAKT_SRC_TOOL_COMMAND_OTHER_PROGRAMS_H_
#define TAKT_SRC_TOOL_COMMAND_OTHER_PROGRAMS_H_

#include <array>
#include <string>

namespace takt::tool {

// takt-plan links solvers and takes as long to build as takt. takt-observe needs an HTTP library.
struct OtherCommand {
  const char *name, *program, *target, *text;
};
inline constexpr std::array kOtherCommands = {
    OtherCommand{"plan", "takt-plan", "takt_plan",
                 "place models on GPUs for the lowest latency at a given quality (runs takt-plan)"},
    OtherCommand{"recommend", "takt-plan", "takt_plan",
                 "find the least GPUs, and their settings, that serve a workload within targets (runs takt-plan)"},
    OtherCommand{"tune", "takt-plan", "takt_plan",
                 "choose the alpha of workload_balance by simulation (runs takt-plan)"},
    OtherCommand{"cluster", "takt-plan", "takt_plan", "plan a cluster by solving an integer program (runs takt-plan)"},
    OtherCommand{"observe", "takt-observe", "takt_observe",
                 "send a workload to a server and record what its clients see (runs takt-observe)"}};

// Returns the program in this program's folder, otherwise the first on PATH; empty: neither exists.
std::string PathOf(const std::string& program);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_COMMAND_OTHER_PROGRAMS_H_
