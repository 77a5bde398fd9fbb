#include "metrics_text.h"

#include <string>

#include "takt/metrics/metrics_text.h"

namespace serving {

std::string MetricsText(std::string_view program, std::string_view model, const ServiceReport& report,
                        const std::map<int, std::int64_t>& responses) {
  takt::MetricsText text(takt::NameStyle::kVllm, {{"model_name", model}, {"engine", "0"}});
  text.Write(report.scheduler);
  text.Write(report.requests);
  takt::Exposition& out = text.out();
  const auto begin = [&](std::string_view name, std::string_view help) {
    out.Begin(std::string(program).append("_").append(name), takt::MetricType::kCounter, help);
  };
  const auto counter = [&](std::string_view name, std::string_view help, auto value) {
    begin(name, help);
    out.Sample(value);
  };
  const EngineCounters& c = report.counters;
  counter("steps_total", "steps computed", c.steps);
  counter("steps_lost_total", "steps that computed nothing", c.steps_lost);
  counter("moves_lost_total", "copies of KV that failed", c.moves_lost);
  counter("moves_out_total", "copies of KV to host memory", c.swapped_out);
  counter("tokens_computed_total", "tokens computed, prompts and outputs", c.rows);
  counter("computing_seconds_total", "time spent in the model", takt::ToSeconds(c.computing));
  counter("scheduling_seconds_total", "time spent in Plan and Commit", takt::ToSeconds(c.scheduling));
  begin("http_responses_total", "answers by status");
  for (const auto& [status, count] : responses) out.Sample(count, {{"status", std::to_string(status)}});
  return text.text();
}

}  // namespace serving
