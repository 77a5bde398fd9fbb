// How long one call would have the engine to itself.
#ifndef TAKT_MODEL_OCCUPANCY_H_
#define TAKT_MODEL_OCCUPANCY_H_

#include "takt/base/rounded.h"
#include "takt/model/memory_time.h"

namespace takt {

// The time for which a call fills the engine's compute, and the time for which it would fill all of a KV cache of
// `kv_tokens` with what it holds, summed over its decode steps [s]. `context`: tokens, of which `uncomputed` are to be
// computed first; `output`: tokens then.
struct Occupancy {
  double compute_s = 0, memory_s = 0;

  static Occupancy Of(const MemoryPace& pace, double context, double uncomputed, double output, double kv_tokens) {
    return {Rounded(pace.forward_s * (uncomputed + output)),
            pace.decode_s * (Rounded(context * output) + Rounded(output * (output + 1) / 2)) / kv_tokens};
  }
};

}  // namespace takt

#endif  // TAKT_MODEL_OCCUPANCY_H_
