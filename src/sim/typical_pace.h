// The pace of an engine for its policies.
#ifndef TAKT_SRC_SIM_TYPICAL_PACE_H_
#define TAKT_SRC_SIM_TYPICAL_PACE_H_

#include <algorithm>
#include <cstdint>

#include "takt/model/cost_model.h"
#include "takt/model/engine_pace.h"
#include "takt/model/step.h"

namespace takt {

// Returns the pace of an engine with a batch of typical size.
inline EnginePace TypicalPace(const CostModel& cost, const StepLimits& limits) {
  constexpr std::int64_t kBatch = 32, kContext = 1024;
  const std::int64_t chunk = std::min(limits.tokens.value, limits.prefill_tokens.value);
  EnginePace pace = EnginePace::From(cost, kBatch, kContext, std::clamp<std::int64_t>(chunk, 1, 512));
  pace.prefill = PrefillPace::From(cost, std::clamp<std::int64_t>(chunk, 1, 1 << 16));
  return pace;
}

}  // namespace takt

#endif  // TAKT_SRC_SIM_TYPICAL_PACE_H_
