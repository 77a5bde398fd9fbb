// Cost models fitted to logs whose true coefficients are known.
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catch.h"
#include "scale.h"
#include "sim/sim_workloads.h"
#include "takt/base/random.h"
#include "takt/sim/calibrate.h"
#include "takt/sim/replay.h"

namespace takt {
namespace {

using testing::RandomWorkload;

CostModel Linear() {
  CostModel cost{.hidden = 1};
  cost.gemm = {.floor_ms = 4, .slope_ms = 0.05};
  cost.prefill.per_context_ms = 2e-5;
  cost.decode.per_token_ms = 0.1;
  cost.decode.per_context_ms = 8e-4;
  cost.head.slope_ms = 0.03;
  return cost;
}

CostModel Saturating() {
  CostModel cost = Linear();
  cost.gemm = {.offset_ms = 1, .floor_ms = 6, .slope_ms = 0.08, .sharpness = 3};
  cost.prefill.constant_ms = 0.5;
  return cost;
}

// The log of a virtual engine with this cost and a normal error of this relative size.
StepLog LogOf(const CostModel& cost, double noise, std::uint64_t seed = 1, std::size_t workflows = 300) {
  ReplayOptions options;
  options.profile.id = "truth";
  options.profile.cost = cost;
  options.kv_tokens = 200'000;
  options.engine.limits = {.tokens = {512}, .max_seqs = 64};
  Random random(seed);
  std::string text;
  options.cluster.on_step = [&](const VirtualStep& step) {
    const double factor = std::max(0.2, 1 + noise * random.Normal());
    const Duration time = FromSeconds(ToSeconds(step.end - step.start) * factor);
    text += StepLogLine(step.plan, step.start, step.start + time) + "\n";
  };
  // Busy and idle periods, so that batches of all sizes occur.
  Workload workload = RandomWorkload(seed, workflows, 30, false);
  for (std::size_t i = 0; i < workload.workflows.size(); ++i) {
    workload.workflows[i].arrival += std::chrono::seconds(i / 100 * 10);
  }
  const absl::StatusOr<ReplayResult> result = Replay(workload, options);
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  const absl::StatusOr<StepLog> log = ParseStepLog(text, "log");
  INFO(log.status().ToString());
  REQUIRE(log.ok());
  return *log;
}

// Warnings about the ranges of the logs above.
CalibrateOptions Options() { return {.max_seqs = 64, .token_budget = 512}; }

EngineCalibration Fitted(const StepLog& log, const CalibrateOptions& options = Options()) {
  absl::StatusOr<EngineCalibration> fitted = Calibrate(log, options);
  INFO(fitted.status().ToString());
  REQUIRE(fitted.ok());
  for (const CostFit& fit : fitted->fits) CHECK(fit.cost.Faults().empty());
  return *std::move(fitted);
}

// The mean relative distance of two models over a log's steps, in %.
double Distance(const CostModel& a, const CostModel& b, const StepLog& log) {
  double sum = 0;
  for (const TimedStep& step : log.steps) {
    sum += std::abs(ToSeconds(a.StepTime(step.load)) / ToSeconds(b.StepTime(step.load)) - 1);
  }
  return 100 * sum / static_cast<double>(log.steps.size());
}

bool Warns(const EngineCalibration& calibration, std::string_view text) {
  for (const std::string& warning : calibration.warnings) UNSCOPED_INFO(warning);
  for (const std::string& warning : calibration.warnings) {
    if (warning.find(text) != std::string::npos) return true;
  }
  return false;
}

void CheckLinear(const CostModel& cost, double epsilon) {
  const CostModel truth = Linear();
  CHECK(cost.gemm.floor_ms == Approx(truth.gemm.floor_ms).epsilon(epsilon));
  const double prefill = cost.gemm.slope_ms + cost.prefill.per_token_ms;
  CHECK(prefill == Approx(truth.gemm.slope_ms).epsilon(epsilon));
  // A decode always samples, so only the sum of these is determined well. Many rows also have much context.
  const double decode = cost.gemm.slope_ms + cost.decode.per_token_ms + cost.head.slope_ms;
  CHECK(decode == Approx(0.18).epsilon(3 * epsilon));
  CHECK(cost.decode.per_context_ms == Approx(truth.decode.per_context_ms).epsilon(3 * epsilon));
}

TEST_CASE("an exact linear log gives back its coefficients") {
  const StepLog log = LogOf(Linear(), 0);
  const EngineCalibration calibration = Fitted(log);
  CHECK(calibration.chosen == CostForm::kLinear);
  CheckLinear(calibration.fit().cost, 1e-4);
  CHECK(calibration.fit().cost.prefill.per_context_ms == Approx(2e-5).epsilon(1e-3));
  CHECK(calibration.fit().cost.head.slope_ms == Approx(0.03).epsilon(1e-3));
  CHECK(calibration.fit().holdout.mean_abs_pct < 0.01);
  CHECK(calibration.fit().all.outliers == 0);
  CHECK(calibration.fits[1].holdout.mean_abs_pct < 0.1);
}

TEST_CASE("noise moves the coefficients a little and sets the error") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(Scaled(5)); ++seed) {
    CAPTURE(seed);
    const StepLog log = LogOf(Linear(), 0.05, seed);
    const EngineCalibration calibration = Fitted(log);
    CHECK(calibration.chosen == CostForm::kLinear);
    const CostFit& fit = calibration.fit();
    CheckLinear(fit.cost, 0.06);
    CHECK(Distance(fit.cost, Linear(), log) < 0.5);
    // The mean size of a normal error of 5 % is 4 %.
    CHECK(fit.holdout.mean_abs_pct == Approx(4).epsilon(0.15));
    CHECK(std::abs(fit.all.bias_pct) < 0.6);
    CHECK(fit.predicted_s == Approx(fit.measured_s).epsilon(0.005));
    CHECK(fit.all.steps == std::ssize(log.steps));
    CHECK(fit.parts[0].steps + fit.parts[1].steps + fit.parts[2].steps == fit.all.steps);
    CHECK(fit.train.steps + fit.holdout.steps == fit.all.steps);
    CHECK(static_cast<double>(fit.holdout.steps) == Approx(0.2 * static_cast<double>(fit.all.steps)).epsilon(0.02));
  }
}

