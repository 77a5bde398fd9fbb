// The instance with the least KV memory to spare that is enough.
#ifndef TAKT_RIVALS_PLACEMENT_BEST_FIT_H_
#define TAKT_RIVALS_PLACEMENT_BEST_FIT_H_

#include <cstdint>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/placement_policy.h"

namespace takt {

// To spare: the KV cache less what the newest report counts as used and less the prompts that it cannot include.
// Enough: for the prompt and the expected output (the median of its estimate; none: `output_tokens`). Where none has
// enough, the one that lacks least; where the KV cache is not told, it always suffices, and such instances come last.
// Source: Parrot (Lin et al., OSDI 2024), whose scheduler gives a request to the engine that it fits best.
class BestFit {
 public:
  static constexpr std::string_view kName = "best_fit";

  double output_tokens = 200;

  double Score(const RequestState& r, const InstanceState& i, TimePoint) const {
    if (i.instance.kv_tokens.value == 0) return kUnbounded;
    const Estimate& output = r.request.output_tokens;
    const double wanted = r.request.prompt_tokens.value + (output.known() ? output.Quantile(0.5) : output_tokens);
    const std::int64_t used = i.report.kv_used.value + i.tokens_since_report;
    const double spare = static_cast<double>(i.instance.kv_tokens.value - used) - wanted;
    return spare >= 0 ? -spare : 2 * kUnbounded + spare;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("output_tokens", self.output_tokens, OptionText{"tokens", "output of a request of which nothing is known"});
  }

 private:
  static constexpr double kUnbounded = -1e12;
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_BEST_FIT_H_
