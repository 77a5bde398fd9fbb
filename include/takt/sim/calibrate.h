// Fits a cost model to measured step times of a real engine.
//
//   linear       step = a0 + aQ Q + aW W + aB B + aS S + as samples
//   saturating   step = SP(n) + [Q > 0] (p0 + p1 Q + p2 W) + [B > 0] (d0 + d1 B + d2 S) + s samples
//
// The symbols are those of model/cost_model.h, with n = Q + B. No coefficient is negative. Both forms are fitted. The
// linear form is chosen unless the saturating form is better on held-out steps.
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
  double holdout = 0.2;  // share of steps held out to compare the forms, in [0, 0.5]; 0: none held out
  std::optional<CostForm> form = {};  // chosen form; none: the better form
  std::int32_t max_seqs = 256;  // expected maximum of sequences; takt warns if the log does not cover it
  std::int32_t token_budget = 2048;  // expected token budget; takt warns if the log does not cover it
  std::int64_t max_context = 0;  // expected maximum context; takt warns if the log does not cover it; 0: not checked

  // InvalidArgument lists all invalid fields with their values.
  absl::Status Validate() const;
};

// Errors of predicted step times, in % of the measured times, without outliers.
struct FitError {
  std::int64_t steps = 0;
  std::int64_t outliers = 0;  // number of outliers among `steps`
  double mean_abs_pct = 0;
  double p95_abs_pct = 0;
  double bias_pct = 0;  // mean error [%]; above 0: predicted times are too long
};

struct CostFit {
  CostForm form = CostForm::kLinear;
  CostModel cost = {};  // cost model fitted to all steps; one layer represents the whole model, including overheads
  FitError train = {};  // error of a fit without the holdout, on the steps of that fit
  FitError holdout = {};  // error of that fit on the holdout
  FitError all = {};  // error of `cost` on all steps
  std::array<FitError, 3> parts = {};  // error of `cost` by StepKind
  double measured_s = 0, predicted_s = 0;  // sums of measured and predicted times over all steps, including outliers
};

// Range and median of a quantity in the log.
struct Covered {
  std::string what = {};  // "decode rows", ...
  std::int64_t steps = 0;  // number of steps with a value above 0
  double least = 0, median = 0, most = 0;
};

struct EngineCalibration {
  std::array<CostFit, 2> fits = {};  // fits by CostForm
  CostForm chosen = CostForm::kLinear;
  double arrival_ms = 0;  // taken off `from_arrival` steps before the fit: a least-squares term of their own
  // Path to and from the engine: the time that most of the log's `paths` contain; with fewer than 20, arrival_ms.
  double front_end_ms = 0;
  std::int64_t front_end_of = 0;  // number of arrivals behind front_end_ms; 0: unknown
  std::vector<bool> outliers = {};  // by step
  std::array<Covered, 3> covered = {};  // decode rows, prefill tokens, context
  std::vector<std::string> warnings = {};  // ranges that the log does not cover, and anomalies

  const CostFit& fit() const { return fits[static_cast<std::size_t>(chosen)]; }
};

// Fits by least squares of relative errors: first with bounded influence (Huber), so that no step dominates, then
// without outliers. An outlier is, in both forms, more than 8 robust standard deviations and 5 % from the median of its
// kind of step. The holdout is every k-th block of neighbouring steps, because neighbours are similar. InvalidArgument:
// invalid options, or an insufficient log: fewer than 30 steps or 10 different loads, no prefill, no decode, or times
// that are not positive.
absl::StatusOr<EngineCalibration> Calibrate(const StepLog& log, const CalibrateOptions& options = {});

}  // namespace takt

#endif  // TAKT_SIM_CALIBRATE_H_
