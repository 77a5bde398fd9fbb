#include "tool/command/report_files.h"

#include "tool/report/reports.h"
#include "tool/command/write_reports.h"

namespace takt::tool {
namespace {

struct ComparisonReport {
  const char* name;
  std::string ReportFiles::* path;
  void (*write)(const Comparison&, OutputFile&);
};

constexpr ComparisonReport kComparisonReports[] = {
    {"--json", &ReportFiles::json, [](const Comparison& c, OutputFile& out) { out.Write(JsonReport(c)); }},
    {"--csv", &ReportFiles::csv, WriteRequestCsv},
    {"--csv-summary", &ReportFiles::csv_summary, WriteRunCsv},
    {"--html", &ReportFiles::html, [](const Comparison& c, OutputFile& out) { out.Write(HtmlReport(c)); }},
    {"--perfetto", &ReportFiles::perfetto, WritePerfetto},
};

}  // namespace

std::vector<NamedPath> ReportPaths(const ReportFiles& wanted) { return PathsOf(wanted, kComparisonReports); }

absl::StatusOr<std::vector<OutputFile>> OpenReports(const ReportFiles& wanted) {
  return OpenReports(wanted, kComparisonReports);
}

absl::Status WriteReports(const Comparison& comparison, const ReportFiles& wanted, std::vector<OutputFile>& files) {
  return WriteReports(comparison, wanted, kComparisonReports, files, wanted.quiet, TextReport);
}

}  // namespace takt::tool
