#include <cstdio>
#include <span>
#include <string>

#include "tool/command/commands.h"
#include "tool/run/exit_code.h"
#include "tool/run/load_workload.h"
#include "tool/run/output.h"
#include "tool/run/shown_text.h"
#include "tool/report/table.h"
#include "fmt/format.h"
#include "takt/workload/summary.h"

namespace takt::tool {
namespace {

struct InspectArguments {
  WorkloadSource workload;
  std::string output;
};

void AddRow(Table& table, const char* name, const Summary& summary) {
  table.BeginRow();
  table.Text(name);
  for (const double number : {summary.mean, summary.p50, summary.p90, summary.p99, summary.max}) table.Number(number);
}

std::string Describe(const Workload& workload, const std::string& source) {
  const WorkloadSummary s = Summarise(workload);
  std::string text =
      fmt::format("{}: {}, {}", ShownName(source), Counted(s.workflows, "workflow"), Counted(s.calls, "request"));
  if (s.tools > 0) text += ", " + Counted(s.tools, "tool call");
  if (s.tenants > 0) text += ", " + Counted(s.tenants, "tenant");
  text += s.rate > 0 ? fmt::format(
                           "\n{} workflows/s over {} s; the gaps between arrivals have a coefficient of variation of "
                           "{} (Poisson: 1)\n",
                           Short(s.rate), Short(s.span_s), Short(s.gap_cv))
                     : std::string("\nall at once\n");

  Table table({{"", "", false}, {"", "mean"}, {"", "p50"}, {"", "p90"}, {"", "p99"}, {"", "max"}});
  AddRow(table, "prompt tokens of a request", s.prompt_tokens);
  AddRow(table, "output tokens of a request", s.output_tokens);
  if (s.calls > s.workflows) {
    AddRow(table, "requests of a workflow", s.calls_per_workflow);
    AddRow(table, "output tokens of a workflow", s.workflow_output_tokens);
  }
  if (s.tools > 0) AddRow(table, "seconds of a tool call", s.tool_s);
  text += "\n" + table.ToString();

  if (s.stages.size() > 1 || (s.stages.size() == 1 && !s.stages[0].stage.empty())) {
    Table stages({{"", "stage", false}, {"", "requests"}, {"mean tokens", "prompt"}, {"mean tokens", "output"}});
    for (const StageSummary& stage : s.stages) {
      stages.BeginRow();
      stages.Text(stage.stage.empty() ? "(none)" : stage.stage);
      stages.Number(static_cast<double>(stage.calls));
      stages.Number(stage.mean_prompt_tokens);
      stages.Number(stage.mean_output_tokens);
    }
    text += "\n" + stages.ToString();
  }
  if (s.prefix_blocks > 0) {
    text +=
        fmt::format("\nPrefixes: {} of {} tokens, {} distinct; an unlimited cache would hit {:.1f} % of the blocks\n",
                    Counted(s.prefix_blocks, "block"), workload.prefix_block_tokens, Grouped(s.distinct_prefix_blocks),
                    s.prefix_hit_share * 100);
  }
  return text;
}

int RunWorkload(const InspectArguments& arguments) {
  const NamedPath file{"FILE", arguments.workload.file}, output{"--output", arguments.output};
  if (absl::Status usage = CheckPaths(std::span(&file, 1), std::span(&output, 1)); !usage.ok()) {
    return Complain("workload", usage, kUsage);
  }
  const absl::StatusOr<Workload> workload = LoadWorkload(arguments.workload);
  if (!workload.ok()) return Complain("workload", workload.status(), kFailed);
  if (!IsStdout(arguments.output)) {
    const int printed = Print("workload", Describe(*workload, arguments.workload.file));
    if (printed != kDone || arguments.output.empty()) return printed;
  }
  const absl::Status written = SaveWorkload(*workload, arguments.output);
  return written.ok() ? kDone : Complain("workload", written, kFailed);
}

}  // namespace

void AddWorkload(CLI::App& tool, Chosen& chosen) {
  const auto [app, to] = AddCommand(
      tool, chosen, "workload", "summarise a workload", RunWorkload,
      "Examples\n  takt workload azure_llm_2023_conv.csv.gz\n  takt workload bundled --output bundled.jsonl");
  Group options(app, "Options");
  options.Add("file", to.workload.file, "FILE", "read a trace, 'bundled', or a generator");
  AddWorkloadSource(options, to.workload);
  options.Add("--output", to.output, "FILE", "write it as workflow JSONL (compressed if it ends in .gz)");
}

}  // namespace takt::tool
