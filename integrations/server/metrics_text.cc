#include "metrics_text.h"

#include <iterator>
#include <string_view>

#include "fmt/format.h"

namespace serving {
namespace {

class Writer {
 public:
  template <class T>
  void Metric(std::string_view name, std::string_view type, std::string_view help, T value) {
    Head(name, type, help);
    Add("{} {}\n", name, value);
  }

  void Histogram(std::string_view name, std::string_view help, const takt::LogHistogram& values, double sum) {
    Head(name, "histogram", help);
    std::int64_t below = 0;
    const auto counts = values.counts();
    for (std::size_t i = 0; i < counts.size(); ++i) {
      below += counts[i];
      if (i + 1 < counts.size()) Add("{}_bucket{{le=\"{:.4g}\"}} {}\n", name, values.edge(i + 1), below);
    }
    Add("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name, below, sum);
  }

  void Head(std::string_view name, std::string_view type, std::string_view help) {
    Add("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  template <class... T>
  void Add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string MetricsText(std::string_view program, const ServiceReport& report,
                        const std::map<int, std::int64_t>& responses) {
  Writer w;
#define TAKT_WRITE_METRIC(name, text) w.Metric("takt_" #name "_total", "counter", text, report.stats.name);
  TAKT_STATS(TAKT_WRITE_METRIC)
#undef TAKT_WRITE_METRIC
  w.Metric("takt_waiting", "gauge", "waiting requests", report.waiting);
  w.Metric("takt_running", "gauge", "running requests", report.running);
  w.Metric("takt_kv_blocks", "gauge", "blocks of the KV cache", report.kv.total.value);
  w.Metric("takt_kv_blocks_used", "gauge", "blocks held by requests", report.kv.used.value);
  w.Metric("takt_cpu_blocks_used", "gauge", "blocks of KV in host memory", report.kv.cpu_used.value);
  const EngineCounters& c = report.counters;
  const auto named = [&](std::string_view name) { return fmt::format("{}_{}", program, name); };
  w.Metric(named("steps_total"), "counter", "steps computed", c.steps);
  w.Metric(named("steps_lost_total"), "counter", "steps that computed nothing", c.steps_lost);
  w.Metric(named("moves_lost_total"), "counter", "copies of KV that failed", c.moves_lost);
  w.Metric(named("moves_out_total"), "counter", "copies of KV to host memory", c.swapped_out);
  w.Metric(named("tokens_computed_total"), "counter", "tokens computed, prompts and outputs", c.rows);
  w.Metric(named("computing_seconds_total"), "counter", "time spent in the model", takt::ToSeconds(c.computing));
  w.Metric(named("scheduling_seconds_total"), "counter", "time spent in Plan and Commit",
           takt::ToSeconds(c.scheduling));
  w.Histogram(named("first_token_seconds"), "time from arrival to first token", report.ttft, report.ttft_sum);
  w.Histogram(named("request_seconds"), "time from arrival to last token", report.e2e, report.e2e_sum);
  const std::string responses_total = named("http_responses_total");
  w.Head(responses_total, "counter", "answers by status");
  for (const auto& [status, count] : responses) w.Add("{}{{status=\"{}\"}} {}\n", responses_total, status, count);
  return w.Take();
}

}  // namespace serving
