// All metrics of a scheduler or a router as text for Prometheus. docs/reference/metrics.md lists them.
#ifndef TAKT_METRICS_METRICS_TEXT_H_
#define TAKT_METRICS_METRICS_TEXT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "takt/kv/kv_use.h"
#include "takt/metrics/exposition.h"
#include "takt/metrics/request_metrics.h"
#include "takt/model/step.h"
#include "takt/router/stats.h"
#include "takt/scheduler/explanation.h"
#include "takt/state/instance_state.h"
#include "takt/state/stats.h"

namespace takt {

// Names of metrics whose meaning another program shares, so that its boards show takt. Inside vLLM, use kTakt.
enum class NameStyle : std::uint8_t { kTakt, kVllm, kLlmD };
constexpr auto NamesOf(NameStyle) { return std::to_array<std::string_view>({"takt", "vllm", "llm_d"}); }

// X(metric, type, name, vLLM's name, llm-d's name, unit, help). An empty name of another program: it has no such
// metric.
#define TAKT_METRICS(X)                                                                                                \
  X(kWaiting, kGauge, "takt_requests_waiting", "vllm:num_requests_waiting", "llm_d_epp_flow_control_queue_size",       \
    "requests", "requests without a row or an instance, except those in a tool call")                                  \
  X(kWaitingBy, kGauge, "takt_requests_waiting_by_reason", "", "", "requests",                                         \
    "requests without a row by the reason of Explain, with those in tool calls and moves")                             \
  X(kRunning, kGauge, "takt_requests_running", "vllm:num_requests_running", "llm_d_epp_request_running", "requests",   \
    "requests with a row or an instance")                                                                              \
  X(kPaused, kGauge, "takt_requests_paused", "", "", "requests", "requests in a tool call")                            \
  X(kKvShare, kGauge, "takt_kv_share", "vllm:kv_cache_usage_perc", "llm_d_epp_average_kv_cache_utilization", "share",  \
    "share of the KV cache that requests use, 0 to 1")                                                                 \
  X(kKvBlocks, kGauge, "takt_kv_blocks", "", "", "blocks", "blocks of the KV cache")                                   \
  X(kKvUsed, kGauge, "takt_kv_blocks_used", "", "", "blocks", "blocks held by requests")                               \
  X(kCpuUsed, kGauge, "takt_cpu_blocks_used", "", "", "blocks", "blocks of KV in host memory")                         \
  X(kReady, kGauge, "takt_instances_ready", "", "llm_d_epp_ready_endpoints", "instances", "instances that are up")     \
  X(kArrived, kCounter, "takt_requests_arrived_total", "", "llm_d_epp_request_total", "requests",                      \
    "accepted requests by class")                                                                                      \
  X(kEnded, kCounter, "takt_requests_ended_total", "", "", "requests", "ended and refused requests by reason")         \
  X(kUnmeasured, kCounter, "takt_requests_unmeasured_total", "", "", "requests",                                       \
    "requests beyond max_requests, without histograms")                                                                \
  X(kQueueTime, kHistogram, "takt_request_queue_time_seconds", "vllm:request_queue_time_seconds",                      \
    "llm_d_epp_flow_control_request_queue_duration_seconds", "s", "time from arrival to the first row or instance")    \
  X(kFirstToken, kHistogram, "takt_time_to_first_token_seconds", "vllm:time_to_first_token_seconds", "", "s",          \
    "time from arrival to the first output token")                                                                     \
  X(kPerToken, kHistogram, "takt_request_time_per_output_token_seconds", "vllm:request_time_per_output_token_seconds", \
    "", "s", "mean time per output token of a request after the first, without tool calls")                            \
  X(kEndToEnd, kHistogram, "takt_e2e_request_latency_seconds", "vllm:e2e_request_latency_seconds",                     \
    "llm_d_epp_request_duration_seconds", "s", "time from arrival to the end of a finished request")                   \
  X(kPreemptions, kHistogram, "takt_request_num_preemptions", "vllm:request_num_preemptions", "", "preemptions",       \
    "preemptions of a finished request")                                                                               \
  X(kRecomputed, kHistogram, "takt_request_recomputed_tokens", "", "", "tokens",                                       \
    "context tokens of a finished request that were computed again")                                                   \
  X(kClear, kGauge, "takt_seconds_to_clear", "", "", "s",                                                              \
    "time until the waiting requests have rows at the present drain rate; at most 3600")                               \
  X(kBacklog, kGauge, "takt_backlog_tokens", "", "", "tokens", "context tokens of the waiting requests")               \
  X(kDrain, kGauge, "takt_drain_tokens_per_second", "", "", "tokens/s", "rate at which waiting tokens get rows")       \
  X(kLate, kGauge, "takt_late_share", "", "", "share",                                                                 \
    "share of ended requests with a deadline or an expiry that were late, 0 to 1")

enum class MetricId : std::uint8_t {
#define TAKT_METRIC_ID(id, type, name, vllm, llm_d, unit, help) id,
  TAKT_METRICS(TAKT_METRIC_ID)
#undef TAKT_METRIC_ID
};

struct MetricEntry {
  MetricId id;
  MetricType type;
  std::array<std::string_view, 3> names;  // by NameStyle; empty: as in takt's style
  std::string_view unit, help;

