// Prefill time per token, as a function of its position.
#ifndef TAKT_MODEL_PREFILL_PACE_H_
#define TAKT_MODEL_PREFILL_PACE_H_

#include <algorithm>
#include <cstdint>

#include "takt/base/rounded.h"
#include "takt/model/cost_model.h"

namespace takt {

// The prefill of a token at position d takes alpha + beta d. Loading the KV of one token from host memory takes `load`.
// The defaults are for Llama-3.1-70B fp8 on 8 H100.
struct PrefillPace {
  double alpha_ms = 0.0387;
  double beta_ns = 0.546;
  double load_ms = 0.00164;

  // Fits chunks of `chunk` tokens at the start of a prompt and at position `depth`.
  static PrefillPace From(const CostModel& cost, std::int64_t chunk, std::int64_t depth = 100'000) {
    chunk = std::max<std::int64_t>(chunk, 1), depth = std::max<std::int64_t>(depth, 1);
    const auto seconds = [&](std::int64_t before) {
      StepLoad load;
      load.AddPrefill(chunk, before, false);
      return ToSeconds(cost.StepTime(load));
    };
    const double tokens = static_cast<double>(chunk);
    const double at_start = seconds(0), there = seconds(depth);
    const double beta = std::max(there - at_start, 0.0) / (tokens * static_cast<double>(depth));
    return {std::max(Rounded(at_start / tokens) - Rounded(beta * tokens / 2), 0.0) * 1e3, beta * 1e9,
            ToSeconds(cost.SwapTime(1'000'000)) * 1e-3};
  }

  friend bool operator==(const PrefillPace&, const PrefillPace&) = default;
};

// Sets the engine's pace in a policy or its value function, if it uses the pace.
template <class P>
void SetPace(P& policy, const PrefillPace& pace) {
  if constexpr (requires { policy.alpha_ms; }) policy.alpha_ms = pace.alpha_ms, policy.beta_ns = pace.beta_ns;
  if constexpr (requires { policy.load_ms; }) policy.load_ms = pace.load_ms;
  if constexpr (requires { policy.value.alpha_ms; }) SetPace(policy.value, pace);
}

}  // namespace takt

#endif  // TAKT_MODEL_PREFILL_PACE_H_
