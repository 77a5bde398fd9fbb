// Chooses the instance with the least free KV memory that is enough for the request.
#ifndef TAKT_RIVALS_PLACEMENT_BEST_FIT_H_
#define TAKT_RIVALS_PLACEMENT_BEST_FIT_H_

#include <cstdint>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/placement/placement_policy.h"

namespace takt {

// Free memory: the KV cache minus its reported use and the prompts placed since the report. The free memory must hold
// the prompt and the expected output (median of the estimate; without an estimate: `output_tokens`). If no instance has
// enough, the policy chooses the smallest shortage. Instances with an unknown KV cache always have enough and are
// chosen last. Source: Parrot (Lin et al., OSDI 2024), whose scheduler chooses the engine that fits a request best.
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
    visit("output_tokens", self.output_tokens, OptionText{"tokens", "output of a request without an estimate"});
  }

 private:
  static constexpr double kUnbounded = -1e12;
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_BEST_FIT_H_
