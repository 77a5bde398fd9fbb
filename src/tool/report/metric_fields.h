// Names of a run's figures in files.
#ifndef TAKT_SRC_TOOL_REPORT_METRIC_FIELDS_H_
#define TAKT_SRC_TOOL_REPORT_METRIC_FIELDS_H_

#include <cstdint>
#include <string_view>

#include "takt/numeric/summary.h"
#include "takt/sim/metrics.h"

namespace takt::tool {

struct CountField {
  std::string_view key;
  std::int64_t Metrics::* member;
};
inline constexpr CountField kRunCounts[] = {
    {"requests", &Metrics::requests},
    {"completed", &Metrics::completed},
    {"failed", &Metrics::failed},
    {"never_made", &Metrics::never_made},
    {"pending", &Metrics::pending},
    {"workflows", &Metrics::workflows},
    {"workflows_completed", &Metrics::workflows_completed},
};

struct SummaryField {
  std::string_view key;
  Summary Metrics::* member;
};
inline constexpr SummaryField kSummaries[] = {
    {"ttft_s", &Metrics::ttft},
    {"e2e_s", &Metrics::e2e},
    {"tpot_s", &Metrics::tpot},
    {"queue_s", &Metrics::queue},
    {"workflow_s", &Metrics::workflow},
    {"per_token_s", &Metrics::per_token},
    {"slowdown", &Metrics::slowdown},
    {"workflow_slowdown", &Metrics::workflow_slowdown},
    {"workflow_per_token_s", &Metrics::workflow_per_token},
};

struct StatisticField {
  std::string_view key;
  double Summary::* member;
};
inline constexpr StatisticField kStatistics[] = {
    {"mean", &Summary::mean}, {"p50", &Summary::p50}, {"p90", &Summary::p90}, {"p95", &Summary::p95},
    {"p99", &Summary::p99},   {"min", &Summary::min}, {"max", &Summary::max},
};

struct ScalarField {
  std::string_view key;
  double Metrics::* member;
};
inline constexpr ScalarField kScalars[] = {
    {"makespan_s", &Metrics::makespan},
    {"throughput_rps", &Metrics::throughput_rps},
    {"throughput_tokens_per_s", &Metrics::throughput_tokens},
    {"goodput_rps", &Metrics::goodput_rps},
    {"slo_attainment", &Metrics::slo_attainment},
    {"slo_scale_95", &Metrics::slo_scale_95},
    {"max_slowdown", &Metrics::max_slowdown},
    {"kv_mean", &Metrics::kv_mean},
    {"kv_peak", &Metrics::kv_peak},
};

inline constexpr CountField kTotals[] = {
    {"preemptions", &Metrics::preemptions},     {"recomputed_tokens", &Metrics::recomputed_tokens},
    {"cached_tokens", &Metrics::cached_tokens}, {"output_tokens", &Metrics::output_tokens},
    {"adapter_loads", &Metrics::adapter_loads},
};

}  // namespace takt::tool

#endif  // TAKT_SRC_TOOL_REPORT_METRIC_FIELDS_H_
