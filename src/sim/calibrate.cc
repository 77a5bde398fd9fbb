#include "takt/sim/calibrate.h"

#include "takt/base/faults.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "takt/numeric/nnls.h"
#include "takt/numeric/quantile.h"

namespace takt {
namespace {

using Steps = std::vector<const TimedStep*>;

constexpr std::int64_t kLeastSteps = 30;
constexpr std::size_t kLeastLoads = 10;

double Ms(const TimedStep& step) { return ToSeconds(step.time) * 1e3; }

double Median(std::vector<double> values) { return values.empty() ? 0 : Quantile(values, 0.5); }

// ---- the terms of a step's time ------------------------------------------------------------------------------------

enum Term : std::size_t {
  kStep,
  kFloor,  // SP with slope 1; its shape holds the knee and the sharpness
  kPrefillStep,
  kPrefillToken,
  kPrefillWork,
  kDecodeStep,
  kDecodeRow,
  kDecodeContext,
  kSample,
  kArrivalPath,  // the path to and from the engine, in a step that begins with an arrival
};

// SP(n) / slope = (knee^sharpness + n^sharpness)^(1 / sharpness)
struct Shape {
  double knee = 1;
  double sharpness = 1;
};

class Terms {
 public:
  Terms(CostForm form, const StepLog& log) {
    terms_ = {kStep, kPrefillToken, kDecodeRow, kDecodeContext};
    if (log.knows_prefill_work) terms_.push_back(kPrefillWork);
    if (log.knows_samples) terms_.push_back(kSample);
    if (form == CostForm::kSaturating) terms_.insert(terms_.end(), {kFloor, kPrefillStep, kDecodeStep});
    if (std::ranges::any_of(log.steps, &TimedStep::from_arrival)) terms_.push_back(kArrivalPath);
  }

  bool saturate() const { return std::ranges::find(terms_, kFloor) != terms_.end(); }

  // Columns of the least-squares problem: one row per step, times the step's weight.
  std::vector<double> Columns(const Steps& steps, Shape shape, const std::vector<double>& weights) const {
    const SoftFloor floor{.floor_ms = shape.knee, .slope_ms = 1, .sharpness = shape.sharpness};
    std::map<std::int64_t, double> floors;  // by n; there are far fewer values than steps
    std::vector<double> columns;
    columns.reserve(steps.size() * terms_.size());
    for (const Term term : terms_) {
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const StepLoad& load = steps[i]->load;
        double value = 0;
        if (term == kFloor) {
          const auto [known, added] = floors.try_emplace(load.tokens());
          if (added) known->second = floor.At(static_cast<double>(load.tokens()));
          value = known->second;
        } else {
          value = term == kArrivalPath ? (steps[i]->from_arrival ? 1 : 0) : ValueOf(term, load);
        }
        columns.push_back(value * weights[i]);
      }
    }
    return columns;
  }

  // Returns the model for the terms' coefficients. If nothing else distinguishes prefill from decode tokens, their
  // common cost is the slope of the floor. The slope then gives the n above which compute dominates
  // (CostModel::SaturationTokens).
  CostModel Model(const std::vector<double>& coefficients, Shape shape) const {
    std::array<double, kArrivalPath + 1> c = {};
    for (std::size_t i = 0; i < terms_.size(); ++i) c[terms_[i]] = coefficients[i];
    CostModel cost;
    cost.hidden = 1;
    cost.gemm = {c[kStep], c[kFloor] * shape.knee, c[kFloor], shape.sharpness};
    cost.prefill = {c[kPrefillStep], c[kPrefillToken], c[kPrefillWork]};
    cost.decode = {c[kDecodeStep], c[kDecodeRow], c[kDecodeContext]};
    cost.head = {.slope_ms = c[kSample]};
    if (!saturate()) {
      const double shared = std::min(c[kPrefillToken], c[kDecodeRow]);
      cost.gemm = {.floor_ms = c[kStep], .slope_ms = shared};
      cost.prefill.per_token_ms -= shared;
      cost.decode.per_token_ms -= shared;
    }
    return cost;
  }

