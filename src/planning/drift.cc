#include "takt/planning/drift.h"

#include "takt/base/faults.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "takt/config.h"
#include "takt/numeric/two_sample.h"

namespace takt {
namespace {

constexpr std::size_t kScoresPerWindow = 4096;  // limit per model; more scores would add no information

double Sum(std::span<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double Mean(std::span<const double> values) {
  return values.empty() ? 0 : Sum(values) / static_cast<double>(values.size());
}

// Squared coefficient of variation. Returns 1, as for a Poisson process, if there are too few values.
double SquaredVariation(std::span<const double> values) {
  const double mean = Mean(values);
  if (values.size() < 10 || !(mean > 0)) return 1;
  double squares = 0;
  for (const double x : values) squares += (x - mean) * (x - mean);
  return squares / static_cast<double>(values.size() - 1) / (mean * mean);
}

// Two-sided test: did the mean gap change?
double GapsP(const WorkloadSample& before, const WorkloadSample& after) {
  const auto m = static_cast<double>(before.gaps.size());
  const double mean = Mean(before.gaps);
  if (m < 2 || !(mean > 0)) return 1;
  const double variation = std::max({1.0, SquaredVariation(before.gaps), SquaredVariation(after.gaps)});
  const double span = Sum(after.gaps) + after.open_s;
  if (!std::isfinite(span)) return 1;
  const auto tail = [&](double n) { return FisherTail(span / n / mean, 2 * n / variation, 2 * m / variation); };
  const auto n = static_cast<double>(after.gaps.size());
  // The gap since the last arrival has no end yet, so the test counts one more arrival later.
  const double slower = span > 0 ? tail(after.open_s > 0 ? n + 1 : n) : 1;
  const double faster = n > 0 ? 1 - tail(n) : 1;
  return std::min(1.0, 2 * std::min(slower, faster));
}

std::vector<double> Sorted(std::vector<double> values) {
  std::erase_if(values, [](double x) { return x != x; });
  std::sort(values.begin(), values.end());
  return values;
}

// Tests ascending values twice, and corrects for two tests.
double ValuesP(std::span<const double> before, std::span<const double> after) {
  return std::min(1.0, 2 * std::min(RankSumTest(after, before).p, KolmogorovSmirnovTest(after, before).p));
}

// Returns the values to test: prompts, outputs, or scores by model. Null if there are none.
const std::vector<double>* ValuesOf(const WorkloadSample& sample, std::size_t i) {
  if (i == 0) return &sample.prompts;
  if (i == 1) return &sample.outputs;
  return i - 2 < sample.scores.size() ? &sample.scores[i - 2] : nullptr;
}

}  // namespace

absl::Status DriftOptions::Validate() const {
  Faults faults;
  faults.Expect(false_alarms > 0 && false_alarms < 1, "false_alarms", false_alarms, "must lie between 0 and 1");
  faults.Expect(requests >= 2 && requests <= 1'000'000, "requests", requests, "must be 2 to 1000000");
  faults.Expect(period > Duration::zero(), "period", ToSeconds(period), "must be above 0");
  faults.Expect(score_share >= 0 && score_share <= 1, "score_share", score_share, "must be 0 to 1");
  faults.Expect(reference_requests >= 2, "reference_requests", reference_requests, "must be at least 2");
  faults.Expect(most_windows >= 1 && most_windows <= 64, "most_windows", most_windows, "must be 1 to 64");
  return faults.ToStatus();
}

double WorkloadSample::rate() const {
  const double span = Sum(gaps) + open_s;
  return span > 0 ? static_cast<double>(gaps.size()) / span : 0;
}

void WorkloadSample::Merge(const WorkloadSample& other) {
  const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(gaps, other.gaps);
  open_s += other.open_s;
  append(prompts, other.prompts);
  append(outputs, other.outputs);
  if (scores.size() < other.scores.size()) scores.resize(other.scores.size());
  for (std::size_t i = 0; i < other.scores.size(); ++i) append(scores[i], other.scores[i]);
  outputs_missing += other.outputs_missing;
  scores_missing += other.scores_missing;
}

DriftReport DetectDrift(const WorkloadSample& reference, std::span<const WorkloadSample> recent,
                        const DriftOptions& options) {
  DriftReport report;
  const std::size_t values = 2 + reference.scores.size();
  int spans = 0;
  for (int windows = 1; windows <= options.most_windows; windows *= 2) ++spans;
  report.tests = static_cast<int>(1 + values) * spans;  // also counts tests with too few values so far
  report.threshold = options.false_alarms / report.tests;

  std::vector<std::vector<double>> before;  // ascending
  for (std::size_t i = 0; i < values; ++i) before.push_back(Sorted(*ValuesOf(reference, i)));
  std::vector<DriftSign> best(1 + values);
  std::vector<WorkloadSample> by_span;  // of 1, 2, 4 ... windows
  WorkloadSample merged;
  std::size_t taken = 0;
  const std::size_t most = std::min(recent.size(), static_cast<std::size_t>(options.most_windows));
  for (std::size_t windows = 1; windows <= most; windows *= 2) {
    while (taken < windows) merged.Merge(recent[recent.size() - ++taken]);
    by_span.push_back(merged);
    const int span = static_cast<int>(windows);
    const DriftSign rate{
        .windows = span, .p = GapsP(reference, merged), .before = reference.rate(), .after = merged.rate()};
    if (rate.p < best[0].p) best[0] = rate;
    for (std::size_t i = 0; i < values; ++i) {
      const std::vector<double>* recent_values = ValuesOf(merged, i);
      if (recent_values == nullptr) continue;
      const std::vector<double> after = Sorted(*recent_values);
      const double p = ValuesP(before[i], after);
      if (!(p < best[1 + i].p)) continue;
      const DriftFeature feature = i == 0   ? DriftFeature::kPrompt
                                   : i == 1 ? DriftFeature::kOutput
                                            : DriftFeature::kScore;
      best[1 + i] = {feature, i < 2 ? 0 : static_cast<int>(i - 2), span, p, Mean(before[i]), Mean(after)};
    }
  }
  for (const DriftSign& sign : best) {
    if (sign.p < report.threshold) report.signs.push_back(sign);
  }
  std::ranges::stable_sort(report.signs, {}, &DriftSign::p);
  report.drifted = !report.signs.empty();
  if (report.drifted) {
    std::size_t span = 0;
    for (int windows = report.signs.front().windows; windows > 1; windows /= 2) ++span;
    report.recent = std::move(by_span[span]);
  }
  return report;
}

DriftReport DriftMonitor::Add(WorkloadSample window) {
  if (std::cmp_equal(recent_.size(), options_.most_windows)) recent_.erase(recent_.begin());  // after an alarm
  recent_.push_back(std::move(window));
  DriftReport report = DetectDrift(reference_, recent_, options_);
  if (report.drifted) return report;
  // Windows that were tested in all spans are old enough to join the reference, because they cannot hold a new drift.
  // Until there is a reference, a window joins at once.
  const bool first = reference_.requests() < options_.requests;
  if (first || std::cmp_greater_equal(recent_.size(), options_.most_windows)) {
    if (reference_.requests() < options_.reference_requests) reference_.Merge(recent_.front());
    recent_.erase(recent_.begin());
  }
  return report;
}

void DriftMonitor::Rebase(WorkloadSample reference) {
  reference_ = std::move(reference);
  recent_.clear();
}

DriftSampler::DriftSampler(int models, DriftOptions options)
    : wanted_(static_cast<std::size_t>(options.requests)),
      period_(options.period),
      seed_(options.seed),
      chosen_below_(options.score_share >= 1 ? UINT64_MAX
                                             : static_cast<std::uint64_t>(std::ldexp(options.score_share, 64))),
      index_(2 * wanted_),
      scores_(static_cast<std::size_t>(std::max(0, models))) {
  TAKT_ASSERT(options.Validate().ok());
  arrivals_.reserve(wanted_);
  prompts_.reserve(wanted_);
  outputs_.reserve(wanted_);
  ids_.reserve(wanted_);
  for (std::vector<double>& scores : scores_) scores.reserve(kScoresPerWindow);
}

void DriftSampler::Begin(TimePoint at) {
  begun_ = true;
  begin_ = at;
  for (const std::uint64_t id : ids_) index_.Erase(id);
  ids_.clear();
  arrivals_.clear();
  prompts_.clear();
  outputs_.clear();
  unfinished_ = 0;
  for (std::vector<double>& scores : scores_) scores.clear();
  scores_missing_ = 0;
}

bool DriftSampler::OnArrival(RequestId request, Tokens prompt, TimePoint now) {
  if (!begun_) Begin(now);
  if (now >= begin_ && now < After(begin_, period_) && !full() &&
      index_.Insert(request.value, static_cast<std::uint32_t>(ids_.size()))) {
    ids_.push_back(request.value);
    arrivals_.push_back(arrivals_.empty() ? now : std::max(now, arrivals_.back()));
    prompts_.push_back(static_cast<double>(prompt.value));
    outputs_.push_back(-1);
    ++unfinished_;
  }
  return Mix64(request.value ^ Mix64(seed_)) < chosen_below_;
}

void DriftSampler::OnFinished(RequestId request, Tokens output) {
  const std::uint32_t at = index_.Find(request.value);
  if (at == kNoSlot) return;
  index_.Erase(request.value);
  outputs_[at] = static_cast<double>(std::max<std::int64_t>(0, output.value));
  --unfinished_;
}

void DriftSampler::OnScore(int model, double score) {
  if (model < 0 || std::cmp_greater_equal(model, scores_.size())) return;
  std::vector<double>& scores = scores_[static_cast<std::size_t>(model)];
  if (!std::isfinite(score)) ++scores_missing_;
  else if (scores.size() < kScoresPerWindow) scores.push_back(score);
}

WorkloadSample DriftSampler::Take(TimePoint now) {
  WorkloadSample window;
  for (std::size_t i = 1; i < arrivals_.size(); ++i)
    window.gaps.push_back(ToSeconds(Between(arrivals_[i - 1], arrivals_[i])));
  if (begun_ && !full()) {
    const TimePoint from = arrivals_.empty() ? begin_ : arrivals_.back();
    window.open_s = std::max(0.0, ToSeconds(Between(from, std::min(now, After(begin_, period_)))));
  }
  window.prompts = prompts_;
  for (const double output : outputs_) {
    if (output >= 0) window.outputs.push_back(output);
    else ++window.outputs_missing;
  }
  window.scores = scores_;
  window.scores_missing = scores_missing_;
  // The next multiple; missed windows are skipped.
  TimePoint next = begun_ ? After(begin_, period_) : now;
  if (next < now) next = After(next, Times(period_, Between(next, now) / period_));
  Begin(next);
  return window;
}

}  // namespace takt
