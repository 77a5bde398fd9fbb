// takt-plan: plans of clusters. `takt plan`, `takt tune` and `takt cluster` run it.
#include "tool/command/commands.h"

namespace takt::tool {

void AddPlan(CLI::App& tool, Chosen& chosen);
void AddTune(CLI::App& tool, Chosen& chosen);
void AddCluster(CLI::App& tool, Chosen& chosen);

}  // namespace takt::tool

int main(int argc, char** argv) {
  using namespace takt::tool;
  return RunProgram({"takt",  // the name under which users know the commands
                     "takt-plan lays out models on GPUs. takt runs it for its commands plan, tune and cluster.",
                     "Begin with\n  takt plan --help",
                     {AddPlan, AddTune, AddCluster}},
                    argc, argv);
}
