#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "tool/report/metric_fields.h"
#include "tool/report/reports.h"
#include "fmt/format.h"
#include "takt/base/time.h"

namespace takt::tool {
namespace {

// A figure that was not measured is empty.
std::string NumberColumn(double figure) { return std::isnan(figure) ? "," : fmt::format(",{}", figure); }

// Returns the field, quoted if RFC 4180 requires it.
std::string Field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) quoted.append(c == '"' ? 2 : 1, c);
  return quoted += '"';
}

// Returns the seconds between two times, exact to the nanosecond; empty if one of them is missing.
std::string Seconds(TimePoint from, TimePoint to) {
  if (from == kNever || to == kNever) return "";
  const std::int64_t ns = (to - from).count();
  std::string text = fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// Returns the first columns of every line of a run.
std::string RunColumns(const Run& run) {
  const RunSettings& settings = run.settings;
  return fmt::format("{},{},{}", Field(settings.policy), settings.estimates.ToString(),
                     settings.load ? fmt::format("{}", *settings.load) : "");
}

std::string_view OutcomeOf(const RequestRecord& record) {
  switch (record.outcome) {
    case Outcome::kPending: return "pending";
    case Outcome::kCompleted: return "completed";
    case Outcome::kFailed: return Name(record.reason);
    case Outcome::kNeverMade: return "never_made";
  }
  return "";
}

std::string RequestLine(const std::string& run, const Workload& workload, std::size_t index,
                        const RequestRecord& record) {
  const WorkloadCall& call = workload.calls[index];
  const WorkloadWorkflow& workflow = workload.workflows[record.workflow];
  const bool completed = record.outcome == Outcome::kCompleted;
  std::string tpot;
  if (completed && record.output_tokens > 1) {
    tpot = fmt::format("{}", ToSeconds(record.end - record.first_token) / (record.output_tokens - 1));
  }
  return fmt::format(
      "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", run, index, record.workflow,
      Field(workload.names[call.stage]), Field(workload.names[call.agent]), OutcomeOf(record),
      record.first_step == kNever ? "" : std::to_string(record.instance), Seconds(TimePoint{}, record.arrival),
      Seconds(record.arrival, record.first_step), Seconds(record.arrival, record.first_token), tpot,
      completed ? Seconds(record.arrival, record.end) : "", call.prompt_tokens, record.output_tokens,
      record.cached_tokens, record.preemptions, record.recomputed_tokens, Seconds(TimePoint{}, record.end),
      Field(workload.TenantOf(workflow)), Field(workload.names[workflow.name]));
}

}  // namespace

void WriteRequestCsv(const Comparison& comparison, OutputFile& out) {
  out.Write(
      "policy,estimates,load,request,workflow,stage,agent,outcome,instance,arrival_s,queue_s,ttft_s,tpot_s,e2e_s,"
      "prompt_tokens,output_tokens,cached_tokens,preemptions,recomputed_tokens,end_s,tenant,class\n");
  for (const Run& run : comparison.runs) {
    if (!run.ended) continue;
    const std::string columns = RunColumns(run);
    for (std::size_t i = 0; i < run.requests.size(); ++i) {
      out.Write(RequestLine(columns, comparison.workload, i, run.requests[i]));
    }
  }
}

void WriteRunCsv(const Comparison& comparison, OutputFile& out) {
  std::string line = "policy,estimates,load";
  for (const CountField& field : kRunCounts) line += fmt::format(",{}", field.key);
  for (const SummaryField& summary : kSummaries) {
    for (const StatisticField& statistic : kStatistics) line += fmt::format(",{}_{}", summary.key, statistic.key);
  }
  for (const ScalarField& field : kScalars) line += fmt::format(",{}", field.key);
  for (const CountField& field : kTotals) line += fmt::format(",{}", field.key);
  out.Write(line + ",score,regret,by,name\n");
  const auto write = [&](const Run& run, const Metrics& metrics, const std::string& part) {
    line = RunColumns(run);
    for (const CountField& field : kRunCounts) line += fmt::format(",{}", metrics.*field.member);
    for (const SummaryField& summary : kSummaries) {
      for (const StatisticField& statistic : kStatistics) {
        line += NumberColumn((metrics.*summary.member).*statistic.member);
      }
    }
    for (const ScalarField& field : kScalars) line += NumberColumn(metrics.*field.member);
    for (const CountField& field : kTotals) line += fmt::format(",{}", metrics.*field.member);
    line += metrics.score ? fmt::format(",{}", *metrics.score) : ",";
    line += metrics.regret ? fmt::format(",{}", *metrics.regret) : ",";
    out.Write(line + part + "\n");
  };
  for (const Run& run : comparison.runs) {
    if (!run.ended) continue;
    write(run, run.metrics, ",,");
    for (const Slice& part : run.parts) {
      write(run, part.metrics, fmt::format(",{},{}", Name(comparison.split), Field(part.name)));
    }
  }
}

}  // namespace takt::tool
