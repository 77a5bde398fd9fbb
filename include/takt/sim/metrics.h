// What a run did: one record a request, one a workflow, and what they come to.
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
  kPending,    // had not ended when the run was stopped
  kCompleted,
  kFailed,     // the scheduler named it; `reason` says why
  kNeverMade,  // a predecessor failed, so that this call was never made
};

// Times that never came are kNever.
struct RequestRecord {
  TimePoint arrival = kNever;
  TimePoint first_step = kNever;   // start of the first step that ran it
  TimePoint first_token = kNever;  // end of the step that yielded it
  TimePoint end = kNever;
  std::uint32_t workflow = 0;      // index into Workload::workflows
  std::int32_t output_tokens = 0;  // so far
  std::int32_t preemptions = 0;
  std::int32_t recomputed_tokens = 0;  // computed again after their KV was dropped
  std::int32_t cached_tokens = 0;      // of the prompt, found in the prefix cache when it was first admitted
  std::uint16_t instance = 0;
  bool gated = false;  // a gate kept it out before its first step, or keeps it out at the end of the run
  Outcome outcome = Outcome::kPending;
  FailReason reason = FailReason::kInvalid;

  friend constexpr bool operator==(const RequestRecord&, const RequestRecord&) = default;
};
static_assert(sizeof(RequestRecord) <= 64);

struct WorkflowRecord {
  TimePoint arrival = kNever;
  TimePoint end = kNever;  // of its last call
  Outcome outcome = Outcome::kPending;  // kFailed where any of its calls did

  friend constexpr bool operator==(const WorkflowRecord&, const WorkflowRecord&) = default;
};

// The state of an engine, or of several together, at one moment.
struct SeriesPoint {
  TimePoint time{};
  std::int64_t waiting = 0;
  std::int64_t running = 0;
  std::int64_t kv_blocks = 0;

  friend constexpr bool operator==(const SeriesPoint&, const SeriesPoint&) = default;
};

// Keeps at most `limit` points of a series of any length: every point at first, then one per interval, which
// doubles whenever the series is full.
class Series {
 public:
  static constexpr std::size_t kDefaultLimit = 2000;

  explicit Series(std::size_t limit = kDefaultLimit) : limit_(limit < 2 ? 2 : limit) {}

  bool due(TimePoint now) const { return now >= next_; }
  void Add(const SeriesPoint& point);  // where due, in the order of time

  const std::vector<SeriesPoint>& points() const { return points_; }

 private:
  std::size_t limit_;
  Duration interval_{1'000'000};
  TimePoint next_ = TimePoint::min();
  std::vector<SeriesPoint> points_;
};

// Mean over time, and peak, of a quantity that changes in steps.
class TimeMean {
 public:
  // From `now` on the value is `value`; earlier times are taken as the latest.
  void Set(TimePoint now, double value);

  double mean() const { return span_ > 0 ? sum_ / span_ : value_; }
  double peak() const { return peak_; }

 private:
  bool started_ = false;
  TimePoint since_{};
  double value_ = 0, sum_ = 0, span_ = 0, peak_ = 0;
};

// What counts as served well: first token within `ttft`, then `tpot` a token on average.
struct SloTarget {
  Duration ttft = std::chrono::seconds(2);
  Duration tpot = std::chrono::milliseconds(100);

  friend constexpr bool operator==(const SloTarget&, const SloTarget&) = default;
};

// A part of a run, whose beginning found everything cold.
struct Window {
  TimePoint from{}, until{};

  constexpr bool contains(TimePoint time) const { return from <= time && time <= until; }

  friend constexpr bool operator==(const Window&, const Window&) = default;
};

// How sessions fared, in a window.
struct SessionFigures {
  std::int64_t turns = 0, sessions = 0;  // that were completed in it
  // Of the turns that began to be computed in it:
  double cached_share = 0;    // of their prompts' tokens, found in the cache
  double prefill_excess = 0;  // seconds of prefill over those that a cache which forgets nothing would have left
  double moved_share = 0;     // of those that follow another turn: on another instance than that
  Summary gate_wait;          // s, of turns that were kept waiting by a gate

  friend bool operator==(const SessionFigures&, const SessionFigures&) = default;
};

// Seconds unless a name says otherwise. Latencies are over completed requests (workflows) only; the counts say how
// many there are.
struct Metrics {
  std::int64_t requests = 0, completed = 0, failed = 0, never_made = 0, pending = 0;
  std::int64_t workflows = 0, workflows_completed = 0;

  Summary queue;      // arrival to first step
  Summary ttft;       // arrival to first token
  Summary tpot;       // (end - first token) / (output - 1), outputs above 1
  Summary e2e;        // arrival to end
  Summary workflow;   // arrival of the workflow to the end of its last call
  Summary per_token;  // e2e / output tokens
  Summary workflow_per_token;  // workflow / output tokens of all its calls
  Summary slowdown;   // e2e / the same alone on an empty engine
  Summary workflow_slowdown;

  double makespan = 0;            // first arrival to last end
  double throughput_rps = 0;      // completed requests per second of makespan
  double throughput_tokens = 0;   // output tokens per second of makespan
  double goodput_rps = 0;         // completed within the SLO, per second of makespan
  double slo_attainment = 0;      // the same as a share of all requests
  // Smallest multiple of its own latency alone within which 95 % of all workflows complete; infinite where more than
  // 5 % do not complete. (HexGen-Flow's "SLO scale at 95 %".)
  double slo_scale_95 = 0;
  double max_slowdown = 0;        // of a request
  std::optional<double> score;    // share of workflows that were solved; where the workload tells what models solve
  std::optional<SessionFigures> sessions;  // where the workload has sessions
  std::optional<double> regret;   // mean e2e / that of the order by exact size; for callers that ran both

  std::int64_t preemptions = 0, recomputed_tokens = 0, cached_tokens = 0, output_tokens = 0;
  double kv_mean = 0, kv_peak = 0;  // share of the KV cache in use, over time
};

// The latencies that the requests and workflows of a run would have alone on an empty engine.
struct IsolatedLatencies {
  std::vector<Duration> requests, workflows;
};

// `isolated` may be empty: then nothing is said about slowdowns. KV use is left to the caller. With a window, all but
// the makespan is over requests and workflows that arrived in it, `makespan` is its length, and the time to the first
// token is also over requests that still wait at its end: they count as long as they have waited.
Metrics Summarize(std::span<const RequestRecord> requests, std::span<const WorkflowRecord> workflows,
                  const IsolatedLatencies& isolated, const SloTarget& slo, const std::optional<Window>& window = {});

}  // namespace takt

#endif  // TAKT_SIM_METRICS_H_
