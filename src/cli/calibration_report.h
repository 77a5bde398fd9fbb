// What a calibration found, in every form that can be asked for.
#ifndef TAKT_SRC_CLI_CALIBRATION_REPORT_H_
#define TAKT_SRC_CLI_CALIBRATION_REPORT_H_

#include <string>

#include "cli/arguments.h"
#include "cli/table.h"
#include "takt/sim/calibrate.h"

namespace takt::cli {

struct CalibrationRun {
  CalibrateArguments arguments;
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

// A file for --profiles; docs/profiles.md.
std::string ProfileFile(const CalibrationRun& run);

}  // namespace takt::cli

#endif  // TAKT_SRC_CLI_CALIBRATION_REPORT_H_
