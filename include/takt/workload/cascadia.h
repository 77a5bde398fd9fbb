// Requests as Cascadia's traces had them, as far as the tables of Jiang et al. tell: bench/lab/README.md
// says what was reconstructed, and how.
#ifndef TAKT_WORKLOAD_CASCADIA_H_
#define TAKT_WORKLOAD_CASCADIA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/workload/cascade_sample.h"

namespace takt {

inline constexpr int kCascadiaTraces = 3;

// A request of the trace, 1 to 3, answered by a small, a middle and a large model, or without the middle one.
// `judge` is what another than GPT-4o says of the same answers.
struct CascadiaDraw {
  std::vector<CascadeSample> sample;
  std::vector<double> router;  // a learned guess at how well the small model will do, from the request alone
};

CascadiaDraw DrawCascadia(int trace, std::size_t models, std::size_t requests, std::uint64_t seed);

// The same answers as another judge scores them: `bias` of each score on average (-0.094: 9.4 % lower), and noise of
// this standard deviation in points.
std::vector<CascadeSample> Rejudged(std::vector<CascadeSample> sample, double bias, double noise, std::uint64_t seed);

// Scores of the same distribution, but with this rank correlation to the judge's: a learned judge.
std::vector<CascadeSample> RejudgedByLearned(std::vector<CascadeSample> sample, double rank_correlation,
                                             std::uint64_t seed);

// All requests as long as they are on average; there must be one.
std::vector<CascadeSample> WithMeanLengths(std::vector<CascadeSample> sample);

}  // namespace takt

#endif  // TAKT_WORKLOAD_CASCADIA_H_
