// takt-plan: plans clusters. `takt plan`, `recommend`, `tune` and `cluster` run it.
#include "tool/command/commands.h"

namespace takt::tool {

void AddPlan(CLI::App& tool, Chosen& chosen);
void AddRecommend(CLI::App& tool, Chosen& chosen);
void AddTune(CLI::App& tool, Chosen& chosen);
void AddCluster(CLI::App& tool, Chosen& chosen);

}  // namespace takt::tool

int main(int argc, char** argv) {
  using namespace takt::tool;
  return RunProgram(
      {"takt",  // users call its commands by this name
       "takt-plan places models on GPUs. takt runs it for its commands plan, recommend, tune and cluster.",
       "Start here\n  takt plan --help",
       {AddPlan, AddRecommend, AddTune, AddCluster}},
      argc, argv);
}
