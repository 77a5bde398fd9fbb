// The time that a single call would use the whole engine.
#ifndef TAKT_MODEL_OCCUPANCY_H_
#define TAKT_MODEL_OCCUPANCY_H_

#include "takt/base/rounded.h"
#include "takt/model/memory_time.h"

namespace takt {

// `compute_s`: time for which a call occupies all compute. `memory_s`: sum over decode steps of the step's time, times
// the share of `kv_tokens` that the call's KV occupies. `context`: context tokens, including the `uncomputed` tokens.
// `output`: tokens to decode.
struct Occupancy {
  double compute_s = 0, memory_s = 0;

  static Occupancy Of(const MemoryPace& pace, double context, double uncomputed, double output, double kv_tokens) {
    return {Rounded(pace.forward_s * (uncomputed + output)),
            pace.decode_s * (Rounded(context * output) + Rounded(output * (output + 1) / 2)) / kv_tokens};
  }
};

}  // namespace takt

#endif  // TAKT_MODEL_OCCUPANCY_H_
