#include "tool/report/comparison.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "takt/base/time.h"
#include "takt/numeric/quantile.h"

namespace takt::tool {
namespace {

// `seconds` of each record that has both ends.
template <class Records, class From, class To>
Quantiles QuantilesOf(const Records& records, From from, To to) {
  constexpr std::size_t kSteps = 200;
  std::vector<double> seconds;
  for (const auto& record : records) {
    if (record.outcome == Outcome::kCompleted) seconds.push_back(ToSeconds(record.*to - record.*from));
  }
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  Quantiles quantiles;
  for (std::size_t i = 0; i <= kSteps; ++i) {
    quantiles.push_back(QuantileOfSorted(seconds, static_cast<double>(i) / kSteps));
  }
  return quantiles;
}

}  // namespace

double OfferedRps(const Workload& workload) {
  if (workload.workflows.size() < 2) return 0;
  const WorkloadWorkflow& last = workload.workflows.back();
  const double span = ToSeconds(last.arrival - workload.workflows.front().arrival);
  return span > 0 ? static_cast<double>(workload.calls.size() - last.calls) / span : 0;
}

void Keep(ReplayResult result, bool requests, Run& run) {
  run.ended = true;
  run.stopped = result.stopped;
  run.metrics = result.metrics;
  run.errors = result.estimates;
  run.stats = result.stats;
  run.steps = result.steps;
  run.kv_blocks = result.kv_blocks;
  run.series = std::move(result.series);
  for (const RequestRecord& record : result.requests) {
    if (record.outcome == Outcome::kFailed) ++run.failed[static_cast<std::size_t>(record.reason)];
  }
  run.ttft = QuantilesOf(result.requests, &RequestRecord::arrival, &RequestRecord::first_token);
  run.e2e = QuantilesOf(result.requests, &RequestRecord::arrival, &RequestRecord::end);
  run.workflow = QuantilesOf(result.workflows, &WorkflowRecord::arrival, &WorkflowRecord::end);
  if (run.trace) run.trace->Finish(result.requests);
  if (requests) run.requests = std::move(result.requests);
}

std::string LabelOf(const Comparison& comparison, const Run& run) {
  const std::string& policy = run.settings.policy;
  return comparison.several_estimates ? fmt::format("{}, {}", policy, run.settings.estimates.ToString()) : policy;
}

}  // namespace takt::tool
