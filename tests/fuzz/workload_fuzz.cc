// Any bytes as a trace in any format, or as a generator's spec. Accepted input keeps every promise of workload.h.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/summary.h"
#include "takt/workload/transform.h"
#include "takt/workload/validate.h"
#include "takt/workload/write.h"

namespace takt {
namespace {

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Checked without Validate(), which the readers use themselves.
void CheckBounds(const Workload& w) {
  TimePoint before{};
  for (const WorkloadWorkflow& f : w.workflows) {
    Expect(f.arrival >= before && f.name < w.names.size(), "workflow");
    before = f.arrival;
    Expect(f.calls > 0 && std::uint64_t{f.first_call} + f.calls <= w.calls.size(), "calls");
    for (std::uint32_t i = 0; i < f.calls; ++i) {
      const WorkloadCall& call = w.calls[f.first_call + i];
      Expect(call.prompt_tokens > 0 && call.output_tokens > 0 && call.delay >= Duration::zero(), "call");
      Expect(call.stage < w.names.size() && call.agent < w.names.size(), "names");
      Expect(std::uint64_t{call.first_predecessor} + call.predecessors <= w.predecessors.size(), "predecessors");
      for (const std::uint32_t p : w.predecessors_of(call)) Expect(p < i, "predecessors come first");
      Expect(std::uint64_t{call.first_hash} + call.hashes <= w.prefix_hashes.size(), "hashes");
      Expect(std::uint64_t{call.first_run} + call.runs <= w.prefix_runs.size(), "runs");
      std::uint64_t blocks = call.hashes;
      for (const PrefixRun& run : w.runs_of(call)) {
        Expect(run.count > 0 && std::uint64_t{run.first} + run.count <= std::uint64_t{1} << 32, "run");
        blocks += run.count;
      }
      Expect(blocks <= static_cast<std::uint64_t>(call.prompt_tokens), "blocks");
      Expect(std::uint64_t{call.first_tool} + call.tools <= w.tools.size(), "tools");
      for (const WorkloadTool& tool : w.tools_of(call)) {
        Expect(tool.after_tokens > 0 && tool.after_tokens < call.output_tokens && tool.name < w.names.size(), "tool");
      }
    }
  }
  Expect(!w.workflows.empty() && w.workflows[0].arrival == TimePoint{}, "the first is at zero");
}

bool IsAscii(const Workload& w) {
  const auto ascii = [](const std::string& name) {
    return std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) <= 127; });
  };
  return std::ranges::all_of(w.names, ascii) && std::ranges::all_of(w.tenant_names, ascii);
}

// Times beyond 26 days are written to a double's precision only.
bool ShortTimes(const Workload& w) {
  constexpr Duration kDays = std::chrono::hours(26 * 24);
  bool is_short = w.workflows.back().arrival.time_since_epoch() < kDays;
  for (const WorkloadWorkflow& f : w.workflows) is_short &= f.deadline < kDays || f.deadline == Duration::max();
  for (const WorkloadCall& c : w.calls) is_short &= c.delay < kDays;
  for (const WorkloadTool& t : w.tools) is_short &= t.duration < kDays;
  return is_short;
}

void CheckWorkload(const Workload& w) {
  CheckBounds(w);
  Expect(Validate(w).ok(), "valid");
  Expect(Tidied(w) == w, "tidy");
  Expect(Summarise(w).calls == static_cast<std::int64_t>(w.calls.size()), "summary");
  const absl::StatusOr<Workload> again = ParseWorkload(ToJsonl(w), w.name);
  Expect(again.ok() && again->calls.size() == w.calls.size(), "what is written can be read");
  if (IsAscii(w) && ShortTimes(w)) Expect(*again == w, "what is written is read back unchanged");
}

void CheckText(std::string_view text, WorkloadFormat format, const std::string& columns = "") {
  ReadOptions options{.format = format, .columns = columns, .max_bytes = 1 << 20};
  const absl::StatusOr<Workload> strict = ParseWorkload(text, "f", options);
  if (strict.ok()) CheckWorkload(*strict);
  options.skip_bad_lines = true;
  ReadReport report;
  const absl::StatusOr<Workload> lenient = ParseWorkload(text, "f", options, &report);
  if (strict.ok()) Expect(lenient.ok() && *lenient == *strict && report.bad_lines == 0, "nothing bad to skip");
  if (lenient.ok() && !strict.ok()) CheckWorkload(*lenient);
}

void CheckSpec(std::string_view spec) {
  if (spec.find("empirical") != std::string_view::npos) return;  // would open files
  const absl::StatusOr<GeneratorOptions> options = ParseGeneratorSpec(spec);
  if (!options.ok() || options->workflows > 100) return;
  const absl::StatusOr<Workload> workload = GenerateWorkload(*options);
  if (workload.ok()) CheckWorkload(*workload);
}

}  // namespace
}  // namespace takt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("gen:")) takt::CheckSpec(text);
  else
    for (const auto name : NamesOf(takt::WorkloadFormat{})) takt::CheckText(text, *takt::ParseWorkloadFormat(name));
  takt::CheckText(text, takt::WorkloadFormat::kColumns, "arrival=t,prompt=p,output=o,tenant=u,workflow=w,class=c");
  return 0;
}
