// A comparison, in the forms in which it can be had. All but the text are the same for the same runs, to the last byte,
// but for what is said to be wall-clock time.
#ifndef TAKT_SRC_TOOL_REPORT_REPORTS_H_
#define TAKT_SRC_TOOL_REPORT_REPORTS_H_

#include <optional>
#include <string>
#include <vector>

#include "tool/report/comparison.h"
#include "tool/run/output.h"
#include "tool/report/table.h"

namespace takt::tool {

// A table for people, what it was made under, and what it says in a sentence.
std::string TextReport(const Comparison& comparison, bool colour);

// What the comparison was made under.
struct Condition {
  std::string name, text;
};
std::vector<Condition> Conditions(const Comparison& comparison);

// A row per run that was begun. There must be a run.
Table RunTable(const Comparison& comparison);

// The same by tenant, class, agent or stage, a section each: those with the most requests. Nothing where the comparison
// is not told apart. PartsText says how to read it.
std::optional<Table> PartTable(const Comparison& comparison);
std::string PartsText(const Comparison& comparison);

// How far predictions were off, a row per run; nothing where all was known exactly, or nothing at all.
std::optional<Table> EstimateTable(const Comparison& comparison);
extern const char* const kEstimateTableText;  // how to read it

// Which policy does best, against the first, at each load; before that what failed, after it what is missing. A line
// each.
std::string Notes(const Comparison& comparison);

// docs/reference/cli.md lists the keys.
std::string JsonReport(const Comparison& comparison);

void WriteRequestCsv(const Comparison& comparison, OutputFile& out);
void WriteRunCsv(const Comparison& comparison, OutputFile& out);

// One page that needs nothing else.
std::string HtmlReport(const Comparison& comparison);

// A process per run and instance, a track per request.
void WritePerfetto(const Comparison& comparison, OutputFile& out);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_REPORTS_H_
