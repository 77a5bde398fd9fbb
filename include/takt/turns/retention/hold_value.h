// takt's own retention policy: evicts the KV that saves the least work per second held.
#ifndef TAKT_TURNS_RETENTION_HOLD_VALUE_H_
#define TAKT_TURNS_RETENTION_HOLD_VALUE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/turns/held.h"
#include "takt/turns/return_curve.h"

namespace takt {

// Value v of a block, in seconds of work saved per second held. The block is at depth d [tokens] and idle for a seconds
// in a gap of class k:
//   v = G_k(a) c(d),   c(d) = block (alpha + beta d)   the time to compute it again.
// If the workflow's next turn waits here, it is assumed to return within a second: G = 1/s. If the next tier has a copy
// of the block, c is only the time to load it: block load.
//
// There is one list per class and power of two of c, and one per class for blocks with a copy. Within a list, the order
// of last use is the order of value, up to a factor of two. The orders differ further only while G rises. Classes after
// the last single tool count as tools.
struct HoldValue {
  static constexpr std::string_view kName = "hold_value";
  static constexpr std::size_t kClasses = 32, kCosts = 8;
  static constexpr std::size_t kLists = kClasses * (kCosts + 1);

  double alpha_ms = 0.0387;  // prefill time of a token [ms]; defaults of alpha and beta: Llama-3.1-70B fp8 on 8 H100
  double beta_ns = 0.546;  // prefill time of a token per preceding token [ns]
  double load_ms = 0.00164;  // time to load a token from host memory [ms]
  const ReturnCurves* curves = nullptr;  // return curves, which must outlive the policy; null: only c decides

  double Cost(const Held& held) const {  // [s]
    if (held.copied) return Rounded(held.block_tokens * Rounded(load_ms * 1e-3));
    const double per_token = Rounded(alpha_ms * 1e-3) + Rounded(beta_ns * 1e-9 * held.tokens);
    return Rounded(held.block_tokens * per_token);
  }

  std::size_t List(const Held& held) const {
    if (held.copied) return kClasses * kCosts + ClassOf(held);
    // c relative to the c of the first token
    const double ratio = alpha_ms > 0 ? beta_ns * 1e-6 * held.tokens / alpha_ms : 0;
    const auto whole = static_cast<std::uint32_t>(std::clamp(1 + ratio, 1.0, 128.0));
    return ClassOf(held) * kCosts + static_cast<std::size_t>(std::bit_width(whole)) - 1;
  }

  double Value(const Held& held, TimePoint now) const {
    const double gain = curves == nullptr ? 1 : curves->Of(ClassOf(held)).Gain(ToSeconds(Between(held.since, now)));
    return Rounded(gain * Cost(held));
  }
  double AwaitedValue(const Held& held) const { return Cost(held); }

  static std::uint32_t ClassOf(const Held& held) {
    return held.return_class < kClasses ? held.return_class : ReturnClass::kTool;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("alpha_ms", self.alpha_ms, OptionText{"ms", "prefill time of a token at the start of a prompt"});
    visit("beta_ns", self.beta_ns, OptionText{"ns", "more of it per token before"});
    visit("load_ms", self.load_ms, OptionText{"ms", "time to load a token from host memory"});
  }
};

}  // namespace takt

#endif  // TAKT_TURNS_RETENTION_HOLD_VALUE_H_
