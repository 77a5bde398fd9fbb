// Requests like those of Cascadia's traces, reconstructed from the tables of Jiang et al. bench/lab/README.md describes
// the reconstruction.
#ifndef TAKT_WORKLOAD_CASCADIA_H_
#define TAKT_WORKLOAD_CASCADIA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/workload/cascade_sample.h"

namespace takt {

inline constexpr int kCascadiaTraces = 3;

// Requests of trace 1, 2 or 3, answered by a small and a large model, and in one case also by a middle model.
struct CascadiaDraw {
  std::vector<CascadeSample> sample;
  std::vector<double> router;  // predictions of the small model's score, learned from requests without answers
};

// `harder`: correlation of a request's difficulty, which all scores share, with the logarithm of its output, 0 to 1.
CascadiaDraw DrawCascadia(int trace, std::size_t models, std::size_t requests, std::uint64_t seed, double harder = 0);

// Returns the same answers with another judge's scores. `bias` is the mean relative error (-0.094: 9.4 % lower).
// `noise` is the standard deviation, in points.
std::vector<CascadeSample> Rejudged(std::vector<CascadeSample> sample, double bias, double noise, std::uint64_t seed);

// Returns the scores of a learned judge. Their distribution is that of the original scores, with this rank correlation
// to the original scores.
std::vector<CascadeSample> RejudgedByLearned(std::vector<CascadeSample> sample, double rank_correlation,
                                             std::uint64_t seed);

// Sets all lengths to their means. The sample must not be empty.
std::vector<CascadeSample> WithMeanLengths(std::vector<CascadeSample> sample);

}  // namespace takt

#endif  // TAKT_WORKLOAD_CASCADIA_H_
