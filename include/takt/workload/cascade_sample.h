// The answers of a cascade's models to a request, from which a cascade is planned.
#ifndef TAKT_WORKLOAD_CASCADE_SAMPLE_H_
#define TAKT_WORKLOAD_CASCADE_SAMPLE_H_

#include <cstdint>
#include <vector>

namespace takt {

// A request with the answers of every model.
struct CascadeSample {
  std::int32_t prompt = 1;  // prompt length [tokens]
  std::vector<std::int32_t> outputs = {};  // output length per model [tokens]
  std::vector<double> scores = {};  // judge's score per model, 0 to 100
};

}  // namespace takt

#endif  // TAKT_WORKLOAD_CASCADE_SAMPLE_H_