  // The coefficient of kArrivalPath [ms].
  double Arrival(const std::vector<double>& coefficients) const {
    return terms_.back() == kArrivalPath ? coefficients.back() : 0;
  }

 private:
  static double ValueOf(Term term, const StepLoad& load) {
    switch (term) {
      case kStep: return 1;
      case kPrefillStep: return load.prefill_tokens > 0 ? 1 : 0;
      case kPrefillToken: return static_cast<double>(load.prefill_tokens);
      case kPrefillWork: return load.prefill_work;
      case kDecodeStep: return load.decodes > 0 ? 1 : 0;
      case kDecodeRow: return static_cast<double>(load.decodes);
      case kDecodeContext: return static_cast<double>(load.decode_context);
      case kSample: return static_cast<double>(load.samples);
      case kFloor:
      case kArrivalPath: break;
    }
    return 0;
  }

  std::vector<Term> terms_;
};

// ---- one fit -------------------------------------------------------------------------------------------------------

double Predict(const CostModel& cost, const TimedStep& step) {
  constexpr double kLeastMs = 1e-6;  // a nanosecond
  return std::max(ToSeconds(cost.StepTime(step.load)) * 1e3, kLeastMs);
}

// Location of a kind of step's errors: measured over predicted, minus one.
struct Noise {
  double centre = 0;
  double scale = 0;  // robust standard deviation

  bool Outlies(double error) const { return std::abs(error - centre) > std::max(8 * scale, 0.05); }
};

// Uses 1.4826 times the median distance. For normal errors this is the standard deviation, and a minority of outliers
// does not change it.
Noise NoiseOf(std::vector<double> errors) {
  Noise noise{.centre = Median(errors)};
  for (double& error : errors) error = std::abs(error - noise.centre);
  noise.scale = 1.4826 * Median(std::move(errors));
  return noise;
}

// A robust fit, and the errors of its steps.
struct RobustFit {
  CostModel cost = {};
  std::array<Noise, 3> noise = {};  // by StepKind

  bool Outlies(const TimedStep& step) const {
    return noise[static_cast<std::size_t>(KindOf(step.load))].Outlies(Ms(step) / Predict(cost, step) - 1);
  }
};

class Fitter {
 public:
  Fitter(const Terms& terms, const Steps& steps) : terms_(terms), steps_(steps), weights_(steps.size()) {}

  RobustFit FitRobustly() {
    // Weights divide by predicted times. Weights by measured times would favour steps that were fast by chance.
    for (std::size_t i = 0; i < steps_.size(); ++i) weights_[i] = 1 / Ms(*steps_[i]);
    Solve();
    const auto huber = [](const std::vector<double>& errors) { return HuberWeights(errors); };
    Reweigh(huber, 6);
    if (terms_.saturate()) {
      FindShape();
      Reweigh(huber, 6);
      RefineShape(0.25);
      Reweigh(huber, 6);
    }
    return {model_, Noises()};
  }

  double arrival() const { return arrival_; }  // [ms]

  // Fits without the outliers. Call it after the fit above.
  CostModel FitWithout(const std::vector<bool>& outliers) {
    const auto others = [&](const std::vector<double>&) {
      std::vector<double> weights;
      for (const bool outlier : outliers) weights.push_back(outlier ? 0 : 1);
      return weights;
    };
    Reweigh(others, 3);
    if (terms_.saturate()) {
      RefineShape(0.1);
      Reweigh(others, 3);
    }
    return model_;
  }

 private:
  double Predicted(const TimedStep& step) const { return Predict(model_, step) + (step.from_arrival ? arrival_ : 0); }

  double Solve() { return SolveOver(steps_, weights_); }

