// Engine time that a request has received, from the tokens computed for it.
#ifndef TAKT_RIVALS_POLICY_ATTAINED_SERVICE_H_
#define TAKT_RIVALS_POLICY_ATTAINED_SERVICE_H_

#include <cstdint>

#include "takt/base/count.h"
#include "takt/base/rounded.h"
#include "takt/model/memory_time.h"

namespace takt {

// Counts tokens, not seconds, so that chunking does not change the time.
struct AttainedService {
  std::int64_t prefill = 0;  // computed prefill tokens, including recomputed tokens
  std::int64_t decodes = 0;  // number of steps with output and without prefill

  void Add(Tokens prefilled, Tokens output, std::int64_t steps) {
    prefill += prefilled.value;
    decodes += prefilled.value == 0 && output.value > 0 ? steps : 0;
  }
  double Seconds(const MemoryPace& pace) const {
    return Rounded(pace.forward_s * static_cast<double>(prefill)) +
           Rounded(pace.decode_s * static_cast<double>(decodes));
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_ATTAINED_SERVICE_H_
