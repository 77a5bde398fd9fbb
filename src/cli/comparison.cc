#include "cli/comparison.h"

#include "fmt/format.h"
#include "takt/base/time.h"

namespace takt::cli {

double OfferedRps(const Workload& workload) {
  if (workload.workflows.size() < 2) return 0;
  const WorkloadWorkflow& last = workload.workflows.back();
  const double span = ToSeconds(last.arrival - workload.workflows.front().arrival);
  return span > 0 ? static_cast<double>(workload.calls.size() - last.calls) / span : 0;
}

std::string LabelOf(const Comparison& comparison, const Run& run) {
  const std::string& policy = run.settings.policy;
  return comparison.several_estimates() ? fmt::format("{}, {}", policy, run.settings.estimates.ToString()) : policy;
}

}  // namespace takt::cli