  // Sets the model and returns the squared error.
  double SolveOver(const Steps& steps, const std::vector<double>& weights) {
    std::vector<double> target;
    for (std::size_t i = 0; i < steps.size(); ++i) target.push_back(Ms(*steps[i]) * weights[i]);
    const NonNegativeFit fit = NonNegativeLeastSquares(terms_.Columns(steps, shape_, weights), target);
    model_ = terms_.Model(fit.coefficients, shape_);
    arrival_ = terms_.Arrival(fit.coefficients);
    return fit.squared_error;
  }

  std::vector<double> Errors() const {
    std::vector<double> errors;
    for (const TimedStep* step : steps_) errors.push_back(Ms(*step) / Predicted(*step) - 1);
    return errors;
  }

  template <class WeightsOf>
  void Reweigh(WeightsOf weights_of, int turns) {
    for (int turn = 0; turn < turns; ++turn) {
      const std::vector<double> factors = weights_of(Errors());
      for (std::size_t i = 0; i < steps_.size(); ++i) weights_[i] = factors[i] / Predicted(*steps_[i]);
      Solve();
    }
  }

  // Square roots of Huber's weights. An error above 1.345 standard deviations counts linearly instead of squared.
  static std::vector<double> HuberWeights(const std::vector<double>& errors) {
    std::vector<double> sizes;
    for (const double error : errors) sizes.push_back(std::abs(error));
    const double bend = std::max(1.345 * 1.4826 * Median(sizes), 1e-9);
    for (double& size : sizes) size = size > bend ? std::sqrt(bend / size) : 1;
    return sizes;
  }

  // Returns the noise of each kind of step; that of all steps if a kind has few.
  std::array<Noise, 3> Noises() const {
    const std::vector<double> errors = Errors();
    std::array<std::vector<double>, 3> by_kind;
    for (std::size_t i = 0; i < errors.size(); ++i) {
      by_kind[static_cast<std::size_t>(KindOf(steps_[i]->load))].push_back(errors[i]);
    }
    std::array<Noise, 3> noises;
    for (std::size_t kind = 0; kind < noises.size(); ++kind) {
      noises[kind] = NoiseOf(by_kind[kind].size() < 8 ? errors : std::move(by_kind[kind]));
    }
    return noises;
  }

  // ---- the bend, which is nonlinear ----

  // Thins the steps, because a few thousand determine the shape as well as all do.
  void Thin() {
    constexpr std::size_t kMost = 4000;
    const std::size_t stride = steps_.size() / kMost + 1;
    few_.clear(), few_weights_.clear();
    for (std::size_t i = 0; i < steps_.size(); i += stride) {
      few_.push_back(steps_[i]);
      few_weights_.push_back(weights_[i]);
    }
  }

  // Keeps the shape and updates `least` if the shape has a smaller error.
  bool Try(Shape shape, double& least) {
    const Shape before = std::exchange(shape_, shape);
    const double error = SolveOver(few_, few_weights_);
    if (error < least) return least = error, true;
    shape_ = before;
    return false;
  }

  void FindShape() {
    Thin();
    double most = 1;
    for (const TimedStep* step : steps_) most = std::max(most, static_cast<double>(step->load.tokens()));
    double least = std::numeric_limits<double>::infinity();
    Shape best = shape_;
    for (double knee = 1; knee < 2 * most; knee *= 1.6) {
      for (const double sharpness : {1.2, 2.0, 4.0, 8.0}) {
        if (Try({knee, sharpness}, least)) best = shape_;
      }
    }
    shape_ = best;
    RefineShape(0.25);
  }

  // Searches over knee and sharpness by factors, which are halved when no step helps.
  void RefineShape(double step) {
    Thin();
    constexpr double kSharpest = 16;
    double least = std::numeric_limits<double>::infinity();
    Try(shape_, least);
    for (; step > 0.004; step /= 2) {
      for (bool better = true; better;) {
        better = false;
        for (const auto& [knee, sharpness] : {std::pair{1 + step, 1.0}, std::pair{1 / (1 + step), 1.0},
                                              std::pair{1.0, 1 + step}, std::pair{1.0, 1 / (1 + step)}}) {
          const Shape tried{shape_.knee * knee, std::clamp(shape_.sharpness * sharpness, 1.0, kSharpest)};
          better |= Try(tried, least);
        }
        better &= step > 0.02;  // one round suffices for the last digits
      }
    }
    Solve();
  }

