#include "takt/workload/summary.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "workload/seen_prefixes.h"

namespace takt {
namespace {

// Summarises one value per element.
template <class Range, class Value>
Summary SummaryOf(const Range& range, Value value) {
  std::vector<double> values;
  values.reserve(range.size());
  for (const auto& element : range) values.push_back(static_cast<double>(value(element)));
  return Summary::Of(values);
}

void AddArrivals(const Workload& w, WorkloadSummary& s) {
  if (w.workflows.empty()) return;
  s.span_s = ToSeconds(Between(w.workflows.front().arrival, w.workflows.back().arrival));
  if (s.span_s <= 0) return;
  Moments gaps;
  for (std::size_t i = 1; i < w.workflows.size(); ++i) {
    gaps.Add(ToSeconds(Between(w.workflows[i - 1].arrival, w.workflows[i].arrival)));
  }
  s.rate = static_cast<double>(gaps.count()) / s.span_s;
  s.gap_cv = gaps.deviation() / gaps.mean();
}

void AddStages(const Workload& w, WorkloadSummary& s) {
  std::vector<std::size_t> index_of_name(w.names.size(), SIZE_MAX);
  for (const WorkloadWorkflow& workflow : w.workflows) {
    for (const WorkloadCall& call : w.calls_of(workflow)) {
      std::size_t& index = index_of_name[call.stage];
      if (index == SIZE_MAX) {
        index = s.stages.size();
        s.stages.push_back({.stage = w.names[call.stage]});
      }
      StageSummary& stage = s.stages[index];
      ++stage.calls;
      stage.mean_prompt_tokens += call.prompt_tokens;  // a sum until all calls are added
      stage.mean_output_tokens += call.output_tokens;
    }
  }
  for (StageSummary& stage : s.stages) {
    stage.mean_prompt_tokens /= static_cast<double>(stage.calls);
    stage.mean_output_tokens /= static_cast<double>(stage.calls);
  }
}

void AddPrefixes(const Workload& w, WorkloadSummary& s) {
  SeenPrefixes seen(w);
  std::int64_t hits = 0;
  for (const WorkloadWorkflow& workflow : w.workflows) {
    seen.NextWorkflow();
    for (const WorkloadCall& call : w.calls_of(workflow)) {
      hits += seen.Add(call);
      s.prefix_blocks += call.hashes;
      for (const PrefixRun& run : w.runs_of(call)) s.prefix_blocks += run.count;
    }
  }
  s.distinct_prefix_blocks = seen.distinct();
  if (s.prefix_blocks > 0) s.prefix_hit_share = static_cast<double>(hits) / static_cast<double>(s.prefix_blocks);
}

}  // namespace

WorkloadSummary Summarise(const Workload& workload) {
  WorkloadSummary s;
  s.workflows = std::ssize(workload.workflows);
  s.calls = std::ssize(workload.calls);
  s.tools = std::ssize(workload.tools);
  std::set<std::uint32_t> tenants;
  for (const WorkloadWorkflow& w : workload.workflows) tenants.insert(w.tenant);
  tenants.erase(0);
  s.tenants = std::ssize(tenants);
  AddArrivals(workload, s);
  s.prompt_tokens = SummaryOf(workload.calls, [](const WorkloadCall& c) { return c.prompt_tokens; });
  s.output_tokens = SummaryOf(workload.calls, [](const WorkloadCall& c) { return c.output_tokens; });
  s.calls_per_workflow = SummaryOf(workload.workflows, [](const WorkloadWorkflow& w) { return w.calls; });
  s.workflow_output_tokens = SummaryOf(workload.workflows, [&](const WorkloadWorkflow& w) {
    double tokens = 0;
    for (const WorkloadCall& call : workload.calls_of(w)) tokens += call.output_tokens;
    return tokens;
  });
  s.tool_s = SummaryOf(workload.tools, [](const WorkloadTool& t) { return ToSeconds(t.duration); });
  AddStages(workload, s);
  AddPrefixes(workload, s);
  return s;
}

}  // namespace takt
