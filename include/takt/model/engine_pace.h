// The speed of an engine as a few coefficients, for policies.
#ifndef TAKT_MODEL_ENGINE_PACE_H_
#define TAKT_MODEL_ENGINE_PACE_H_

#include <algorithm>
#include <cstdint>

#include "takt/base/rounded.h"
#include "takt/base/time.h"
#include "takt/model/cost_model.h"
#include "takt/model/memory_time.h"
#include "takt/model/prefill_pace.h"

namespace takt {

// The time of an iteration as a linear function. The defaults approximate an 8B model on an A100.
//
//   step_s + prefill_s * (prompt tokens) + sequence_s * (decoding sequences) + context_s * (their context tokens)
struct StepPace {
  double step_s = 9e-3;  // T0: constant part of each iteration
  double prefill_s = 6e-5;  // aQ: time per prefill token
  double sequence_s = 1.5e-5;  // aB: time per decoding sequence
  double context_s = 1e-8;  // aS: time per context token of the decoding sequences

  // Linearizes `cost` around `batch` decoding sequences with `context` tokens each and a prefill chunk of `chunk`
  // tokens.
  static StepPace From(const CostModel& cost, std::int64_t batch, std::int64_t context, std::int64_t chunk) {
    batch = std::max<std::int64_t>(batch, 1), context = std::max<std::int64_t>(context, 1);
    chunk = std::max<std::int64_t>(chunk, 1);
    const auto seconds = [&cost](std::int64_t decodes, std::int64_t contexts, std::int64_t prefill) {
      StepLoad load;
      load.decodes = load.samples = decodes;
      load.decode_context = contexts;
      if (prefill > 0) load.AddPrefill(prefill, 0, false);
      return ToSeconds(cost.StepTime(load));
    };
    const std::int64_t all = batch * context;
    const auto n = static_cast<double>(batch);
    const double here = seconds(batch, all, 0);
    StepPace pace;
    pace.prefill_s = std::max((seconds(batch, all, chunk) - here) / static_cast<double>(chunk), 0.0);
    pace.sequence_s = std::max((seconds(2 * batch, all, 0) - here) / n, 0.0);
    pace.context_s = std::max((seconds(batch, 2 * all, 0) - here) / static_cast<double>(all), 0.0);
    pace.step_s =
        std::max(here - Rounded(pace.sequence_s * n) - Rounded(pace.context_s * static_cast<double>(all)), 0.0);
    return pace;
  }

  friend bool operator==(const StepPace&, const StepPace&) = default;
};

struct EnginePace {
  MemoryPace memory = {};
  StepPace steps = {};
  PrefillPace prefill = {};

  // Arguments as in MemoryPace::From.
  static EnginePace From(const CostModel& cost, std::int64_t batch, std::int64_t context, std::int64_t chunk) {
    return {MemoryPace::From(cost, batch, context, chunk), StepPace::From(cost, batch, context, chunk),
            PrefillPace::From(cost, chunk)};
  }
};

// Sets the engine's pace in a policy, if the policy uses it.
template <class P>
void SetPace(P& policy, const EnginePace& pace) {
  if constexpr (requires { policy.pace; }) policy.pace = pace.memory;
  if constexpr (requires { policy.set_pace(pace.steps); }) policy.set_pace(pace.steps);
  if constexpr (requires { policy.beta_ns; }) SetPace(policy, pace.prefill);
}

}  // namespace takt

#endif  // TAKT_MODEL_ENGINE_PACE_H_
