// Any bytes as a log of steps. Accepted logs are fitted or refused, and a fit is a valid cost.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "takt/sim/calibrate.h"
#include "takt/sim/step_log.h"

namespace takt {
namespace {

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

void CheckLog(const StepLog& log) {
  Expect(!log.steps.empty(), "steps");
  for (const TimedStep& step : log.steps) {
    Expect(step.time > Duration(0) && step.load.tokens() > 0, "a step");
    Expect(log.knows_prefill_work || !(step.load.prefill_work > 0), "work that is not known");
    Expect(log.knows_samples || step.load.samples == step.load.decodes, "samples that are not known");
  }
  const absl::StatusOr<EngineCalibration> found = Calibrate(log);
  if (!found.ok()) return;
  Expect(found->outliers.size() == log.steps.size(), "outliers");
  for (const CostFit& fit : found->fits) {
    Expect(fit.cost.Faults().empty(), "a cost");
    Expect(fit.all.steps == static_cast<std::int64_t>(log.steps.size()), "all steps");
    Expect(std::isfinite(fit.predicted_s) && std::isfinite(fit.holdout.mean_abs_pct), "finite");
  }
}

}  // namespace
}  // namespace takt

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace takt;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<StepLog> strict = ParseStepLog(text, "f", {.max_bytes = 1 << 20});
  if (strict.ok()) CheckLog(*strict);
  StepLogReport report;
  const absl::StatusOr<StepLog> lenient =
      ParseStepLog(text, "f", {.skip_bad_lines = true, .max_bytes = 1 << 20}, &report);
  if (strict.ok()) Expect(lenient.ok() && report.bad_lines == 0, "nothing bad to skip");
  if (lenient.ok() && !strict.ok()) CheckLog(*lenient);
  return 0;
}