TEST_CASE("a floor that turns into a slope selects the saturating form") {
  const StepLog log = LogOf(Saturating(), 0.03);
  const EngineCalibration calibration = Fitted(log);
  CHECK(calibration.chosen == CostForm::kSaturating);
  CHECK(Distance(calibration.fits[1].cost, Saturating(), log) < 0.7);
  CHECK(calibration.fits[0].holdout.mean_abs_pct > 1.2 * calibration.fits[1].holdout.mean_abs_pct);
  for (const FitError& part : calibration.fit().parts) CHECK(part.mean_abs_pct < 4);
  CHECK(Fitted(log, {.form = CostForm::kLinear, .max_seqs = 64, .token_budget = 512}).chosen == CostForm::kLinear);
}

TEST_CASE("outliers are named and do not bend the fit") {
  StepLog log = LogOf(Linear(), 0.02, 3);
  Random random(5);
  std::vector<bool> planted(log.steps.size());
  for (std::size_t i = 0; i < log.steps.size(); ++i) {
    planted[i] = i < 3 || random.Chance(0.05);
    if (planted[i]) log.steps[i].time = FromSeconds(ToSeconds(log.steps[i].time) * (2 + 20 * random.Uniform()));
  }
  const EngineCalibration calibration = Fitted(log);
  CheckLinear(calibration.fit().cost, 0.04);
  CHECK(Distance(calibration.fit().cost, Linear(), log) < 0.3);
  CHECK(calibration.outliers == planted);
  CHECK(calibration.fit().holdout.mean_abs_pct < 2);
  CHECK(Warns(calibration, "the profile excludes outliers"));
}

TEST_CASE("coefficients are never negative") {
  StepLog log = LogOf(Linear(), 0.02, 4);
  // Larger contexts are faster, which no cost model describes.
  for (TimedStep& step : log.steps) {
    step.time = FromSeconds(1e-3 * (10 + 0.1 * static_cast<double>(step.load.tokens())) *
                            std::exp(-1e-4 * static_cast<double>(step.load.decode_context)));
  }
  for (const CostFit& fit : Fitted(log).fits) CHECK(fit.cost.decode.per_context_ms == 0);
}

TEST_CASE("a log that leaves a step's cost undetermined is refused") {
  const StepLog good = LogOf(Linear(), 0, 1, 20);
  const auto refusal = [](StepLog log, const CalibrateOptions& options = {}) {
    const absl::StatusOr<EngineCalibration> fitted = Calibrate(log, options);
    CHECK(fitted.status().code() == absl::StatusCode::kInvalidArgument);
    return std::string(fitted.status().message());
  };
  const auto contains = [](const std::string& text, std::string_view part) {
    CAPTURE(text, part);
    CHECK(text.find(part) != std::string::npos);
  };
  StepLog few = good;
  few.steps.resize(29);
  contains(refusal(few), "too few steps to fit a cost model: 29");
  contains(refusal({}), "too few steps to fit a cost model: 0");

  StepLog decodes, prefills;
  for (std::int64_t i = 1; i <= 100; ++i) {
    decodes.steps.push_back({{.decodes = i, .decode_context = 10 * i, .samples = i}, std::chrono::milliseconds(i)});
    prefills.steps.push_back({{.prefill_tokens = i}, std::chrono::milliseconds(i)});
  }
  contains(refusal(decodes), "no step has prefill tokens");
  contains(refusal(prefills), "no step has a decode row");

  StepLog same;
  for (int i = 0; i < 500; ++i) {
    same.steps.push_back({{.prefill_tokens = i % 3, .decodes = 1, .samples = 1}, std::chrono::milliseconds(5 + i % 7)});
  }
  contains(refusal(same), "only 3 different loads among 500 steps");

  StepLog timeless = good;
  timeless.steps[7].time = Duration(0);
  contains(refusal(timeless), "steps[7].time is 0 s");
  StepLog empty = good;
  empty.steps[8].load = {};
  contains(refusal(empty), "steps[8].load has no tokens");
  contains(refusal(good, {.holdout = 0.7, .max_seqs = 0}), "holdout is 0.7: must be from 0 to 0.5\nmax_seqs is 0");
  contains(refusal(good, {.holdout = std::nan("")}), "holdout is nan");
}

