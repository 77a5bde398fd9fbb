// tiny_engine: a trace in real time, or a server. docs/howto/tiny_engine.md
#include <utility>
#include <variant>

#include "arguments.h"
#include "play.h"
#include "serve.h"

int main(int argc, char** argv) {
  std::variant<tiny::Arguments, int> parsed = tiny::ParseArguments(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  auto& arguments = std::get<tiny::Arguments>(parsed);
  return arguments.serve ? tiny::Serve(std::move(arguments)) : tiny::PlayTrace(std::move(arguments));
}
