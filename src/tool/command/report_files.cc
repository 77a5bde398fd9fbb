#include "tool/command/report_files.h"

#include <cstdio>

#include "tool/report/reports.h"
#include "tool/run/terminal.h"
#include "tool/command/write_reports.h"

namespace takt::tool {
namespace {

struct Report {
  const char* name;
  std::string ReplayArguments::* path;
  void (*write)(const Comparison&, OutputFile&);
};

constexpr Report kReports[] = {
    {"--json", &ReplayArguments::json, [](const Comparison& c, OutputFile& out) { out.Write(JsonReport(c)); }},
    {"--csv", &ReplayArguments::csv, WriteRequestCsv},
    {"--csv-summary", &ReplayArguments::csv_summary, WriteRunCsv},
    {"--html", &ReplayArguments::html, [](const Comparison& c, OutputFile& out) { out.Write(HtmlReport(c)); }},
    {"--perfetto", &ReplayArguments::perfetto, WritePerfetto},
};

}  // namespace

std::vector<NamedPath> ReportPaths(const ReplayArguments& arguments) { return PathsOf(arguments, kReports); }

absl::StatusOr<std::vector<OutputFile>> OpenReports(const ReplayArguments& arguments) {
  return OpenReports(arguments, kReports);
}

absl::Status WriteReports(const Comparison& comparison, const ReplayArguments& arguments,
                          std::vector<OutputFile>& files) {
  std::FILE* stream = stdout;
  absl::Status fault = WriteReports(comparison, arguments, kReports, files, stream);
  if (arguments.quiet) return fault;
  const std::string text = TextReport(comparison, WantsColour(stream));
  if (std::fputs(text.c_str(), stream) < 0 || std::fflush(stream) != 0) {
    fault.Update(absl::UnavailableError("cannot write the table"));
  }
  return fault;
}

}  // namespace takt::tool
