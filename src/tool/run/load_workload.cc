#include "tool/run/load_workload.h"

#include <cstdio>
#include <string>

#include "tool/run/number_text.h"
#include "tool/run/output.h"
#include "tool/run/shown_text.h"
#include "fmt/format.h"
#include "takt/workload/generate.h"
#include "takt/workload/read.h"
#include "takt/workload/transform.h"
#include "takt/workload/write.h"

namespace takt::tool {
namespace {

void NoteReading(const WorkloadSource& source, const ReadReport& report) {
  const std::string& file = source.file;
  const auto note = [&](const std::string& text) { Note(fmt::format("{}: {}", ShownName(file), text)); };
  NoteBadLines(file, report.bad_lines, report.bad_line_messages);
  if (report.raised_lengths > 0) {
    note(fmt::format("{} of 0 tokens raised to 1 token", Counted(report.raised_lengths, "length")));
  }
  if (report.long_sessions > 0) {
    note(fmt::format("excluded {} with a prompt of more than {} tokens", Counted(report.long_sessions, "session"),
                     Grouped(source.max_session_tokens)));
  }
  if (report.arrivals_generated && !file.starts_with("gen:"))
    note("has no arrival times; drawing random arrivals, 1 per second on average");
}

}  // namespace

void NoteBadLines(const std::string& file, std::int64_t lines, const std::vector<std::string>& messages) {
  if (lines == 0) return;
  Note(fmt::format("{}: {} skipped", ShownName(file), Counted(lines, "bad line")));
  for (const std::string& message : messages) Note("  " + ShownName(message));
}

absl::StatusOr<Workload> LoadWorkload(const WorkloadSource& source) {
  absl::StatusOr<Workload> workload;
  if (source.file == "bundled") {
    if (!source.columns.empty()) {
      return absl::InvalidArgumentError("--columns: is invalid for the bundled workload; expected also --workload");
    }
    workload = BundledWorkload();
  } else {
    ReadReport report;
    workload = ReadWorkload(source.file,
                            {.format = ParseWorkloadFormat(source.format).value(),
                             .columns = source.columns,
                             .limit = source.limit,
                             .skip_bad_lines = source.skip_bad_lines,
                             .max_session_tokens = source.max_session_tokens,
                             .seed = source.seed},
                            &report);
    if (!workload.ok()) return workload;
    NoteReading(source, report);
  }
  if (source.limit > 0) Truncate(*workload, static_cast<std::size_t>(source.limit));
  if (source.draw > 0) {
    workload = Draw(*workload, source.draw, Arrivals{}, source.seed);
    if (!workload.ok()) return workload;
  }
  if (source.length_scale != 1) {
    if (absl::Status scaled = ScaleLengths(*workload, source.length_scale); !scaled.ok()) return scaled;
  }
  if (source.adapters > 0) {
    if (absl::Status drawn = DrawAdapters(*workload, source.adapters, source.adapter_zipf, source.seed); !drawn.ok()) {
      return drawn;
    }
  }
  return workload;
}

absl::Status SaveWorkload(const Workload& workload, const std::string& path) {
  absl::StatusOr<OutputFile> out = OutputFile::Open(path);
  if (!out.ok()) return out.status();
  if (IsStdout(path)) out->Write(ToJsonl(workload));
  else out->WriteBy([&workload](const std::string& at) { return WriteWorkload(workload, at); });
  return out->Close();
}

}  // namespace takt::tool
