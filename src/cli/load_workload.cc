#include "cli/load_workload.h"

#include <cstdio>
#include <string>

#include "cli/table.h"
#include "fmt/format.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/transform.h"

namespace takt::cli {
namespace {

void NoteReading(const std::string& file, const ReadReport& report) {
  const auto note = [&](const std::string& text) { std::fputs(fmt::format("{}: {}\n", file, text).c_str(), stderr); };
  NoteBadLines(file, report.bad_lines, report.bad_line_messages);
  if (report.raised_lengths > 0) {
    note(fmt::format("{} of no tokens read as one token", Counted(report.raised_lengths, "length")));
  }
  if (report.arrivals_generated && !file.starts_with("gen:"))
    note("has no times: arrivals are drawn at random, 1 per second on average");
}

}  // namespace

void NoteBadLines(const std::string& file, std::int64_t lines, const std::vector<std::string>& messages) {
  if (lines == 0) return;
  std::fputs(fmt::format("{}: {} skipped\n", file, Counted(lines, "bad line")).c_str(), stderr);
  for (const std::string& message : messages) std::fputs(("  " + message + "\n").c_str(), stderr);
}

absl::StatusOr<Workload> LoadWorkload(const WorkloadArguments& arguments) {
  absl::StatusOr<Workload> workload;
  if (arguments.file == "bundled") {
    workload = BundledWorkload();
  } else {
    ReadReport report;
    workload = ReadWorkload(arguments.file,
                            {.format = ParseWorkloadFormat(arguments.format).value(),
                             .limit = arguments.limit,
                             .skip_bad_lines = arguments.skip_bad_lines,
                             .seed = arguments.seed},
                            &report);
    if (!workload.ok()) return workload;
    NoteReading(arguments.file, report);
  }
  if (arguments.limit > 0) Truncate(*workload, static_cast<std::size_t>(arguments.limit));
  if (arguments.draw > 0) {
    workload = Draw(*workload, arguments.draw, Arrivals{}, arguments.seed);
    if (!workload.ok()) return workload;
  }
  if (arguments.length_scale != 1) {
    if (absl::Status scaled = ScaleLengths(*workload, arguments.length_scale); !scaled.ok()) return scaled;
  }
  return workload;
}

}  // namespace takt::cli
