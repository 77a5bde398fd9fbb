// takt replay as a WebAssembly program: the tool's own command with the tool's own arguments. web/wasi.js is its
// system.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <typeinfo>

#include "tool/command/commands.h"

namespace takt::tool {

void AddReplay(CLI::App& tool, Chosen& chosen);
void AddPolicies(CLI::App& tool, Chosen& chosen);
void AddProfiles(CLI::App& tool, Chosen& chosen);

}  // namespace takt::tool

// This target has no exceptions. CLI11 throws its error of usage, which ends the program with the message. The thrown
// object has a std::exception as its first base.
extern "C" void* __cxa_allocate_exception(std::size_t size) { return std::malloc(size); }
extern "C" void __cxa_free_exception(void* thrown) { std::free(thrown); }
extern "C" [[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
  std::fprintf(stderr, "takt replay: %s\n", static_cast<const std::exception*>(thrown)->what());
  std::exit(2);
}

int main(int argc, char** argv) {
  using namespace takt::tool;
  return RunProgram({"takt", "", "", {AddReplay, AddPolicies, AddProfiles}}, argc, argv);
}
