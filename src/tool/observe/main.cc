// takt-observe: measures a server. `takt observe` runs it.
#include "tool/command/commands.h"

namespace takt::tool {

void AddObserve(CLI::App& tool, Chosen& chosen);

}  // namespace takt::tool

int main(int argc, char** argv) {
  using namespace takt::tool;
  return RunProgram({"takt",  // users call its command by this name
                     "takt-observe measures an OpenAI-compatible server. takt runs it for its command observe.",
                     "Start here\n  takt observe --help",
                     {AddObserve}},
                    argc, argv);
}
