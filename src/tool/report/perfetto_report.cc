#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "tool/report/json_writer.h"
#include "tool/report/reports.h"
#include "fmt/format.h"
#include "takt/base/time.h"

namespace takt::tool {
namespace {

using Phase = ScheduleTrace::Phase;

constexpr std::string_view kPhaseNames[] = {"queued", "prefill", "decode", "preempted", "tool", "held"};

// Tracks of a process: steps first, then requests by number.
constexpr std::uint32_t kStepTrack = 0;
std::uint32_t TrackOf(std::uint32_t request) { return request + 1; }

// Writes one event per line. Times are microseconds with three decimals.
class TraceWriter {
 public:
  explicit TraceWriter(OutputFile& out) : out_(out) { out_.Write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":["); }
  ~TraceWriter() { out_.Write("\n]}\n"); }

  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  // Writes a slice. `args` is JSON.
  void Slice(std::size_t process, std::uint32_t track, std::string_view name, TimePoint start, TimePoint end,
             const std::string& args) {
    Event(fmt::format(R"("ph":"X","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{})", JsonString(name), process,
                      track, Microseconds(start.time_since_epoch()), Microseconds(end - start), args));
  }
  void Counter(std::size_t process, std::string_view name, TimePoint time, std::int64_t value) {
    Event(fmt::format(R"("ph":"C","name":{},"pid":{},"ts":{},"args":{{"value":{}}})", JsonString(name), process,
                      Microseconds(time.time_since_epoch()), value));
  }
  void NameProcess(std::size_t process, std::string_view name) {
    Event(fmt::format(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})", process, JsonString(name)));
    Event(fmt::format(R"("ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}})", process, process));
  }
  void NameTrack(std::size_t process, std::uint32_t track, std::string_view name) {
    Event(fmt::format(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}})", process, track,
                      JsonString(name)));
    Event(fmt::format(R"("ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}})", process,
                      track, track));
  }

 private:
  static std::string Microseconds(Duration d) { return fmt::format("{}.{:03}", d.count() / 1000, d.count() % 1000); }
  void Event(const std::string& fields) {
    out_.Write(first_ ? "\n{" : ",\n{");
    out_.Write(fields);
    out_.Write("}");
    first_ = false;
  }

  OutputFile& out_;
  bool first_ = true;
};

std::string TrackName(const Workload& workload, std::uint32_t request, std::uint32_t workflow) {
  const std::string& stage = workload.names[workload.calls[request].stage];
  return fmt::format("request {}{}{} (workflow {})", request, stage.empty() ? "" : " ", stage, workflow);
}

std::string SliceArgs(const Workload& workload, const ScheduleTrace::Slice& slice) {
  const WorkloadCall& call = workload.calls[slice.request];
  if (slice.phase == Phase::kQueued) {
    return fmt::format(R"({{"prompt_tokens":{},"output_tokens":{}}})", call.prompt_tokens, call.output_tokens);
  }
  return slice.tokens > 0 ? fmt::format(R"({{"tokens":{}}})", slice.tokens) : "{}";
}

std::vector<std::uint32_t> WorkflowOfCall(const Workload& workload) {
  std::vector<std::uint32_t> workflow_of(workload.calls.size());
  for (std::uint32_t w = 0; w < workload.workflows.size(); ++w) {
    const WorkloadWorkflow& workflow = workload.workflows[w];
    std::fill_n(workflow_of.begin() + workflow.first_call, workflow.calls, w);
  }
  return workflow_of;
}

}  // namespace

void WritePerfetto(const Comparison& comparison, OutputFile& out) {
  TraceWriter trace(out);
  const Workload& workload = comparison.workload;
  const std::vector<std::uint32_t> workflow_of = WorkflowOfCall(workload);
  const auto instances = static_cast<std::size_t>(comparison.setup.instances);
  for (std::size_t r = 0; r < comparison.runs.size(); ++r) {
    const Run& run = comparison.runs[r];
    if (!run.ended || !run.trace) continue;
    const std::size_t first_process = r * (instances + 1) + 1;  // then one per instance, then the run's counters
    std::string label = LabelOf(comparison, run);
    if (comparison.sweeps) label += fmt::format(", load {}", *run.settings.load);
    for (std::size_t i = 0; i < instances; ++i) {
      trace.NameProcess(first_process + i, fmt::format("{}: instance {}", label, i));
      trace.NameTrack(first_process + i, kStepTrack, "steps");
    }
    for (const ScheduleTrace::Step& step : run.trace->steps()) {
      trace.Slice(first_process + step.instance, kStepTrack, "step", step.start, step.end,
                  fmt::format(R"({{"requests":{},"prefill_tokens":{},"decode_tokens":{},"queue_waits_for":"{}"}})",
                              step.rows, step.prefill_tokens, step.decode_tokens,
                              NamesOf(WaitsFor{})[static_cast<std::size_t>(step.head)]));
    }
    std::set<std::pair<std::uint16_t, std::uint32_t>> named;
    for (const ScheduleTrace::Slice& slice : run.trace->slices()) {
      const std::size_t process = first_process + slice.instance;
      const std::uint32_t track = TrackOf(slice.request);
      if (named.insert({slice.instance, slice.request}).second) {
        trace.NameTrack(process, track, TrackName(workload, slice.request, workflow_of[slice.request]));
      }
      trace.Slice(process, track, kPhaseNames[static_cast<std::size_t>(slice.phase)], slice.start, slice.end,
                  SliceArgs(workload, slice));
    }
    if (run.trace->steps().empty()) continue;
    const std::size_t counters = first_process + instances;
    trace.NameProcess(counters, fmt::format("{}: all instances", label));
    for (const SeriesPoint& point : run.series) {
      if (point.time > run.trace->steps().back().end) break;
      trace.Counter(counters, "waiting", point.time, point.waiting);
      trace.Counter(counters, "running", point.time, point.running);
      trace.Counter(counters, "KV blocks", point.time, point.kv_blocks);
    }
  }
}

}  // namespace takt::tool
