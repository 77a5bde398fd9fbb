// What a calibration found, in every form that can be asked for.
#ifndef TAKT_SRC_TOOL_REPORT_CALIBRATION_REPORT_H_
#define TAKT_SRC_TOOL_REPORT_CALIBRATION_REPORT_H_

#include <cstdint>
#include <string>

#include "tool/report/table.h"
#include "takt/sim/calibrate.h"

namespace takt::tool {

// What was to be fitted, and what the log cannot tell.
struct CalibrationSetup {
  std::string log;  // its path
  std::string id = "own/model/host/any/tp1";
  std::string form = "auto";
  double holdout = 0.2;
  bool no_plan_time = false;
  std::int64_t kv_tokens = 0, kv_bytes_per_token = 0, weight_bytes = 0;  // 0: not told
};

struct CalibrationRun {
  CalibrationSetup setup;
  std::string profile_file;  // that was asked for; empty: none
  StepLog log;
  EngineCalibration found;
};

Table ErrorTable(const EngineCalibration& found);
Table CoverageTable(const EngineCalibration& found);

// "steps.jsonl: 1,234 steps in 12.3 s, ..."
std::string LogLine(const CalibrationRun& run);

// Which form was chosen, and why.
std::string Verdict(const CalibrationRun& run);

// "4 + 0.05 Q + ... [ms]"
std::string Formula(const CostFit& fit);

// What the letters of formulas stand for.
std::string Letters(const StepLog& log);

std::string CalibrationText(const CalibrationRun& run);
std::string CalibrationHtml(const CalibrationRun& run);
std::string CalibrationJson(const CalibrationRun& run);

// A file for --profiles; docs/reference/engine_profiles.md.
std::string ProfileFile(const CalibrationRun& run);

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_CALIBRATION_REPORT_H_
