#include "program.h"

#include <cstdio>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "play.h"
#include "serve.h"

namespace serving {

int Program::Run(int argc, const char* const* argv) {
  std::variant<Arguments, int> parsed = ParseArguments(*this, argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  auto& arguments = std::get<Arguments>(parsed);
  return arguments.serve || only_serves() ? Serve(*this, std::move(arguments)) : PlayTrace(*this, std::move(arguments));
}

int Program::Complain(const absl::Status& status, int exit_code) const {
  std::fputs(fmt::format("{}: {}\n", name(), std::string(status.message())).c_str(), stderr);
  return exit_code;
}

}  // namespace serving
