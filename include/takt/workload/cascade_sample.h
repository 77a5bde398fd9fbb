// What a cascade of models made of a request: what plans of cascades are made from.
#ifndef TAKT_WORKLOAD_CASCADE_SAMPLE_H_
#define TAKT_WORKLOAD_CASCADE_SAMPLE_H_

#include <cstdint>
#include <vector>

namespace takt {

// A request that every model has answered.
struct CascadeSample {
  std::int32_t prompt = 1;  // tokens
  std::vector<std::int32_t> outputs = {};  // tokens, by model
  std::vector<double> scores = {};  // the judge's, 0 to 100, by model
};

}  // namespace takt

#endif  // TAKT_WORKLOAD_CASCADE_SAMPLE_H_
