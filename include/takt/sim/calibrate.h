// Fits a cost model to what steps of a real engine took.
//
//   linear       step = a0 + aQ Q + aW W + aB B + aS S + as samples
//   saturating   step = SP(n) + [Q > 0] (p0 + p1 Q + p2 W) + [B > 0] (d0 + d1 B + d2 S) + s samples
//
// with the letters of model/cost_model.h, n = Q + B, and no negative coefficient. Both are fitted; the linear one is
// chosen unless the other is better on steps that neither has seen.
#ifndef TAKT_SIM_CALIBRATE_H_
#define TAKT_SIM_CALIBRATE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/names.h"
#include "takt/model/cost_model.h"
#include "takt/sim/step_log.h"

namespace takt {

enum class CostForm : std::uint8_t { kLinear, kSaturating };
constexpr auto NamesOf(CostForm) { return std::to_array<std::string_view>({"linear", "saturating"}); }

enum class StepKind : std::uint8_t { kPrefill, kDecode, kMixed };
constexpr auto NamesOf(StepKind) { return std::to_array<std::string_view>({"prefill-only", "decode-only", "mixed"}); }

inline StepKind KindOf(const StepLoad& load) {
  if (load.decodes == 0) return StepKind::kPrefill;
  return load.prefill_tokens == 0 ? StepKind::kDecode : StepKind::kMixed;
}

struct CalibrateOptions {
  double holdout = 0.2;  // share of the steps, in [0, 0.5], that forms are compared on; 0: on all of them
  std::optional<CostForm> form = {};  // chosen in any case
  std::int32_t max_seqs = 256;  // what the model will be asked for: where the log ends below, a warning says so
  std::int32_t token_budget = 2048;  // likewise
  std::int64_t max_context = 0;  // likewise; 0: not checked

  // InvalidArgument names every field at fault, with its value.
  absl::Status Validate() const;
};

// Of predicted against measured time, in % of what was measured. Outliers count in no error.
struct FitError {
  std::int64_t steps = 0;
  std::int64_t outliers = 0;  // of them
  double mean_abs_pct = 0;
  double p95_abs_pct = 0;
  double bias_pct = 0;  // mean; above zero: predicted steps are too long
};

struct CostFit {
  CostForm form = CostForm::kLinear;
  CostModel cost = {};  // fitted to all steps; one layer stands for the whole model, and it contains all overhead
  FitError train = {};  // of the same form, fitted without the holdout
  FitError holdout = {};  // likewise, on the holdout
  FitError all = {};  // of `cost` on all steps
  std::array<FitError, 3> parts = {};  // likewise, by StepKind
  double measured_s = 0, predicted_s = 0;  // of all steps together, outliers included
};

// The middle and the ends of what the log holds of something.
struct Covered {
  std::string what = {};  // "decode rows", ...
  std::int64_t steps = 0;  // that have any
  double least = 0, median = 0, most = 0;
};

struct EngineCalibration {
  std::array<CostFit, 2> fits = {};  // by CostForm
  CostForm chosen = CostForm::kLinear;
  std::vector<bool> outliers = {};  // by step
  std::array<Covered, 3> covered = {};  // decode rows, prefill tokens, context
  std::vector<std::string> warnings = {};  // what the log does not cover, and what looks odd in it

  const CostFit& fit() const { return fits[static_cast<std::size_t>(chosen)]; }
};

// Least squares of relative errors with bounded influence first (Huber), so that no step can bend the fit; then plain
// least squares without what lies far off both forms: 8 robust standard deviations, and 5 %, from the median of its
// kind of step. The holdout is every so many-th piece of the log, of neighbouring steps, since those are alike.
// InvalidArgument: of the options, or a log that cannot tell what a step costs (fewer than 30 steps, no prefill, no
// decode, fewer than 10 different loads, times that are not positive).
absl::StatusOr<EngineCalibration> Calibrate(const StepLog& log, const CalibrateOptions& options = {});

}  // namespace takt

#endif  // TAKT_SIM_CALIBRATE_H_
