// Statistics of a workload.
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
  std::int64_t tenants = 0;  // distinct tenants
  double span_s = 0;  // time from the first to the last arrival
  double rate = 0;  // workflows per second of `span_s`; 0 if the span is 0
  double gap_cv = 0;  // coefficient of variation of the gaps between workflow arrivals
  Summary prompt_tokens;  // prompt tokens per call
  Summary output_tokens;  // output tokens per call
  Summary calls_per_workflow;
  Summary workflow_output_tokens;  // output tokens per workflow
  Summary tool_s;  // duration of a tool call [s]
  std::vector<StageSummary> stages;  // per stage, in order of first use; without stages, one entry without a name
  std::int64_t prefix_blocks = 0;  // prefix blocks, summed over calls
  std::int64_t distinct_prefix_blocks = 0;
  // hit rate of an infinite cache, in order of arrival: share of prefix_blocks that an earlier call contains
  double prefix_hit_share = 0;
};

WorkloadSummary Summarise(const Workload& workload);

}  // namespace takt

#endif  // TAKT_WORKLOAD_SUMMARY_H_