TEST_CASE("ranges that the log does not cover are reported") {
  const StepLog log = LogOf(Linear(), 0.02);
  CHECK_FALSE(Warns(Fitted(log, {.max_seqs = 20, .token_budget = 256}), " of "));
  CHECK_FALSE(Warns(Fitted(log, {.max_seqs = 20, .token_budget = 256}), " above "));

  StepLog small = log;
  std::erase_if(small.steps, [](const TimedStep& s) {
    return s.load.decodes > 12 || s.load.prefill_tokens > 300 || (s.load.decodes > 4 && s.load.decodes <= 8);
  });
  const EngineCalibration calibration = Fitted(small, {.max_seqs = 256, .token_budget = 2048, .max_context = 8192});
  CHECK(Warns(calibration, "no decode step above 12 rows"));
  CHECK(Warns(calibration, "no decode step of 5 to 8 rows"));
  CHECK(Warns(calibration, "no prefill step above 29"));
  CHECK(Warns(calibration, "no step above 3"));  // contexts end at about 350 tokens
  std::erase_if(small.steps, [](const TimedStep& s) { return s.load.decodes == 2; });
  CHECK(Warns(Fitted(small), "no decode step of 2 rows"));
  CHECK(calibration.covered[0].what == "decode rows");
  CHECK(calibration.covered[0].most == 12);

  StepLog apart = log;
  std::erase_if(apart.steps, [](const TimedStep& s) { return KindOf(s.load) == StepKind::kMixed; });
  CHECK(Warns(Fitted(apart), "no mixed step"));

  StepLog fixed = log;
  for (TimedStep& s : fixed.steps) {
    if (s.load.prefill_tokens > 0) s.load.prefill_tokens = 128;
  }
  CHECK(Warns(Fitted(fixed), "every prefill step has 128 tokens"));
}

TEST_CASE("unexplained times and slowing engines are reported") {
  StepLog log = LogOf(Linear(), 0.02, 6);
  StepLog slowing = log;
  for (std::size_t i = 0; i < log.steps.size(); ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(log.steps.size());
    slowing.steps[i].time = FromSeconds(ToSeconds(log.steps[i].time) * (1 + 0.3 * share));
  }
  CHECK(Warns(Fitted(slowing), "the last third of the log took"));
  CHECK_FALSE(Warns(Fitted(log), "the last third of the log took"));

  Random random(9);
  for (TimedStep& step : log.steps) step.time = FromSeconds(0.01 * random.LogNormal(0, 0.8));
  CHECK(Warns(Fitted(log), "depend little on the logged rows"));
}

TEST_CASE("times in other units raise a doubt, and slow engines none") {
  const StepLog log = LogOf(Linear(), 0.02, 6, 60);
  const auto doubted = [&](int factor, std::string_view unit) {
    StepLog other = log;
    for (TimedStep& step : other.steps) step.time *= factor;
    return Warns(Fitted(other), unit);
  };
  CHECK(doubted(1'000, "if the log has milliseconds"));
  CHECK(doubted(1'000'000, "if the log has microseconds"));
  CHECK_FALSE(doubted(50, "was the time of a step logged"));  // a large model on a CPU
}

TEST_CASE("totals alone still fit, without undetermined terms") {
  StepLog log = LogOf(Linear(), 0.02);
  log.knows_prefill_work = log.knows_samples = false;
  for (TimedStep& step : log.steps) step.load.prefill_work = 0, step.load.samples = step.load.decodes;
  const EngineCalibration calibration = Fitted(log);
  CHECK(calibration.fit().cost.prefill.per_context_ms == 0);
  CHECK(calibration.fit().cost.head.slope_ms == 0);
  CHECK(calibration.fit().holdout.mean_abs_pct < 3);
}

TEST_CASE("the same log gives the same fit, without a holdout") {
  const StepLog log = LogOf(Saturating(), 0.05, 2, 60);
  const EngineCalibration a = Fitted(log), b = Fitted(log);
  for (std::size_t form = 0; form < 2; ++form) {
    CHECK(Distance(a.fits[form].cost, b.fits[form].cost, log) == 0);
  }
  CHECK(a.warnings == b.warnings);
  const EngineCalibration whole = Fitted(log, {.holdout = 0, .max_seqs = 64, .token_budget = 512});
  CHECK(whole.fit().holdout.steps == whole.fit().all.steps);
}

}  // namespace
}  // namespace takt