  constexpr std::string_view NameIn(NameStyle style) const {
    const std::string_view name = names[static_cast<std::size_t>(style)];
    return name.empty() ? names[0] : name;
  }
};
#define TAKT_METRIC_ENTRY(id, type, name, vllm, llm_d, unit, help) \
  MetricEntry{MetricId::id, MetricType::type, {name, vllm, llm_d}, unit, help},
inline constexpr auto kMetrics = std::to_array<MetricEntry>({TAKT_METRICS(TAKT_METRIC_ENTRY)});
#undef TAKT_METRIC_ENTRY

// Figures of requests, copied so that another thread can write the text.
struct RequestFigures {
  Saturation saturation;
  std::vector<ClassFigures> classes;
  std::string_view label = Name(ClassBy::kPriority);
  std::int64_t unmeasured = 0;
};
inline RequestFigures FiguresOf(RequestMetrics& metrics, TimePoint now, double kv_share) {
  const auto classes = metrics.classes();
  return {
      metrics.Read(now, kv_share), {classes.begin(), classes.end()}, Name(metrics.options().by), metrics.unmeasured()};
}

// Returns the share of the KV cache in use; 0: unknown.
constexpr double KvShare(const KvUse& kv) {
  return kv.total.value > 0 ? static_cast<double>(kv.used.value) / kv.total.value : 0;
}
// Returns the same over the instances that report it.
inline double KvShare(std::span<const InstanceState> instances) {
  double used = 0, total = 0;
  for (const InstanceState& i : instances) {
    if (i.instance.kv_tokens.value <= 0 || !i.reported) continue;
    used += i.report.kv_used.value, total += i.instance.kv_tokens.value;
  }
  return total > 0 ? used / total : 0;
}

// Gauges and counters of a scheduler at one time.
struct SchedulerFigures {
  Stats stats;
  KvUse kv;
  std::int64_t waiting = 0, running = 0, paused = 0, blocked = 0;
  WaitingCounts by_reason;
};
template <class Scheduler>
SchedulerFigures FiguresOf(const Scheduler& s) {
  return {s.stats(), s.kv(), s.waiting(), s.running(), s.paused(), s.blocked(), s.WaitingByReason()};
}

// Gauges and counters of a router at one time.
struct RouterFigures {
  RouterStats stats;
  std::int64_t waiting = 0, placed = 0, instances = 0;
  double kv_share = 0;
};
template <class Router>
RouterFigures FiguresOfRouter(const Router& r) {
  return {r.stats(), r.waiting(), r.alive() - r.waiting(), static_cast<std::int64_t>(r.instances().size()),
          KvShare(r.instances())};
}

// Writes the metrics of one scheduler or router. Each function begins each of its metrics once.
class MetricsText {
 public:
  // `shared`: labels of all samples. vLLM's boards select by model_name.
  explicit MetricsText(NameStyle style, std::initializer_list<Exposition::Label> shared = {})
      : style_(style), out_(shared) {}

  void Write(const SchedulerFigures& f) {
    Gauge(MetricId::kWaiting, f.waiting + f.blocked);
    Begin(MetricId::kWaitingBy);
    const auto reasons = NamesOf(WaitsFor{});
    for (std::size_t i = 1; i < reasons.size(); ++i) out_.Sample(f.by_reason.of[i], {{"reason", reasons[i]}});
    Gauge(MetricId::kRunning, f.running);
    Gauge(MetricId::kPaused, f.paused);
    Gauge(MetricId::kKvShare, KvShare(f.kv));
    Gauge(MetricId::kKvBlocks, f.kv.total.value);
    Gauge(MetricId::kKvUsed, f.kv.used.value);
    Gauge(MetricId::kCpuUsed, f.kv.cpu_used.value);
#define TAKT_WRITE_STAT(name, text) Counter("takt_" #name "_total", text, f.stats.name);
    TAKT_STATS(TAKT_WRITE_STAT)
#undef TAKT_WRITE_STAT
    if (style_ != NameStyle::kVllm) return;
    // Sums that vLLM's boards read.
    Counter("vllm:num_preemptions_total", "preemptions", f.stats.preempted_recompute + f.stats.preempted_swap);
    Counter("vllm:generation_tokens_total", "output tokens, over all sequences", f.stats.tokens_output);
  }

