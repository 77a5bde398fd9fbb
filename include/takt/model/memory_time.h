// Integrals of KV memory over time [token-seconds]: the memory that a tool call wastes or a request uses.
//
// Sources: InferCept (Abhyankar et al., ICML 2024), equations 1-5; LAMPS, equations 1-3 and memory over time. The
// factor M, bytes per token, is omitted, so waste is in token-seconds.
#ifndef TAKT_MODEL_MEMORY_TIME_H_
#define TAKT_MODEL_MEMORY_TIME_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "takt/base/rounded.h"
#include "takt/model/cost_model.h"
#include "takt/model/step.h"

namespace takt {

// Coefficients of an engine for the formulas below.
struct MemoryPace {
  double decode_s = 0;  // tau: time of one decode step
  double forward_s = 0;  // time per token of prefill or recomputation, in full chunks
  double swap_s = 0;  // transfer time per token and direction
  double swap_memory_share = 0.5;  // kappa: mean share of the context in memory during a transfer; 1: all of it
  double chunk_overhead_s = 0;  // constant time of an iteration with a prefill chunk
  double chunk_tokens = 512;  // prefill tokens in an iteration with a prefill chunk

  // Fits a batch of `batch` decoding sequences with `context` tokens each, and `chunk` prefill tokens per iteration.
  static MemoryPace From(const CostModel& cost, std::int64_t batch, std::int64_t context, std::int64_t chunk) {
    StepLoad decodes;
    decodes.decodes = decodes.samples = std::max<std::int64_t>(batch, 1);
    decodes.decode_context = decodes.decodes * context;
    StepLoad mixed = decodes;
    mixed.AddPrefill(std::max<std::int64_t>(chunk, 1), 0, false);
    const double step = ToSeconds(cost.StepTime(decodes));
    const double added = ToSeconds(cost.StepTime(mixed)) - step;
    return {.decode_s = step,
            .forward_s = std::max(added, 0.0) / static_cast<double>(std::max<std::int64_t>(chunk, 1)),
            .swap_s = ToSeconds(cost.SwapTime(1'000'000)) / 1e6,
            .chunk_overhead_s = step,
            .chunk_tokens = static_cast<double>(std::max<std::int64_t>(chunk, 1))};
  }
};

// Sets the engine's pace in a policy, if the policy uses it.
template <class P>
void SetPace(P& policy, const MemoryPace& pace) {
  if constexpr (requires { policy.costs.pace; }) policy.costs.pace = pace;
}

// The load of the engine when a request calls a tool.
struct MemoryBeside {
  double other_tokens = 0;  // C_other: context tokens of the other running requests
  double chunk_tokens = 512;  // tokens that an iteration can recompute without a delay for running requests
};

// Equation 2: returns the waste if the context stays unused for `seconds`.
inline double WasteOfKeeping(double context, double seconds) { return Rounded(context * std::max(seconds, 0.0)); }

// Equation 4: returns the waste of recomputation in chunks. Computed chunks occupy memory until the last chunk is done.
// Each chunk delays the other requests. Memory grows in whole chunks, as in the authors' code. If the context is an
// exact multiple of the chunk, its last full chunk is the last chunk.
inline double WasteOfDropping(const MemoryPace& pace, const MemoryBeside& beside, double context) {
  if (!(context > 0)) return 0;
  const double chunk = std::max(beside.chunk_tokens, 1.0);
  const double full = std::ceil(context / chunk) - 1;  // number of chunks before the last chunk
  const double last = context - Rounded(full * chunk);
  const double alone = Rounded(pace.forward_s * chunk) + pace.chunk_overhead_s;  // time of a full iteration
  return Rounded(alone * chunk * full * (full + 1) / 2) + Rounded(pace.forward_s * chunk * full * beside.other_tokens) +
         Rounded(pace.forward_s * last * (beside.other_tokens + last));
}

// Equation 1: returns the waste of recomputation in one piece.
inline double WasteOfDroppingWhole(const MemoryPace& pace, const MemoryBeside& beside, double context) {
  return Rounded((Rounded(pace.forward_s * context) + pace.chunk_overhead_s) * (context + beside.other_tokens));
}

// Equation 3: returns the waste of a swap-out and a swap-in. `overlap` 0: the memory of the whole batch counts as
// waste; 1: only the request's own memory.
inline double WasteOfSwapping(const MemoryPace& pace, const MemoryBeside& beside, double context, double overlap = 0) {
  return Rounded(2 * pace.swap_s * context *
                 (Rounded(pace.swap_memory_share * context) + Rounded((1 - overlap) * beside.other_tokens)));
}

// The part of a request up to its next tool call or its end.
struct MemorySegment {
  double compute = 0;  // tokens of the prompt or of a tool's answer, which are computed first
  double generate = 0;  // output tokens that the segment then generates
  double call_s = 0;  // duration of the tool call after the segment; ignored for the last segment
  KvAction action = KvAction::kKeep;  // action on the KV during the tool call: kKeep, kDrop or kOut
};

// Returns the integral of a request's memory over time, from a context of `held` tokens on. Memory grows during
// prefill, decode, recomputation and transfer. During a tool call it is constant or zero.
inline double AreaOfMemory(const MemoryPace& pace, std::span<const MemorySegment> segments, double held = 0) {
  double area = 0, context = held;
  KvAction before = KvAction::kKeep;  // KV action of the previous call
  for (const MemorySegment& s : segments) {
    // The context is restored first, and then the new tokens are computed.
    if (before == KvAction::kDrop) {
      area += Rounded(pace.forward_s * (context + s.compute) * (context + s.compute) / 2);
    } else {
      area += Rounded(pace.forward_s * s.compute * (context + Rounded(s.compute / 2)));
    }
    context += s.compute;
    area += Rounded(pace.decode_s * (Rounded(s.generate * context) + Rounded(s.generate * (s.generate + 1) / 2)));
    context += s.generate;
    if (&s == &segments.back()) break;
    if (s.action == KvAction::kKeep) area += Rounded(context * s.call_s);
    if (s.action == KvAction::kOut) area += Rounded(2 * pace.swap_memory_share * context * pace.swap_s * context);
    before = s.action;
  }
  return area;
}

}  // namespace takt

#endif  // TAKT_MODEL_MEMORY_TIME_H_
