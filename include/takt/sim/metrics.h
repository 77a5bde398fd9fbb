// Results of a run: records per request and workflow, and their summary.
#ifndef TAKT_SIM_METRICS_H_
#define TAKT_SIM_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "takt/base/time.h"
#include "takt/model/step.h"
#include "takt/numeric/summary.h"

namespace takt {

enum class Outcome : std::uint8_t {
  kPending,  // the request was not finished when the run was stopped
  kCompleted,
  kFailed,  // the scheduler failed the request because of `reason`
  kNeverMade,  // the call was not made because a predecessor failed
};

// Times of events that did not happen are kNever.
struct RequestRecord {
  TimePoint arrival = kNever;
  TimePoint first_step = kNever;  // start of the request's first step
  TimePoint first_token = kNever;  // end of the step that yielded its first token
  TimePoint end = kNever;
  std::uint32_t workflow = 0;      // index into Workload::workflows
  std::int32_t output_tokens = 0;  // output tokens so far
  std::int32_t preemptions = 0;
  std::int32_t recomputed_tokens = 0;  // tokens recomputed after a preemption
  std::int32_t cached_tokens = 0;  // prompt tokens found in the prefix cache at the first admission
  std::uint16_t instance = 0;
  bool gated = false;  // true: a gate kept the request out before its first step, or still does at the end of the run
  Outcome outcome = Outcome::kPending;
  FailReason reason = FailReason::kInvalid;

  friend constexpr bool operator==(const RequestRecord&, const RequestRecord&) = default;
};
static_assert(sizeof(RequestRecord) <= 64);

struct WorkflowRecord {
  TimePoint arrival = kNever;
  TimePoint end = kNever;  // end of its last call
  Outcome outcome = Outcome::kPending;  // kFailed if any call failed

  friend constexpr bool operator==(const WorkflowRecord&, const WorkflowRecord&) = default;
};

// State of one or several engines at one time.
struct SeriesPoint {
  TimePoint time{};
  std::int64_t waiting = 0;
  std::int64_t running = 0;
  std::int64_t kv_blocks = 0;

  friend constexpr bool operator==(const SeriesPoint&, const SeriesPoint&) = default;
};

// A time series of at most `limit` points. At first it keeps every point, later one per interval. The interval doubles
// whenever the series is full.
class Series {
 public:
  static constexpr std::size_t kDefaultLimit = 2000;

  explicit Series(std::size_t limit = kDefaultLimit) : limit_(limit < 2 ? 2 : limit) {}

  bool due(TimePoint now) const { return now >= next_; }
  void Add(const SeriesPoint& point);  // adds a point that is due, in order of time

  const std::vector<SeriesPoint>& points() const { return points_; }

 private:
  std::size_t limit_;
  Duration interval_{1'000'000};
  TimePoint next_ = TimePoint::min();
  std::vector<SeriesPoint> points_;
};

// Time average and maximum of a step function.
class TimeMean {
 public:
  // Sets the value from `now` on; an earlier time counts as the latest one.
  void Set(TimePoint now, double value);

  double mean() const { return span_ > 0 ? sum_ / span_ : value_; }
  double peak() const { return peak_; }

 private:
  bool started_ = false;
  TimePoint since_{};
  double value_ = 0, sum_ = 0, span_ = 0, peak_ = 0;
};

// The SLO: time to first token of at most `ttft`, then at most `tpot` per token on average.
struct SloTarget {
  Duration ttft = std::chrono::seconds(2);
  Duration tpot = std::chrono::milliseconds(100);

  friend constexpr bool operator==(const SloTarget&, const SloTarget&) = default;
};

// A time window of a run, to exclude its start with cold caches.
struct Window {
  TimePoint from{}, until{};

  constexpr bool contains(TimePoint time) const { return from <= time && time <= until; }

  friend constexpr bool operator==(const Window&, const Window&) = default;
};

// Results of sessions in a window.
struct SessionFigures {
  std::int64_t turns = 0, sessions = 0;  // number of turns and sessions completed in the window
  // Figures of turns whose computation began in the window:
  double cached_share = 0;  // share of prompt tokens found in the cache
  double prefill_excess = 0;  // prefill time beyond that with an infinite cache [s]
  double moved_share = 0;  // share of follow-up turns on another instance than the previous turn
  Summary gate_wait;  // wait of the turns that a gate kept out [s]

  friend bool operator==(const SessionFigures&, const SessionFigures&) = default;
};

// Summary of a run, in seconds unless the name has another unit. Latencies cover only completed requests or workflows,
// whose numbers are given.
struct Metrics {
  std::int64_t requests = 0, completed = 0, failed = 0, never_made = 0, pending = 0;
  std::int64_t workflows = 0, workflows_completed = 0;

  Summary queue;  // time from arrival to first step
  Summary ttft;  // time from arrival to first token
  Summary tpot;  // (end - first token) / (output - 1), if output > 1
  Summary e2e;  // time from arrival to end
  Summary workflow;  // time from the arrival of the workflow to the end of its last call
  Summary per_token;  // e2e / output tokens
  Summary workflow_per_token;  // workflow / output tokens of all its calls
  Summary slowdown;  // e2e / isolated latency on an empty engine
  Summary workflow_slowdown;

  double makespan = 0;  // time from the first arrival to the last end
  double throughput_rps = 0;  // completed requests per second of makespan
  double throughput_tokens = 0;  // output tokens per second of makespan
  double goodput_rps = 0;  // requests completed within the SLO per second of makespan
  double slo_attainment = 0;  // requests completed within the SLO / all requests
  // Smallest f such that 95 % of all workflows complete within f times their isolated latency. Infinite if more
  // than 5 % do not complete. (HexGen-Flow's "SLO scale at 95 %".)
  double slo_scale_95 = 0;
  double max_slowdown = 0;  // largest slowdown of a request
  std::optional<double> score;  // share of solved workflows; set if the workload knows correctness
  std::optional<SessionFigures> sessions;  // set if the workload has sessions
  std::optional<double> cached_share;  // cached share of the prompt tokens of begun requests; set with a prefix cache
  std::optional<double> regret;  // mean e2e / mean e2e of the order by true size; set if the caller ran both

  std::int64_t preemptions = 0, recomputed_tokens = 0, cached_tokens = 0, output_tokens = 0;
  std::int64_t adapter_loads = 0;  // adapters that engines loaded
  double kv_mean = 0, kv_peak = 0;  // mean and maximum used share of the KV cache over time
};

// Latencies of requests and workflows when each runs alone on an empty engine.
struct IsolatedLatencies {
  std::vector<Duration> requests, workflows;
};

// Summarizes a run. If `isolated` is empty, there are no slowdowns. The caller sets KV use. With a window, all fields
// cover requests and workflows that arrived in the window, and `makespan` is its length. TTFT then also includes the
// wait so far of requests that still wait at the window's end.
Metrics Summarize(std::span<const RequestRecord> requests, std::span<const WorkflowRecord> workflows,
                  const IsolatedLatencies& isolated, const SloTarget& slo, const std::optional<Window>& window = {});

}  // namespace takt

#endif  // TAKT_SIM_METRICS_H_
