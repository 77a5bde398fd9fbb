// The engine's time that a request has had so far, from the tokens that were computed for it.
#ifndef TAKT_RIVALS_POLICY_ATTAINED_SERVICE_H_
#define TAKT_RIVALS_POLICY_ATTAINED_SERVICE_H_

#include <cstdint>

#include "takt/base/count.h"
#include "takt/base/rounded.h"
#include "takt/model/memory_time.h"

namespace takt {

// Counted, not summed up in seconds, so that the same tokens in other chunks are the same time.
struct AttainedService {
  std::int64_t prefill = 0;  // tokens, those computed again included
  std::int64_t decodes = 0;  // steps that yielded output and no prefill

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
