#include <variant>

#include "tool/command/arguments.h"
#include "tool/command/commands.h"

int main(int argc, char** argv) {
  using namespace takt::tool;
  const std::variant<Arguments, int> parsed = ParseArguments(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  return std::visit([](const auto& arguments) { return RunCommand(arguments); }, std::get<Arguments>(parsed));
}
