// Highest response ratio next: short requests first, but the ratio of a waiting request rises.
#ifndef TAKT_POLICY_HRRN_H_
#define TAKT_POLICY_HRRN_H_

#include <algorithm>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key: -(wait + service) / service. The wait is counted from arrival. The service is the predicted time of the call
// alone on the engine, linear in its tokens. Source: Brinch Hansen (1971). Every plan reads the keys of all waiting
// requests: O(waiting).
struct Hrrn {
  static constexpr std::string_view kName = "hrrn";

  double output_s = 0.02;  // service per output token [s]; default: a decode step of a busy engine
  double prompt_s = 0.0001;  // service per prompt token [s]; default: chunked prefill at 10,000 tokens/s
  double unknown = 256;  // assumed output tokens of a request without a prediction

  // At arrival every response ratio is one.
  RankKey Key(const RequestState&) const { return {-1}; }

  RankKey KeyAt(const RequestState& r, TimePoint now) const {
    const Estimate& tokens = r.request.output_tokens;
    const double service = Rounded(output_s * (tokens.known() ? tokens.mean : unknown)) +
                           Rounded(prompt_s * static_cast<double>(r.request.prompt_tokens.value));
    const double wait = std::max(0.0, ToSeconds(now) - ToSeconds(r.request.arrival));
    return {-1 - wait / std::max(service, 1e-9)};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("output_s", self.output_s, OptionText{"s/token", "service per output token"});
    visit("prompt_s", self.prompt_s, OptionText{"s/token", "service per prompt token"});
    visit("unknown", self.unknown, OptionText{"tokens", "output of a request without a prediction"});
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_HRRN_H_
