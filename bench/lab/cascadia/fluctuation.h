// A workload that changes: trace 1, then 2, then 3 (Cascadia, sections 4.4 and G).
#ifndef TAKT_BENCH_LAB_CASCADIA_FLUCTUATION_H_
#define TAKT_BENCH_LAB_CASCADIA_FLUCTUATION_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lab/cascadia/study.h"

namespace takt::tool {

struct CascadiaChange {
  double noticed_s = 0;  // since the start of the run, when the new plan is ready
  double done_s = 0;     // when its last replica starts serving
  std::string why;       // statistic that revealed the shift
};

struct CascadiaFluctuation {
  CascadiaCascade cascade = CascadiaCascade::kLlama;
  std::string system;
  double p95 = 0;                        // s, along the path, over all requests
  std::array<double, 3> segment_p95 = {};      // s, over requests that arrived in each segment
  std::array<double, 3> segment_quality = {};  // mean score
  std::array<double, 3> segment_rate = {};     // requests/s
  double throughput = 0;  // requests/s answered within the whole run
  std::vector<CascadiaChange> changes;
  std::vector<double> minute_p95;  // s, by minute of arrival
};

// takt with new plans on drift, takt with its first plan, CascadeServe and the stand-alone model; quality 80.
absl::StatusOr<std::vector<CascadiaFluctuation>> Fluctuate(CascadiaCascade cascade, const CascadiaSettings& settings,
                                                           const RunProgress& progress);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CASCADIA_FLUCTUATION_H_
