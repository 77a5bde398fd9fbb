// Detects changes of the workload. A sampler runs on the request path. A detector with a proven bound on false alarms
// runs outside that path. As in Cascadia (section 4.4), 50 requests every 5 minutes give rates and lengths. For scores,
// 5 % of the requests go through all models.
//
//   DriftSampler sampler(models, {});
//   if (sampler.OnArrival(id, prompt, now)) { ... }   // send this request through all models, and report OnScore
//   sampler.OnFinished(id, output);
//   if (sampler.Ready(now)) {                         // pass the window to a slow thread:
//     DriftReport report = monitor.Add(sampler.Take(now));
//     if (report.drifted) { plan again from report.recent; monitor.Rebase(report.recent); }
//   }
//
// docs/howto/drift.md describes the detected changes and the delay until detection.
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
  double false_alarms = 1e-3;  // maximum share of windows in which some test gives a false alarm
  int requests = 50;  // number of successive requests in a window
  Duration period = std::chrono::minutes(5);  // time between the starts of two windows, and maximum length of a window
  double score_share = 0.05;  // share of requests that go through all models
  int reference_requests = 500;  // number of requests up to which windows without an alarm join the reference
  int most_windows = 8;  // maximum windows per test: each window is tested alone and with the previous 1, 3, 7, ...
  std::uint64_t seed = 1;  // seed of the choice of requests for scores

  // Returns InvalidArgument with the name and value of every invalid field.
  absl::Status Validate() const;
};

// Observations of a workload, from one window or several merged ones.
struct WorkloadSample {
  std::vector<double> gaps = {};  // times between successive arrivals [s]
  double open_s = 0;  // time without an arrival at the end, if time closed the window [s]
  std::vector<double> prompts = {};  // prompt lengths [tokens]
  std::vector<double> outputs = {};  // output lengths [tokens]
  std::vector<std::vector<double>> scores = {};  // scores by model
  std::int64_t outputs_missing = 0;  // number of unfinished requests, which are not in `outputs`
  std::int64_t scores_missing = 0;  // number of ignored scores, which were not finite

  std::int64_t requests() const { return static_cast<std::int64_t>(prompts.size()); }
  double rate() const;  // requests/s; 0 if no time passed
  void Merge(const WorkloadSample& other);
};

enum class DriftFeature : std::uint8_t { kRate, kPrompt, kOutput, kScore };
constexpr auto NamesOf(DriftFeature) { return std::to_array<std::string_view>({"rate", "prompt", "output", "score"}); }

struct DriftSign {
  DriftFeature feature = DriftFeature::kRate;
  int model = 0;  // model of the score
  int windows = 1;  // number of newest windows that were tested together
  double p = 1;  // p-value of the test, below DriftReport::threshold
  double before = 0;  // rate or mean in the reference
  double after = 0;
};

struct DriftReport {
  bool drifted = false;
  std::vector<DriftSign> signs = {};  // signs in order of rising p, at most one per feature and model
  double threshold = 0;  // p-value below which a single test shows a change
  int tests = 0;
  WorkloadSample recent = {};  // windows of the first sign, for the new plan; set after a drift
};

// Compares the newest windows (oldest first) with a reference. Pure.
//
// - Arrivals: an F test on the ratio of mean gaps. Its degrees of freedom assume gamma-distributed gaps. Their squared
//   coefficient of variation is the largest of 1 and the values of both samples.
// - Lengths and scores: Mann-Whitney tests for a shift, Kolmogorov-Smirnov for other differences.
//
// The rate of false alarms is divided evenly among all possible tests (Bonferroni). If requests are independent and
// follow the reference's distribution, at most this share of windows has a false alarm.
DriftReport DetectDrift(const WorkloadSample& reference, std::span<const WorkloadSample> recent,
                        const DriftOptions& options);

// Keeps the reference and the newest windows. It allocates, so call it outside the step path. Thread-compatible.
class DriftMonitor {
 public:
  // Expects valid options. Without a reference, the first windows become the reference.
  explicit DriftMonitor(DriftOptions options, WorkloadSample reference = {})
      : options_(options), reference_(std::move(reference)) {}

  DriftReport Add(WorkloadSample window);

  // Replaces the reference after a new plan.
  void Rebase(WorkloadSample reference);

  const WorkloadSample& reference() const { return reference_; }

 private:
  DriftOptions options_;
  WorkloadSample reference_;
  std::vector<WorkloadSample> recent_;  // oldest first
};

// Observes arrivals, ends and scores, in a few operations per event. Only Take allocates. Thread-compatible.
class DriftSampler {
 public:
  // Expects valid options.
  DriftSampler(int models, DriftOptions options);

  // Returns true if the request must go through all models. The choice depends on the request's id alone.
  bool OnArrival(RequestId request, Tokens prompt, TimePoint now);

  // Reports that the request has its whole answer. Unknown requests are ignored.
  void OnFinished(RequestId request, Tokens output);

  // Reports a judge's score of a model's answer to a chosen request. A score that is not finite counts as missing.
  void OnScore(int model, double score);

  // Returns true if all requests of the window have arrived and finished, or the window's time is over.
  bool Ready(TimePoint now) const { return begun_ && ((full() && unfinished_ == 0) || now >= After(begin_, period_)); }
  // Returns the time at which Ready will return true at the latest.
  TimePoint wake_at() const { return begun_ ? After(begin_, period_) : kNever; }

  // Returns the window. The next one begins at the next multiple of the period.
  WorkloadSample Take(TimePoint now);

 private:
  bool full() const { return arrivals_.size() == wanted_; }
  void Begin(TimePoint at);

  std::size_t wanted_;
  Duration period_;
  std::uint64_t seed_;
  std::uint64_t chosen_below_;  // probability of a choice, times 2^64
  bool begun_ = false;
  TimePoint begin_{};  // beginning of the window
  std::vector<TimePoint> arrivals_;
  std::vector<double> prompts_;
  std::vector<double> outputs_;  // output lengths by order of arrival; below 0: not finished
  std::size_t unfinished_ = 0;
  IdMap index_;  // index of each unfinished request
  std::vector<std::uint64_t> ids_;
  std::vector<std::vector<double>> scores_;
  std::int64_t scores_missing_ = 0;
};

}  // namespace takt

#endif  // TAKT_PLANNING_DRIFT_H_
