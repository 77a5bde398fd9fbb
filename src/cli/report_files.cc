#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "cli/reports.h"
#include "cli/terminal.h"

namespace takt::cli {
namespace {

struct Report {
  std::string ReplayArguments::* path;
  ReportWriter write;
};

constexpr Report kReports[] = {
    {&ReplayArguments::json, [](const Comparison& c, OutputFile& out) { out.Write(JsonReport(c)); }},
    {&ReplayArguments::csv, WriteRequestCsv},
    {&ReplayArguments::csv_summary, WriteRunCsv},
    {&ReplayArguments::html, [](const Comparison& c, OutputFile& out) { out.Write(HtmlReport(c)); }},
    {&ReplayArguments::perfetto, WritePerfetto},
};

}  // namespace

std::ptrdiff_t StdoutReports(const ReplayArguments& arguments) {
  return std::count_if(std::begin(kReports), std::end(kReports),
                       [&](const Report& report) { return IsStdout(arguments.*report.path); });
}

absl::StatusOr<std::vector<OpenReport>> OpenReports(const ReplayArguments& arguments) {
  std::vector<OpenReport> open;
  for (const Report& report : kReports) {
    const std::string& path = arguments.*report.path;
    if (path.empty()) continue;
    absl::StatusOr<OutputFile> out = OutputFile::Open(path);
    if (!out.ok()) return out.status();
    open.push_back({report.write, *std::move(out)});
  }
  return open;
}

absl::Status WriteReports(const Comparison& comparison, std::vector<OpenReport>& reports) {
  absl::Status fault;
  for (OpenReport& report : reports) {
    report.write(comparison, report.out);
    fault.Update(report.out.Close());
  }
  if (comparison.arguments.quiet) return fault;
  std::FILE* stream = StdoutReports(comparison.arguments) > 0 ? stderr : stdout;
  const std::string text = TextReport(comparison, WantsColour(stream));
  if (std::fputs(text.c_str(), stream) < 0 || std::fflush(stream) != 0) {
    fault.Update(absl::UnavailableError("cannot write the table"));
  }
  return fault;
}

}  // namespace takt::cli
