#include "tool/command/commands.h"

#include <cstdio>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "tool/run/exit_code.h"
#include "tool/run/output.h"
#include "tool/run/shown_text.h"
#include "fmt/format.h"

namespace takt::tool {

CLI::App& AddCommand(CLI::App& tool, Chosen& chosen, const char* name, const char* text, const char* footer,
                     Chosen run) {
  CLI::App* app = tool.add_subcommand(name, text);
  app->footer(footer);
  app->callback([run = std::move(run), &chosen] { chosen = run; });
  return *app;
}

int Complain(std::string_view command, const absl::Status& status, int exit_code) {
  const std::string name = command.empty() ? "takt" : fmt::format("takt {}", command);
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
