#include <cmath>
#include <string>

#include "tool/report/calibration_report.h"
#include "tool/run/output.h"
#include "fmt/format.h"

namespace takt::tool {
namespace {

// Returns the error of the predicted time of the whole log, in %.
double TotalError(const CostFit& fit) { return 100 * (fit.predicted_s / fit.measured_s - 1); }

// Returns a summand, such as " + 0.05 Q" or, without a letter, " + 4"; an empty string for 0.
std::string Summand(double coefficient, std::string_view letter) {
  if (!(coefficient > 0)) return "";
  return fmt::format(" + {:.3g}{}{}", coefficient, letter.empty() ? "" : " ", letter);
}

}  // namespace

Table ErrorTable(const EngineCalibration& found) {
  const std::string held = "new steps";
  Table table({{"", "form", false},
               {held, "mean", true, Best::kSmallest},
               {held, "p95", true, Best::kSmallest},
               {"prefill-only", "mean", true, Best::kSmallest},
               {"prefill-only", "bias"},
               {"decode-only", "mean", true, Best::kSmallest},
               {"decode-only", "bias"},
               {"mixed", "mean", true, Best::kSmallest},
               {"mixed", "bias"},
               {"fitted", "mean", true, Best::kSmallest},
               {"log", "total"}});
  for (const CostFit& fit : found.fits) {
    table.BeginRow();
    table.Text(std::string(Name(fit.form)));
    const auto number = [&](const FitError& error, double value) {
      table.Number(error.steps > error.outliers ? value : Table::kNoNumber);
    };
    number(fit.holdout, fit.holdout.mean_abs_pct);
    number(fit.holdout, fit.holdout.p95_abs_pct);
    for (const FitError& part : fit.parts) {
      number(part, part.mean_abs_pct);
      number(part, part.bias_pct);
    }
    number(fit.train, fit.train.mean_abs_pct);
    table.Number(TotalError(fit));
  }
  return table;
}

Table CoverageTable(const EngineCalibration& found) {
  Table table({{"", "of a step", false}, {"", "steps"}, {"", "least"}, {"", "median"}, {"", "most"}});
  for (const Covered& covered : found.covered) {
    if (covered.steps == 0) continue;
    table.BeginRow();
    table.Text(covered.what);
    table.Number(static_cast<double>(covered.steps));
    for (const double value : {covered.least, covered.median, covered.most}) table.Number(value);
  }
  return table;
}

std::string LogLine(const CalibrationRun& run) {
  const CostFit& fit = run.found.fit();
  std::string text =
      fmt::format("{}: {} in {} s", InputName(run.setup.log), Counted(fit.all.steps, "step"), Short(fit.measured_s));
  for (std::size_t kind = 0; kind < fit.parts.size(); ++kind) {
    text += fmt::format("{} {} {}", kind == 0 ? ";" : ",", Grouped(fit.parts[kind].steps),
                        Name(static_cast<StepKind>(kind)));
  }
  double outlying_s = 0;
  for (std::size_t i = 0; i < run.log.steps.size(); ++i) {
    if (run.found.outliers[i]) outlying_s += ToSeconds(run.log.steps[i].time);
  }
  if (fit.all.outliers > 0) {
    text += fmt::format("\nexcluding {} with {:.1f} % of the time", Counted(fit.all.outliers, "outlier"),
                        100 * outlying_s / fit.measured_s);
  }
  return text;
}

std::string Verdict(const CalibrationRun& run) {
  const EngineCalibration& found = run.found;
  const CostFit& other = found.fits[found.chosen == CostForm::kLinear ? 1 : 0];
  const std::string compared =
      fmt::format("{:.2f} % off on held-out steps, the {} form {:.2f} %", found.fit().holdout.mean_abs_pct,
                  Name(other.form), other.holdout.mean_abs_pct);
  if (run.setup.form != "auto") return fmt::format("The {} form, as requested: {}.", Name(found.chosen), compared);
  return fmt::format("The {} form is chosen: {}{}.", Name(found.chosen), compared,
                     found.chosen == CostForm::kLinear ? "; that form must be better by 5 % to be chosen" : "");
}

std::string Formula(const CostFit& fit) {
  const CostModel& c = fit.cost;
  std::string text;
  if (fit.form == CostForm::kLinear) {
    text = Summand(c.gemm.floor_ms, "") + Summand(c.gemm.slope_ms + c.prefill.per_token_ms, "Q") +
           Summand(c.prefill.per_context_ms, "W") + Summand(c.gemm.slope_ms + c.decode.per_token_ms, "B") +
           Summand(c.decode.per_context_ms, "S");
  } else {
    text = Summand(c.gemm.offset_ms, "");
    if (c.gemm.slope_ms > 0) {
      text += fmt::format(" + ({0:.3g}^{2:.3g} + ({1:.3g} n)^{2:.3g})^(1/{2:.3g})", c.gemm.floor_ms, c.gemm.slope_ms,
                          c.gemm.sharpness);
    }
    text += Summand(c.prefill.constant_ms, "[Q > 0]") + Summand(c.prefill.per_token_ms, "Q") +
            Summand(c.prefill.per_context_ms, "W") + Summand(c.decode.constant_ms, "[B > 0]") +
            Summand(c.decode.per_token_ms, "B") + Summand(c.decode.per_context_ms, "S");
  }
  text += Summand(c.head.slope_ms, "samples");
  return (text.empty() ? "0" : text.substr(3)) + " ms";
}

std::string FrontEnd(const EngineCalibration& found) {
  return fmt::format("Front end: {:.3g} ms from a client to the engine and back, by {}", found.front_end_ms,
                     Counted(found.front_end_of, "arrival"));
}

std::string Letters(const StepLog& log) {
  std::string text = "Q prefill tokens";
  if (log.knows_prefill_work) text += ", W prefill tokens times their context";
  text += ", B decode rows, S their contexts, n = Q + B";
  if (log.knows_samples) text += ", samples: rows that yield a token";
  return text;
}

std::string CalibrationText(const CalibrationRun& run) {
  const EngineCalibration& found = run.found;
  std::string text = LogLine(run) + "\n\n" + CoverageTable(found).ToString() + "\nError of a step's time [%]\n" +
                     ErrorTable(found).ToString() + "\n" + Verdict(run) + "\n\n";
  for (const CostFit& fit : found.fits) text += fmt::format("  {:<10}  {}\n", Name(fit.form), Formula(fit));
  text += "  " + Letters(run.log) + "\n";
  if (found.front_end_of > 0) text += "\n" + FrontEnd(found) + "\n";
  for (std::size_t i = 0; i < found.warnings.size(); ++i) {
    text += fmt::format("{}  {}\n", i == 0 ? "\nWarnings\n" : "", found.warnings[i]);
  }
  if (!run.profile_file.empty() && run.profile_file != "-") {
    text += fmt::format("\nTo use the profile{}: takt replay --profiles {} --profile {}{}\n",
                        found.warnings.empty() ? "" : ", if no warning matters", run.profile_file, run.setup.id,
                        run.setup.kv_tokens > 0 ? "" : " --kv-tokens N");
  }
  return text;
}

}  // namespace takt::tool
