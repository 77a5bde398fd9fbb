// Reports of a calibration: text, JSON and HTML.
#ifndef TAKT_SRC_TOOL_REPORT_CALIBRATION_REPORT_H_
#define TAKT_SRC_TOOL_REPORT_CALIBRATION_REPORT_H_

#include <cstdint>
#include <string>

#include "tool/report/table.h"
#include "takt/sim/calibrate.h"

namespace takt::tool {

// Settings of the fit, and values that the log does not contain.
struct CalibrationSetup {
  std::string log;  // path of the log
  std::string id = "own/model/host/any/tp1";
  std::string form = "auto";
  double holdout = 0.2;
  bool no_plan_time = false;
  std::int64_t kv_tokens = 0, kv_bytes_per_token = 0, weight_bytes = 0;  // 0: unknown
};

struct CalibrationRun {
  CalibrationSetup setup;
  std::string profile_file;  // requested profile file; empty: none
  StepLog log;
  EngineCalibration found;
};

Table ErrorTable(const EngineCalibration& found);
Table CoverageTable(const EngineCalibration& found);

// Returns "steps.jsonl: 1,234 steps in 12.3 s, ...".
std::string LogLine(const CalibrationRun& run);

// Returns the chosen form and the reason.
std::string Verdict(const CalibrationRun& run);

// Returns the formula: "4 + 0.05 Q + ... [ms]".
std::string Formula(const CostFit& fit);

// Returns a line about the path to and from the engine, which must be known (front_end_of > 0).
std::string FrontEnd(const EngineCalibration& found);

// Returns the meaning of the letters in formulas.
std::string Letters(const StepLog& log);

std::string CalibrationText(const CalibrationRun& run);
std::string CalibrationHtml(const CalibrationRun& run);
std::string CalibrationJson(const CalibrationRun& run);

// Returns the profile as a file for --profiles; see docs/reference/engine_profiles.md.
std::string ProfileFile(const CalibrationRun& run);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_CALIBRATION_REPORT_H_
