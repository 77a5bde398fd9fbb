#include "tool/command/report_files.h"

#include <cstdio>

#include "tool/report/reports.h"
#include "tool/run/terminal.h"
#include "tool/command/write_reports.h"

namespace takt::tool {
namespace {

struct Report {
  const char* name;
  std::string ReportFiles::* path;
  void (*write)(const Comparison&, OutputFile&);
};

constexpr Report kReports[] = {
    {"--json", &ReportFiles::json, [](const Comparison& c, OutputFile& out) { out.Write(JsonReport(c)); }},
    {"--csv", &ReportFiles::csv, WriteRequestCsv},
    {"--csv-summary", &ReportFiles::csv_summary, WriteRunCsv},
    {"--html", &ReportFiles::html, [](const Comparison& c, OutputFile& out) { out.Write(HtmlReport(c)); }},
    {"--perfetto", &ReportFiles::perfetto, WritePerfetto},
};

}  // namespace

std::vector<NamedPath> ReportPaths(const ReportFiles& wanted) { return PathsOf(wanted, kReports); }

absl::StatusOr<std::vector<OutputFile>> OpenReports(const ReportFiles& wanted) { return OpenReports(wanted, kReports); }

absl::Status WriteReports(const Comparison& comparison, const ReportFiles& wanted, std::vector<OutputFile>& files) {
  std::FILE* stream = stdout;
  absl::Status fault = WriteReports(comparison, wanted, kReports, files, stream);
  if (wanted.quiet) return fault;
  const std::string text = TextReport(comparison, WantsColour(stream));
  if (std::fputs(text.c_str(), stream) < 0 || std::fflush(stream) != 0) {
    fault.Update(absl::UnavailableError("cannot write the table"));
  }
  return fault;
}

}  // namespace takt::tool
