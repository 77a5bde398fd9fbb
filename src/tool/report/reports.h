// Reports of a comparison. Equal runs give byte-identical reports, except for the text and for wall-clock times.
#ifndef TAKT_SRC_TOOL_REPORT_REPORTS_H_
#define TAKT_SRC_TOOL_REPORT_REPORTS_H_

#include <optional>
#include <string>
#include <vector>

#include "tool/report/comparison.h"
#include "tool/run/output.h"
#include "tool/report/table.h"

namespace takt::tool {

// Returns a table, its conditions, and a summary in a sentence.
std::string TextReport(const Comparison& comparison, bool colour);

// A condition of the comparison, for the report.
struct Condition {
  std::string name, text;
};
std::vector<Condition> Conditions(const Comparison& comparison);

// Returns a table with a row per started run. Requires at least one.
Table RunTable(const Comparison& comparison);

// Returns a table by tenant, class, agent or stage, a section for each of those with the most requests. Returns nothing
// if the comparison is not split. PartsText explains it.
std::optional<Table> PartTable(const Comparison& comparison);
std::string PartsText(const Comparison& comparison);

// Returns the errors of estimates, a row per run. Returns nothing if all lengths were exact, or all unknown.
std::optional<Table> EstimateTable(const Comparison& comparison);
extern const char* const kEstimateTableText;  // explains the table

// Returns notes, one per line: failures, the best policy against the first at each load, and missing results.
std::string Notes(const Comparison& comparison);

// Returns the report as JSON. docs/reference/cli.md lists the keys.
std::string JsonReport(const Comparison& comparison);

void WriteRequestCsv(const Comparison& comparison, OutputFile& out);
void WriteRunCsv(const Comparison& comparison, OutputFile& out);

// Returns a self-contained page.
std::string HtmlReport(const Comparison& comparison);

// Writes a process per run and instance, with a track per request.
void WritePerfetto(const Comparison& comparison, OutputFile& out);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_REPORTS_H_
