#include <string>

#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/load_workload.h"
#include "takt/workload/generate.h"

namespace takt::tool {
namespace {

struct GenerateArguments {
  std::string spec;
  std::string output = "-";
};

constexpr const char* kGenerateExamples =
    R"(Generators: poisson, constant, gamma, weibull (arrivals of single requests), multi_stage (workflows).
docs/reference/workloads.md lists their keys.

Examples
  takt generate gen:poisson,requests=1000,rate=5,output=lognormal:200:0.8 --output poisson.jsonl
  takt generate gen:multi_stage,workflows=500,rate=2,seed=7 --output stages.jsonl.gz
  takt replay --workload gen:multi_stage,rate=6)";

int RunGenerate(const GenerateArguments& arguments) {
  const absl::StatusOr<Workload> workload = GenerateWorkload(arguments.spec);
  if (!workload.ok()) return Complain("generate", workload.status(), kUsage);
  const absl::Status written = SaveWorkload(*workload, arguments.output);
  return written.ok() ? kDone : Complain("generate", written, kFailed);
}

}  // namespace

void AddGenerate(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(tool, chosen, "generate", "generate a workload with random arrivals and lengths",
                                    RunGenerate, kGenerateExamples);
  Group options(app, "Options");
  options.Add("spec", to.spec, "SPEC", "use this generator: gen:NAME,key=value,...").Required();
  options.Add("--output", to.output, "FILE", "write to FILE (compressed if it ends in .gz), or - for standard output");
}

}  // namespace takt::tool
