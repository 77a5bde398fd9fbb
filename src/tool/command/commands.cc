#include "tool/command/commands.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "CLI/CLI.hpp"
#include "tool/command/completion.h"
#include "tool/command/version.h"
#include "tool/run/exit_code.h"
#include "tool/run/output.h"
#include "tool/run/shown_text.h"
#include "fmt/format.h"
#include "takt/rivals/rivals.h"

namespace takt::tool {
namespace {

std::string_view g_name = "takt";  // name of the program

}  // namespace

CLI::App& AddCommand(CLI::App& tool, Chosen& chosen, const char* name, const char* text, const char* footer,
                     Chosen run) {
  CLI::App* app = tool.add_subcommand(name, text);
  app->footer(footer);
  app->callback([run = std::move(run), &chosen] { chosen = run; });
  return *app;
}

int RunProgram(const Program& program, int argc, const char* const* argv) {
  g_name = program.name;
  RegisterRivals().IgnoreError();  // if the host has registered a name already, its policy stays
  CLI::App tool(program.help, program.name);
  tool.formatter(HelpFormat());
  tool.set_version_flag("--version", VersionText(program.name));
  tool.require_subcommand(1);
  tool.footer(program.examples);
  Chosen chosen;
  for (const auto add : program.commands) add(tool, chosen);
  if (argc < 2) {
    std::fputs(tool.help().c_str(), stderr);
    return kUsage;
  }
  if (std::string_view(argv[1]) == kCompleteWords) {
    for (const std::string& word : CandidatesOf(tool, {argv + 2, argv + argc})) std::printf("%s\n", word.c_str());
    return kDone;
  }
  try {
    tool.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return tool.exit(error) == 0 ? kDone : kFailed;
    return ReportUsage(tool, error);
  }
  return chosen();
}

int Complain(std::string_view command, const absl::Status& status, int exit_code) {
  const std::string name = command.empty() ? std::string(g_name) : fmt::format("{} {}", g_name, command);
  Note(fmt::format("{}: {}", name, std::string(status.message())));
  return exit_code;
}

int Print(std::string_view command, std::string_view text) {
  OutputFile out = OutputFile::Open("-").value();
  out.Write(ShownLines(text));
  const absl::Status written = out.Close();
  return written.ok() ? kDone : Complain(command, written, kFailed);
}

}  // namespace takt::tool
