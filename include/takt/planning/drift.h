// Has the workload become another? A sampler on the stream's path, and a detector off it whose false alarms are rare by
// proof. After Cascadia (section 4.4): 50 requests every 5 minutes for rates and lengths, 5 % of the requests through
// all models for the scores.
//
//   DriftSampler sampler(models, {});
//   if (sampler.OnArrival(id, prompt, now)) { ... }   // send this one through all models, and tell its OnScore
//   sampler.OnFinished(id, output);
//   if (sampler.Ready(now)) {                         // hand the window to a slow thread:
//     DriftReport report = monitor.Add(sampler.Take(now));
//     if (report.drifted) { plan anew from report.recent; monitor.Rebase(report.recent); }
//   }
//
// docs/howto/drift.md tells what it notices, and how soon.
#ifndef TAKT_PLANNING_DRIFT_H_
#define TAKT_PLANNING_DRIFT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/id_map.h"
#include "takt/base/names.h"
#include "takt/base/random.h"
#include "takt/base/time.h"

namespace takt {

struct DriftOptions {
  double false_alarms = 1e-3;  // windows that cry wolf, at most: the share over all tests of a window
  int requests = 50;  // of a window, in a row
  Duration period = std::chrono::minutes(5);  // a window begins every so often, and is closed at the next's begin
  double score_share = 0.05;  // of the requests that go through all models
  int reference_requests = 500;  // windows that raised no alarm join the reference until it has so many
  int most_windows = 8;  // a window is judged alone and with the 1, 3, 7 ... before it, up to so many
  std::uint64_t seed = 1;  // of the choice of requests for scores

  // InvalidArgument names every field at fault, with its value.
  absl::Status Validate() const;
};

// What was seen of a workload: one window, or several merged.
struct WorkloadSample {
  std::vector<double> gaps = {};  // [s] between one arrival and the next
  double open_s = 0;  // [s] at the end without an arrival, because time closed the window
  std::vector<double> prompts = {};  // tokens
  std::vector<double> outputs = {};  // tokens
  std::vector<std::vector<double>> scores = {};  // by model
  std::int64_t outputs_missing = 0;  // requests that had not finished, and count in no output
  std::int64_t scores_missing = 0;  // scores that were not finite, and count in none

  std::int64_t requests() const { return static_cast<std::int64_t>(prompts.size()); }
  double rate() const;  // requests/s; 0 where there was no time
  void Merge(const WorkloadSample& other);
};

enum class DriftFeature : std::uint8_t { kRate, kPrompt, kOutput, kScore };
constexpr auto NamesOf(DriftFeature) { return std::to_array<std::string_view>({"rate", "prompt", "output", "score"}); }

struct DriftSign {
  DriftFeature feature = DriftFeature::kRate;
  int model = 0;  // of a score
  int windows = 1;  // the newest so many together show it
  double p = 1;  // below DriftReport::threshold
  double before = 0;  // rate, or mean
  double after = 0;
};

struct DriftReport {
  bool drifted = false;
  std::vector<DriftSign> signs = {};  // by rising p, one per feature and model
  double threshold = 0;  // what p of a single test had to fall below
  int tests = 0;
  WorkloadSample recent = {};  // where drifted: the windows of the first sign, what to plan for
};

// Compares the newest windows (oldest first) with a reference. Arrivals: a ratio of mean gaps, by F with the degrees of
// freedom of gamma gaps, whose squared coefficient of variation is the larger of the two samples' and 1. Lengths and
// scores: Mann-Whitney for a shift, Kolmogorov-Smirnov for any other difference, whatever their distribution. The
// false-alarm rate is split evenly over all tests that can be made (Bonferroni), so that at most that share of windows
// cries wolf while requests are independent and come from the reference's distribution. Pure.
DriftReport DetectDrift(const WorkloadSample& reference, std::span<const WorkloadSample> recent,
                        const DriftOptions& options);

// The reference, and the newest windows. Off the step path: it allocates. Thread-compatible.
class DriftMonitor {
 public:
  // Expects valid options. Without a reference, the first windows become it.
  explicit DriftMonitor(DriftOptions options, WorkloadSample reference = {})
      : options_(options), reference_(std::move(reference)) {}

  DriftReport Add(WorkloadSample window);

  // There is a new plan, made for this.
  void Rebase(WorkloadSample reference);

  const WorkloadSample& reference() const { return reference_; }

 private:
  DriftOptions options_;
  WorkloadSample reference_;
  std::vector<WorkloadSample> recent_;  // oldest first
};

// Watches arrivals, ends and scores. A few operations per event, and no allocation but in Take. Thread-compatible.
class DriftSampler {
 public:
  // Expects valid options.
  DriftSampler(int models, DriftOptions options);

  // True for requests that shall go through all models: chosen by their id, and so again the same.
  bool OnArrival(RequestId request, Tokens prompt, TimePoint now);

  // The request has its whole answer. Unknown requests are none of the window's.
  void OnFinished(RequestId request, Tokens output);

  // A judge's score of a model's answer to one of the chosen requests. A score that is not finite is counted as
  // missing.
  void OnScore(int model, double score);

  // The window is whole: all requests there and finished; or its time is over.
  bool Ready(TimePoint now) const { return begun_ && ((full() && unfinished_ == 0) || now >= After(begin_, period_)); }
  // Ready at the latest then.
  TimePoint wake_at() const { return begun_ ? After(begin_, period_) : kNever; }

  // The window; the next one begins at the next multiple of the period.
  WorkloadSample Take(TimePoint now);

 private:
  bool full() const { return arrivals_.size() == wanted_; }
  void Begin(TimePoint at);

  std::size_t wanted_;
  Duration period_;
  std::uint64_t seed_;
  std::uint64_t chosen_below_;  // of 2^64
  bool begun_ = false;
  TimePoint begin_{};  // of the window
  std::vector<TimePoint> arrivals_;
  std::vector<double> prompts_;
  std::vector<double> outputs_;  // by arrival; below 0: not finished
  std::size_t unfinished_ = 0;
  IdMap index_;  // of requests that have not finished
  std::vector<std::uint64_t> ids_;
  std::vector<std::vector<double>> scores_;
  std::int64_t scores_missing_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLANNING_DRIFT_H_
