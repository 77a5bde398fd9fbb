// The request that is computed soonest first: by what of its prompt is not cached.
#ifndef TAKT_POLICY_UNCACHED_H_
#define TAKT_POLICY_UNCACHED_H_

#include <algorithm>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key: seconds of prefill before its first token, alpha (n - c) + beta (n^2 - c^2) / 2, of a prompt of n tokens of
// which c are cached or were computed. Brought up to date where the cache comes to have less of it, or more. No ageing:
// that restores the order of arrival, and with it the collapse of a cache that is too small.
struct Uncached {
  static constexpr std::string_view kName = "uncached";

  double alpha_ms = 0.0387;  // of a token's prefill; both of Llama-3.1-70B fp8 on 8 H100
  double beta_ns = 0.546;  // of a token's prefill, per token before it

  RankKey Key(const RequestState& r) const {
    const double n = r.request.prompt_tokens.value + r.returned.value + r.generated.value;
    const double c = std::min<double>(std::max(r.cached.value, r.computed.value), n);
    return {Rounded(alpha_ms * 1e-3 * (n - c)) + Rounded(beta_ns * 1e-9 * (Rounded(n * n) - Rounded(c * c)) / 2)};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("alpha_ms", self.alpha_ms, OptionText{"ms", "prefill time of a token at the start of a prompt"});
    visit("beta_ns", self.beta_ns, OptionText{"ns", "more of it per token before"});
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_UNCACHED_H_
