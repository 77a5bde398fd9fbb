#include "takt/tool.h"

#include <cstdio>

#include "CLI/CLI.hpp"
#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "takt/rivals/rivals.h"
#include "takt/version.h"

namespace takt::tool {
namespace {

constexpr const char* kToolHelp =
    R"(takt decides what an LLM serving engine runs next. This tool replays a workload through virtual engines under
several scheduling policies, and shows which of them serves its users better.)";

constexpr const char* kToolExamples = R"(Begin with
  takt replay                              the bundled workload under four policies
  takt replay --html report.html           the same, with plots
  takt policies                            which policies there are
  takt replay --help                       all that can be varied)";

}  // namespace

int Main(int argc, const char* const* argv) {
  RegisterRivals().IgnoreError();  // a name that the host has taken stays the host's
  CLI::App tool(kToolHelp, "takt");
  tool.formatter(HelpFormat());
  tool.set_version_flag("--version", "takt " TAKT_VERSION);
  tool.require_subcommand(1);
  tool.footer(kToolExamples);
  Chosen chosen;
#define TAKT_ADD_COMMAND(name) Add##name(tool, chosen);
  TAKT_COMMANDS(TAKT_ADD_COMMAND)
#undef TAKT_ADD_COMMAND
  if (argc < 2) {
    std::fputs(tool.help().c_str(), stderr);
    return kUsage;
  }
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return tool.exit(error) == 0 ? kDone : kFailed;
    return ReportUsage(tool, error);
  }
  return chosen();
}

}  // namespace takt::tool
