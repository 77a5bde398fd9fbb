// Least uncached prompt first: the request with the shortest prefill.
#ifndef TAKT_POLICY_UNCACHED_H_
#define TAKT_POLICY_UNCACHED_H_

#include <algorithm>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key: prefill seconds before the first token, alpha (n - c) + beta (n^2 - c^2) / 2. The prompt has n tokens, of which
// c are cached or computed. The key changes as the cache gains or loses KV of the prompt. There is no aging: aging
// restores the order of arrival, in which a small cache thrashes.
struct Uncached {
  static constexpr std::string_view kName = "uncached";

  double alpha_ms = 0.0387;  // prefill time of a token [ms]; default: Llama-3.1-70B fp8 on 8 H100
  double beta_ns = 0.546;  // prefill time of a token per preceding token [ns]; default: as for alpha_ms
  // true: smaller priority numbers go first, within -1,000,000 to 1,000,000; then least uncached prompt
  bool priority_first = false;

  RankKey Key(const RequestState& r) const {
    const double n = r.request.prompt_tokens.value + r.returned.value + r.generated.value;
    const double c = std::min<double>(std::max(r.cached.value, r.computed.value), n);
    const double seconds =
        Rounded(alpha_ms * 1e-3 * (n - c)) + Rounded(beta_ns * 1e-9 * (Rounded(n * n) - Rounded(c * c)) / 2);
    if (!priority_first) return {seconds};
    const double priority = std::clamp(r.request.priority, -1'000'000, 1'000'000);
    return {Rounded(kLongest * priority) + std::min(seconds, kLongest / 2)};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("alpha_ms", self.alpha_ms, OptionText{"ms", "prefill time of a token at the start of a prompt"});
    visit("beta_ns", self.beta_ns, OptionText{"ns", "additional prefill time of a token per token before it"});
    visit("priority_first", self.priority_first, OptionText{"", "smaller priority numbers go first"});
  }

 private:
  static constexpr double kLongest = 1e6;  // prefill time beyond which requests of one priority are equal [s]
};

}  // namespace takt

#endif  // TAKT_POLICY_UNCACHED_H_