  const Terms& terms_;
  const Steps& steps_;
  std::vector<double> weights_;
  Shape shape_ = {};
  CostModel model_ = {};
  double arrival_ = 0;
  Steps few_ = {};
  std::vector<double> few_weights_ = {};
};

// Both forms, fitted to the same steps. Outliers are common to both. A step that only one form cannot follow counts
// against that form.
struct Fits {
  std::array<RobustFit, 2> robust;
  std::array<CostModel, 2> cost;  // fitted without the outliers

  Fits(const StepLog& log, const Steps& steps) {
    const std::array<Terms, 2> terms = {Terms(CostForm::kLinear, log), Terms(CostForm::kSaturating, log)};
    std::array<Fitter, 2> fitters = {Fitter(terms[0], steps), Fitter(terms[1], steps)};
    for (std::size_t form = 0; form < 2; ++form) robust[form] = fitters[form].FitRobustly();
    std::vector<bool> outliers;
    for (const TimedStep* step : steps) outliers.push_back(Outlies(*step));
    for (std::size_t form = 0; form < 2; ++form) cost[form] = fitters[form].FitWithout(outliers);
  }

  bool Outlies(const TimedStep& step) const { return robust[0].Outlies(step) && robust[1].Outlies(step); }
};

// ---- the path to and from the engine -------------------------------------------------------------------------------

// Takes the path off the steps that begin with an arrival, and returns it [ms]. A linear fit separates it from the
// engine's time, because all other steps lack it.
double TakeArrivalOff(StepLog& log) {
  Steps steps;
  for (const TimedStep& step : log.steps) steps.push_back(&step);
  const Terms terms(CostForm::kLinear, log);
  Fitter fitter(terms, steps);
  fitter.FitRobustly();
  constexpr Duration kLeast = std::chrono::microseconds(1);
  const Duration path = FromSeconds(fitter.arrival() / 1e3);
  for (TimedStep& step : log.steps) {
    if (std::exchange(step.from_arrival, false)) step.time = std::max(Difference(step.time, path), kLeast);
  }
  return fitter.arrival();
}

// Returns the middle of the times [ms] that at least 95 % as many ranges contain as any time.
double CommonTime(const std::vector<PathRange>& ranges) {
  std::vector<std::pair<Duration, int>> ends;
  for (const PathRange& range : ranges) {
    ends.emplace_back(range.least, 1);
    ends.emplace_back(std::max(range.least, range.most), -1);
  }
  std::ranges::sort(
      ends, [](const auto& a, const auto& b) { return std::pair(a.first, -a.second) < std::pair(b.first, -b.second); });
  int now = 0, most = 0;
  for (const auto& [time, change] : ends) most = std::max(most, now += change);
  Duration first{0}, last{0};
  bool found = false;
  for (const auto& [time, change] : ends) {
    const bool before = 20 * now >= 19 * most;
    now += change;
    const bool after = 20 * now >= 19 * most;
    if (after && !before && !std::exchange(found, true)) first = time;
    if (before && !after) last = time;
  }
  return (ToSeconds(first) + ToSeconds(last)) / 2 * 1e3;
}

// ---- quality of a fit ----------------------------------------------------------------------------------------------

FitError ErrorOf(const Fits& fits, std::size_t form, const Steps& steps) {
  FitError error{.steps = std::ssize(steps)};
  std::vector<double> sizes;
  double sum = 0, bias = 0;
  for (const TimedStep* step : steps) {
    if (fits.Outlies(*step)) {
      ++error.outliers;
      continue;
    }
    const double off = 100 * (Predict(fits.cost[form], *step) / Ms(*step) - 1);
    sizes.push_back(std::abs(off));
    sum += std::abs(off);
    bias += off;
  }
  if (sizes.empty()) return error;
  const auto count = static_cast<double>(sizes.size());
  error.mean_abs_pct = sum / count;
  error.bias_pct = bias / count;
  error.p95_abs_pct = Quantile(sizes, 0.95);
  return error;
}

Steps OfKind(const Steps& steps, std::size_t kind) {
  Steps some;
  for (const TimedStep* step : steps) {
    if (static_cast<std::size_t>(KindOf(step->load)) == kind) some.push_back(step);
  }
  return some;
}

struct Split {
  Steps all, train, holdout;
};

// Splits the log into at least a hundred pieces and holds out evenly spaced ones.
Split SplitSteps(const StepLog& log, double holdout) {
  Split split;
  const double pieces = 20 / (holdout > 0 ? holdout : 1);  // twenty pieces are held out
  const auto count = static_cast<double>(log.steps.size());
  for (std::size_t i = 0; i < log.steps.size(); ++i) {
    const TimedStep* step = &log.steps[i];
    const double piece = std::floor(static_cast<double>(i) / count * pieces);
    const bool held = std::floor((piece + 1) * holdout) > std::floor(piece * holdout);
    split.all.push_back(step);
    (held ? split.holdout : split.train).push_back(step);
  }
  return split;
}

// Sets fits and outliers.
void FitForms(const StepLog& log, const Split& split, EngineCalibration& calibration) {
  const Fits trained(log, split.train);
  const Fits full = split.holdout.empty() ? trained : Fits(log, split.all);
  for (const TimedStep* step : split.all) calibration.outliers.push_back(full.Outlies(*step));
  for (std::size_t form = 0; form < 2; ++form) {
    CostFit& fit = calibration.fits[form];
    fit.form = static_cast<CostForm>(form);
    fit.train = ErrorOf(trained, form, split.train);
    fit.holdout = split.holdout.empty() ? fit.train : ErrorOf(trained, form, split.holdout);
    fit.cost = full.cost[form];
    fit.all = ErrorOf(full, form, split.all);
    for (std::size_t kind = 0; kind < fit.parts.size(); ++kind) {
      fit.parts[kind] = ErrorOf(full, form, OfKind(split.all, kind));
    }
    for (const TimedStep* step : split.all) {
      fit.measured_s += Ms(*step) / 1e3;
      fit.predicted_s += Predict(fit.cost, *step) / 1e3;
    }
  }
}

// Prefers the linear form, which has fewer ways to be wrong if the log has little data.
CostForm Choose(const std::array<CostFit, 2>& fits) {
  const double linear = fits[0].holdout.mean_abs_pct;
  const double saturating = fits[1].holdout.mean_abs_pct;
  return saturating < 0.95 * linear && saturating < linear - 0.1 ? CostForm::kSaturating : CostForm::kLinear;
}

// ---- gaps of the log -----------------------------------------------------------------------------------------------

// A quantity that a step's time depends on, over the steps with a value above 0.
struct Quantity {
  std::string what;  // the quantity's name
  std::string unit;
  std::string steps;  // name of these steps
  std::vector<double> values;  // ascending
  double least = 0, most = 0;  // range that matters; most 0: up to the largest value
};

std::array<Quantity, 3> QuantitiesOf(const Steps& steps, const CalibrateOptions& options) {
  std::array<Quantity, 3> quantities = {
      Quantity{"decode rows", "rows", "decode step", {}, 1, static_cast<double>(options.max_seqs)},
      Quantity{"prefill tokens", "tokens", "prefill step", {}, 64, static_cast<double>(options.token_budget)},
      Quantity{"longest context", "tokens of context", "step", {}, 128, static_cast<double>(options.max_context)}};
  for (const TimedStep* step : steps) {
    const auto add = [&](std::size_t i, std::int64_t value) {
      if (value > 0) quantities[i].values.push_back(static_cast<double>(value));
    };
    add(0, step->load.decodes);
    add(1, step->load.prefill_tokens);
    add(2, step->longest_context);
  }
  for (Quantity& quantity : quantities) std::ranges::sort(quantity.values);
  return quantities;
}

// Values above `from`, up to `to`.
struct Range {
  double from = 0, to = 0;
  std::int64_t count = 0;  // steps
};

// Returns doubling ranges with fewer than five steps of the log, with neighbours joined.
std::vector<Range> ThinRanges(const Quantity& quantity, double most) {
  constexpr std::int64_t kFew = 5;
  const auto up_to = [&](double value) {
    return std::ranges::upper_bound(quantity.values, value) - quantity.values.begin();
  };
  std::vector<Range> thin;
  Range range{.to = quantity.least > 1 ? quantity.least : 0};
  while (range.to < most) {
    range.from = range.to;
    range.to = std::min(std::max(1.0, 2 * range.from), most);
    range.count = up_to(range.to) - up_to(range.from);
    if (range.count >= kFew) continue;
    if (!thin.empty() && thin.back().to == range.from) {
      thin.back().to = range.to;
      thin.back().count += range.count;
    } else {
      thin.push_back(range);
    }
  }
  return thin;
}

void WarnOfGaps(const Quantity& quantity, std::vector<std::string>& warnings) {
  if (quantity.values.empty()) return;
  const double seen = quantity.values.back();
  const double most = quantity.most > 0 ? quantity.most : seen;
  std::vector<Range> thin = ThinRanges(quantity, most);
  const bool to_the_end = !thin.empty() && thin.back().to == most;
  if (!to_the_end && seen < 0.9 * most) thin.push_back({seen, most, 0});
  for (const Range& range : thin) {
    std::string where = range.to > range.from + 1 ? fmt::format("of {} to {}", range.from + 1, range.to)
                                                  : fmt::format("of {}", range.to);
    if (range.to == most) where = fmt::format("above {}", range.count == 0 ? std::min(seen, range.from) : range.from);
    else if (range.from == 0) where = fmt::format("below {}", range.to + 1);
    const std::string some =
        range.count == 0 ? "no " + quantity.steps
                         : fmt::format("only {} {}{}", range.count, quantity.steps, range.count == 1 ? "" : "s");
    warnings.push_back(fmt::format("{} {} {}", some, where, quantity.unit));
  }
}

void WarnOfSameness(const Quantity& quantity, std::vector<std::string>& warnings) {
  if (quantity.values.size() < 2 || quantity.values.front() < quantity.values.back()) return;
  warnings.push_back(fmt::format("every {} has {} {}, so fixed and variable cost are not separable", quantity.steps,
                                 quantity.values.front(), quantity.unit));
}

// Returns the mean relative error of a part of the log without outliers, in %.
double MeanError(const StepLog& log, const EngineCalibration& calibration, std::size_t from, std::size_t to) {
  double sum = 0, count = 0;
  for (std::size_t i = from; i < to; ++i) {
    if (calibration.outliers[i]) continue;
    sum += Ms(log.steps[i]) / Predict(calibration.fit().cost, log.steps[i]) - 1;
    ++count;
  }
  return count > 0 ? 100 * sum / count : 0;
}

// Warns if nine steps of ten take longer than an engine's steps, but would be plausible in a smaller unit than seconds.
void WarnOfUnit(const StepLog& log, std::vector<std::string>& warnings) {
  constexpr double kLong = 1000;  // [ms]
  std::vector<double> times;
  for (const TimedStep& step : log.steps) times.push_back(Ms(step));
  const auto tenth = times.begin() + std::ssize(times) / 10;
  std::ranges::nth_element(times, tenth);
  if (*tenth <= kLong) return;
  const bool milli = *tenth <= 1000 * kLong;
  warnings.push_back(
      fmt::format("nine steps of ten take more than {0:.3g} s, but an engine's step takes a thousandth of a second to "
                  "a second. Times must be in seconds; divide them by {2} if the log has {1}",
                  *tenth / 1000, milli ? "milliseconds" : "microseconds", milli ? "1,000" : "1,000,000"));
}

void WarnOfPrefillWork(const StepLog& log, std::vector<std::string>& warnings) {
  if (log.knows_prefill_work) return;
  if (std::ranges::none_of(log.steps, [](const TimedStep& step) { return step.load.prefill_tokens > 0; })) return;
  warnings.push_back(
      "the log has no prefill_work, so the profile omits attention of prefill, and predicted times of long prompts are "
      "too short");
}

void WarnOfFrontEnd(const StepLog& log, double front_end_ms, std::vector<std::string>& warnings) {
  std::vector<double> times;
  for (const TimedStep& step : log.steps) times.push_back(Ms(step));
  const double median = Median(std::move(times));
  if (front_end_ms > 10 * median) {
    warnings.push_back(
        fmt::format("the front end of {:.3g} ms is {:.0f} times as long as a step; requests may have "
                    "waited before the engine",
                    front_end_ms, front_end_ms / median));
  }
}

void WarnOfTimes(const StepLog& log, const EngineCalibration& calibration, std::vector<std::string>& warnings) {
  const CostFit& fit = calibration.fit();
  const std::size_t n = log.steps.size();
  const double drift = MeanError(log, calibration, n - n / 3, n) - MeanError(log, calibration, 0, n / 3);
  if (std::abs(drift) > 5) {
    warnings.push_back(fmt::format("for the same work, the last third of the log took {:.0f} % {} than the first third",
                                   std::abs(drift), drift > 0 ? "longer" : "less"));
  }
  double outlying_s = 0;
  for (std::size_t i = 0; i < n; ++i) outlying_s += calibration.outliers[i] ? ToSeconds(log.steps[i].time) : 0;
  if (fit.all.outliers * 20 > fit.all.steps || outlying_s > 0.1 * fit.measured_s) {
    warnings.push_back(fmt::format("the profile excludes outliers: {:.1f} % of the steps, with {:.1f} % of the time",
                                   100.0 * static_cast<double>(fit.all.outliers) / static_cast<double>(fit.all.steps),
                                   100 * outlying_s / fit.measured_s));
  }
  std::vector<double> times;
  for (const TimedStep& step : log.steps) times.push_back(Ms(step));
  const double median = Median(times);
  for (double& time : times) time = 100 * std::abs(time / median - 1);
  const double flat = Median(times);
  if (fit.all.mean_abs_pct > 20 && fit.all.mean_abs_pct > 0.7 * flat) {
    warnings.push_back(fmt::format(
        "the times of steps depend little on the logged rows; the error of the fit is {:.0f} %", fit.all.mean_abs_pct));
  }
}

std::vector<std::string> Warnings(const StepLog& log, const std::array<Quantity, 3>& quantities,
                                  const EngineCalibration& calibration) {
  std::vector<std::string> warnings;
  WarnOfUnit(log, warnings);
  WarnOfPrefillWork(log, warnings);
  for (const Quantity& quantity : quantities) {
    WarnOfSameness(quantity, warnings);
    WarnOfGaps(quantity, warnings);
  }
  for (std::size_t kind = 0; kind < NamesOf(StepKind{}).size(); ++kind) {
    const std::int64_t steps = calibration.fit().parts[kind].steps;
    const std::string_view name = Name(static_cast<StepKind>(kind));
    if (steps == 0) warnings.push_back(fmt::format("no {} step", name));
    else if (steps < 20) warnings.push_back(fmt::format("only {} {} step{}", steps, name, steps == 1 ? "" : "s"));
  }
  WarnOfTimes(log, calibration, warnings);
  return warnings;
}

// Returns why the log cannot determine the cost of a step.
absl::Status CheckLog(const StepLog& log) {
  const auto refuse = [](std::string why) { return absl::InvalidArgumentError(std::move(why)); };
  std::int64_t prefill = 0, decode = 0;
  std::set<std::tuple<std::int64_t, double, std::int64_t, std::int64_t>> loads;
  for (std::size_t i = 0; i < log.steps.size(); ++i) {
    const auto& [load, time, context, from_arrival] = log.steps[i];
    if (time <= Duration(0)) return refuse(fmt::format("steps[{}].time is {} s: must be positive", i, ToSeconds(time)));
    if (load.tokens() <= 0) return refuse(fmt::format("steps[{}].load has no tokens", i));
    prefill += load.prefill_tokens > 0 ? 1 : 0;
    decode += load.decodes > 0 ? 1 : 0;
    if (loads.size() < kLeastLoads)
      loads.emplace(load.prefill_tokens, load.prefill_work, load.decodes, load.decode_context);
  }
  if (std::ssize(log.steps) < kLeastSteps) {
    return refuse(fmt::format("too few steps to fit a cost model: {}; expected at least {}, better thousands",
                              log.steps.size(), kLeastSteps));
  }
  if (prefill == 0) return refuse("no step has prefill tokens; expected steps with prefill");
  if (decode == 0) return refuse("no step has a decode row; expected steps with decode");
  if (loads.size() < kLeastLoads) {
    return refuse(
        fmt::format("only {} different loads among {} steps; expected many batch sizes, contexts and chunk sizes",
                    loads.size(), log.steps.size()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CalibrateOptions::Validate() const {
  Faults faults;
  faults.Expect(holdout >= 0 && holdout <= 0.5, "holdout", holdout, "must be from 0 to 0.5");
  faults.Expect(max_seqs >= 1, "max_seqs", max_seqs, "must be at least 1");
  faults.Expect(token_budget >= 1, "token_budget", token_budget, "must be at least 1");
  faults.Expect(max_context >= 0, "max_context", max_context, "must be at least 0");
  return faults.ToStatus();
}

absl::StatusOr<EngineCalibration> Calibrate(const StepLog& given, const CalibrateOptions& options) {
  if (absl::Status s = options.Validate(); !s.ok()) return s;
  if (absl::Status s = CheckLog(given); !s.ok()) return s;
  const auto arrivals = std::ranges::count_if(given.steps, &TimedStep::from_arrival);
  StepLog within;  // the engine's own times, if they differ
  double arrival_ms = 0;
  if (arrivals > 0) {
    within = given;
    arrival_ms = TakeArrivalOff(within);
  }
  const StepLog& log = arrivals > 0 ? within : given;
  const Split split = SplitSteps(log, options.holdout);
  EngineCalibration calibration;
  FitForms(log, split, calibration);
  calibration.chosen = options.form.value_or(Choose(calibration.fits));
  const std::array<Quantity, 3> quantities = QuantitiesOf(split.all, options);
  for (std::size_t i = 0; i < quantities.size(); ++i) {
    const std::vector<double>& values = quantities[i].values;
    if (values.empty()) continue;
    calibration.covered[i] = {quantities[i].what, std::ssize(values), values.front(), QuantileOfSorted(values, 0.5),
                              values.back()};
  }
  calibration.warnings = Warnings(log, quantities, calibration);
  constexpr std::int64_t kFewPaths = 20, kFewArrivals = 5;
  constexpr double kMostFrontEnd = 3.6e6;  // [ms]; the limit of profiles
  calibration.arrival_ms = arrival_ms;
  if (std::ssize(given.paths) >= kFewPaths) {
    calibration.front_end_ms = std::clamp(CommonTime(given.paths), 0.0, kMostFrontEnd);
    calibration.front_end_of = std::ssize(given.paths);
  } else if (arrivals >= kFewArrivals) {
    calibration.front_end_ms = std::min(arrival_ms, kMostFrontEnd);
    calibration.front_end_of = arrivals;
  }
  WarnOfFrontEnd(log, calibration.front_end_ms, calibration.warnings);
  return calibration;
}

}  // namespace takt