  void Write(const RouterFigures& f) {
    Gauge(MetricId::kWaiting, f.waiting);
    Gauge(MetricId::kRunning, f.placed);
    Gauge(MetricId::kReady, f.instances);
    Gauge(MetricId::kKvShare, f.kv_share);
#define TAKT_WRITE_STAT(name, text) Counter("takt_router_" #name "_total", text, f.stats.name);
    TAKT_ROUTER_STATS(TAKT_WRITE_STAT)
#undef TAKT_WRITE_STAT
  }

  // `first_token`: the observed object sees first tokens, as a scheduler does. A router sees none.
  void Write(const RequestFigures& f, bool first_token = true) {
    ByClass(f, MetricId::kArrived, [](const ClassFigures& c) { return c.arrived; });
    Begin(MetricId::kEnded);
    const auto reasons = NamesOf(TransitionReason{});
    for (const ClassFigures& c : f.classes) {
      for (std::size_t i = 0; i < reasons.size(); ++i) {
        const bool always = i == static_cast<std::size_t>(TransitionReason::kFinished) && Shown(f, c);
        if (always || c.ended[i] > 0) out_.Sample(c.ended[i], {{f.label, c.label}, {"reason", reasons[i]}});
      }
    }
    Begin(MetricId::kUnmeasured);
    out_.Sample(f.unmeasured);
    Histogram(f, MetricId::kQueueTime, &ClassFigures::queue_s);
    if (first_token) {
      Histogram(f, MetricId::kFirstToken, &ClassFigures::first_token_s);
      Histogram(f, MetricId::kPerToken, &ClassFigures::token_s);
      Histogram(f, MetricId::kPreemptions, &ClassFigures::preemptions);
      Histogram(f, MetricId::kRecomputed, &ClassFigures::recomputed);
    }
    Histogram(f, MetricId::kEndToEnd, &ClassFigures::end_to_end_s);
    const Saturation& s = f.saturation;
    Gauge(MetricId::kClear, s.seconds_to_clear);
    Gauge(MetricId::kBacklog, s.backlog_tokens);
    Gauge(MetricId::kDrain, s.drain_tokens_per_s);
    Gauge(MetricId::kLate, s.late_share);
  }

  // For metrics of the host.
  Exposition& out() { return out_; }
  const std::string& text() const { return out_.text(); }

 private:
  void Begin(MetricId id) {
    const MetricEntry& entry = kMetrics[static_cast<std::size_t>(id)];
    out_.Begin(entry.NameIn(style_), entry.type, entry.help);
  }
  template <class T>
  void Gauge(MetricId id, T value) {
    Begin(id);
    out_.Sample(value);
  }
  void Counter(std::string_view name, std::string_view help, std::uint64_t value) {
    out_.Begin(name, MetricType::kCounter, help);
    out_.Sample(value);
  }
  // Without requests, only the first class is shown, so that every metric has a sample.
  static bool Shown(const RequestFigures& f, const ClassFigures& c) {
    const auto seen = [](const ClassFigures& of) {
      return of.arrived > 0 || std::ranges::any_of(of.ended, [](std::int64_t n) { return n > 0; });
    };
    return seen(c) || (&c == f.classes.data() && std::ranges::none_of(f.classes, seen));
  }
  template <class Value>
  void ByClass(const RequestFigures& f, MetricId id, Value&& value) {
    Begin(id);
    for (const ClassFigures& c : f.classes) {
      if (Shown(f, c)) out_.Sample(value(c), {{f.label, c.label}});
    }
  }
  void Histogram(const RequestFigures& f, MetricId id, HalfOctaves ClassFigures::* of) {
    Begin(id);
    for (const ClassFigures& c : f.classes) {
      if (Shown(f, c)) out_.Histogram(c.*of, {{f.label, c.label}});
    }
  }

  NameStyle style_;
  Exposition out_;
};

}  // namespace takt

#endif  // TAKT_METRICS_METRICS_TEXT_H_
