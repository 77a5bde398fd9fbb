// Fits the engines of regime paper to the paper's baselines, and compares them with its other baselines.
#ifndef TAKT_BENCH_LAB_CASCADIA_ENGINE_FIT_H_
#define TAKT_BENCH_LAB_CASCADIA_ENGINE_FIT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "lab/cascadia/study.h"
#include "lab/fit.h"

namespace takt::tool {

// Requests at once, fitted to the throughput of RouteLLM with Llama (Appendix I) and of Sarathi with the 671B (Table
// 4). Table 7 has other rates for the 671B alone on traces 2 and 3, and is not used.
struct CascadiaFit {
  Fit max_seqs;
  std::vector<double> alone_s;  // of the Llama cascade on trace 1, which no fit uses
};
absl::StatusOr<CascadiaFit> FitCascadia(const CascadiaSettings& settings, const RunProgress& progress);

// Mean time of each model's requests, each alone on a replica: the 8B on one GPU, the 70B on four, the 671B on eight
// [s]. Their mean is the unit of SLO scales, as Appendix H has 3.05 and 7.35 s for Llama, and 5.21 s for both.
std::vector<double> CascadiaAlone(const std::vector<ServedModel>& models, const std::vector<CascadeSample>& sample);

// Table 1: the largest difference of the rates of seven replicas of the 70B from the measured ones [%]. One factor fits
// all rates first. 1,600 prompt and 16 output tokens.
absl::StatusOr<double> CascadiaTable1Error(const CascadiaEngine& engine);

}  // namespace takt::tool

#endif  // TAKT_BENCH_LAB_CASCADIA_ENGINE_FIT_H_
