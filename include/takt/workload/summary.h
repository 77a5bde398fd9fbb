// What is in a workload.
#ifndef TAKT_WORKLOAD_SUMMARY_H_
#define TAKT_WORKLOAD_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "takt/numeric/summary.h"
#include "takt/workload/workload.h"

namespace takt {

struct StageSummary {
  std::string stage;
  std::int64_t calls = 0;
  double mean_prompt_tokens = 0;
  double mean_output_tokens = 0;
};

struct WorkloadSummary {
  std::int64_t workflows = 0;
  std::int64_t calls = 0;
  std::int64_t tools = 0;
  std::int64_t tenants = 0;       // distinct, those without one not counted
  double span_s = 0;              // from the first arrival to the last
  double rate = 0;                // workflows per second over the span; 0 where there is none
  double gap_cv = 0;              // coefficient of variation of the times between arrivals of workflows
  Summary prompt_tokens;          // per call
  Summary output_tokens;          // per call
  Summary calls_per_workflow;
  Summary workflow_output_tokens;  // per workflow, over all its calls
  Summary tool_s;                  // duration per tool call
  std::vector<StageSummary> stages;  // in the order of first use; one without a name where there are no stages
  std::int64_t prefix_blocks = 0;    // that calls name
  std::int64_t distinct_prefix_blocks = 0;
  double prefix_hit_share = 0;  // of prefix_blocks: leading blocks that an earlier call has named, an upper bound for
                                // any cache (an infinite one; calls in the order of arrival)
};

WorkloadSummary Summarise(const Workload& workload);

}  // namespace takt

#endif  // TAKT_WORKLOAD_SUMMARY_H_
