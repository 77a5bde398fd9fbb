// KV memory over time, in token-seconds: what a tool call wastes, and what a request occupies in all.
//
// Sources: InferCept (Abhyankar et al., ICML 2024), equations 1-5; LAMPS, equations 1-3 and its memory over time.
// Here M, the bytes of a token, is left out, so that a waste is in token-seconds.
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

// The pace of an engine in three figures, as the closed forms below need it.
struct MemoryPace {
  double decode_s = 0;             // tau: one decode step
  double forward_s = 0;            // per token of prompt or of context computed again, in full chunks
  double swap_s = 0;               // per token and direction
  double swap_memory_share = 0.5;  // kappa: of the context, held on average while it moves; 1: blocks go all at once
  double chunk_overhead_s = 0;     // of an iteration of its own: what `forward_s` does not explain
  double chunk_tokens = 512;       // of prefill in such an iteration

  // `batch`: sequences that decode beside it, of `context` tokens each; `chunk`: prefill tokens in an iteration.
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

// Gives a policy the pace of the engine, if it uses it.
template <class P>
void SetPace(P& policy, const MemoryPace& pace) {
  if constexpr (requires { policy.costs.pace; }) policy.costs.pace = pace;
}

// What stands beside a request at the moment of its call.
struct MemoryBeside {
  double other_tokens = 0;   // C_other: context of the other running requests
  double chunk_tokens = 512;  // of an iteration that computes context again: what the running ones leave of saturation
};

// Equation 2: the context stays, unused, for `seconds`.
inline double WasteOfKeeping(double context, double seconds) { return Rounded(context * std::max(seconds, 0.0)); }

// Equation 4, chunk by chunk: the memory of what has been computed so far is held while the rest is, and the others
// wait for the time that each chunk adds. Ramps in whole chunks, as the authors' code does; unlike there, a context of
// an exact multiple of the chunk has a last chunk too.
inline double WasteOfDropping(const MemoryPace& pace, const MemoryBeside& beside, double context) {
  if (!(context > 0)) return 0;
  const double chunk = std::max(beside.chunk_tokens, 1.0);
  const double full = std::ceil(context / chunk) - 1;  // chunks before the last
  const double last = context - Rounded(full * chunk);
  const double alone =
      Rounded(pace.forward_s * chunk) + pace.chunk_overhead_s;  // of a full iteration: its own memory waits
  return Rounded(alone * chunk * full * (full + 1) / 2) + Rounded(pace.forward_s * chunk * full * beside.other_tokens) +
         Rounded(pace.forward_s * last * (beside.other_tokens + last));
}

// Equation 1: the same in one piece.
inline double WasteOfDroppingWhole(const MemoryPace& pace, const MemoryBeside& beside, double context) {
  return Rounded((Rounded(pace.forward_s * context) + pace.chunk_overhead_s) * (context + beside.other_tokens));
}

// Equation 3: out and in, while the whole batch waits (`overlap` 0) or only the request's own memory does (1).
inline double WasteOfSwapping(const MemoryPace& pace, const MemoryBeside& beside, double context, double overlap = 0) {
  return Rounded(2 * pace.swap_s * context *
                 (Rounded(pace.swap_memory_share * context) + Rounded((1 - overlap) * beside.other_tokens)));
}

// A stretch of a request between two calls, or before the end.
struct MemorySegment {
  double compute = 0;  // tokens to compute first: the prompt, or what a tool has returned
  double generate = 0;  // output tokens then
  double call_s = 0;  // the call that ends it; of the last segment: none
  KvAction action = KvAction::kKeep;  // what becomes of the KV meanwhile: kKeep, kDrop or kOut
};

// The area under a request's memory over time, from a context of `held` tokens on: ramps while it computes and
// decodes, a plateau or nothing while a tool runs, ramps again while KV is computed again or moves.
inline double AreaOfMemory(const MemoryPace& pace, std::span<const MemorySegment> segments, double held = 0) {
  double area = 0, context = held;
  KvAction before = KvAction::kKeep;  // how the context got through the call before
  for (const MemorySegment& s : segments) {
    // What comes back, first; then what is new, on top of it.
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
