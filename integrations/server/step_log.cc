#include "step_log.h"

#include <bit>
#include <numeric>

#include "tool/report/json_writer.h"
#include "tool/report/table.h"
#include "fmt/format.h"
#include "takt/numeric/quantile.h"
#include "takt/sim/step_log.h"

namespace serving {
namespace {

double Median(std::vector<double> values) { return takt::Quantile(values, 0.5); }

void Append(std::vector<double>& to, const std::vector<double>& from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

std::string StepLine(const StepReport& report, takt::Duration between) {
  return takt::StepLogLine(report.plan, report.begin, report.end, between) + "\n";
}

std::string RequestLine(const RequestReport& report) {
  takt::tool::JsonWriter json(0);
  json.BeginObject()
      .Field("request", report.id.value)
      .Field("arrival_s", takt::ToSeconds(report.arrival.time_since_epoch()));
  json.Field("prompt_tokens", report.prompt_tokens).Field("output_tokens", report.output_tokens);
  json.Key("first_token_s");
  if (report.first_token == takt::kNever) json.Null();
  else json.Value(takt::ToSeconds(report.first_token.time_since_epoch()));
  json.Field("end_s", takt::ToSeconds(report.end.time_since_epoch()));
  const bool completed = report.outcome == End::kLength || report.outcome == End::kEndToken;
  json.Field("outcome", completed ? "completed" : report.outcome == End::kCancelled ? "cancelled" : "failed");
  return json.EndObject().Take() + "\n";
}

void StepTimes::Add(const StepReport& report) {
  Times& times = by_requests_[report.plan.run.size()];
  times.step_s.push_back(takt::ToSeconds(report.end - report.begin));
  times.plan_s.push_back(takt::ToSeconds(report.scheduling));
}

std::string StepTimes::Table() const {
  takt::tool::Table table({{"", "requests", false},
                           {"", "steps"},
                           {"step [ms]", "median"},
                           {"Plan + Commit [us]", "median"},
                           {"Plan + Commit [us]", "p99"},
                           {"of all time", "%"}});
  for (auto at = by_requests_.upper_bound(0); at != by_requests_.end();) {
    const std::size_t last = std::bit_ceil(at->first), first = last / 2 + 1;
    Times all;
    for (; at != by_requests_.end() && at->first <= last; ++at) {
      Append(all.step_s, at->second.step_s);
      Append(all.plan_s, at->second.plan_s);
    }
    const double step_s = std::accumulate(all.step_s.begin(), all.step_s.end(), 0.0);
    const double plan_s = std::accumulate(all.plan_s.begin(), all.plan_s.end(), 0.0);
    table.BeginRow();
    table.Text(first == last ? fmt::format("{}", last) : fmt::format("{} to {}", first, last));
    table.Number(static_cast<double>(all.step_s.size()));
    table.Number(Median(all.step_s) * 1e3);
    table.Number(Median(all.plan_s) * 1e6);
    table.Number(takt::Quantile(all.plan_s, 0.99) * 1e6);
    table.Number(plan_s / (plan_s + step_s) * 100);
  }
  return table.ToString();
}

StepTimes::Peak StepTimes::peak() const {
  Peak peak;
  if (by_requests_.empty()) return peak;
  peak.requests = by_requests_.rbegin()->first;
  Times all;
  for (auto at = by_requests_.lower_bound(peak.requests - peak.requests / 10); at != by_requests_.end(); ++at) {
    Append(all.step_s, at->second.step_s);
    Append(all.plan_s, at->second.plan_s);
  }
  peak.step_s = Median(all.step_s);
  peak.plan_s = Median(all.plan_s);
  return peak;
}

}  // namespace serving
