// Clairvoyant, for simulators: evicts the block that saves the least work per second until its next use.
#ifndef TAKT_RIVALS_RETENTION_BELADY_COST_H_
#define TAKT_RIVALS_RETENTION_BELADY_COST_H_

#include <algorithm>
#include <string_view>

#include "takt/base/spec.h"
#include "takt/turns/held.h"
#include "takt/rivals/retention/belady.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/rivals/retention/next_uses.h"

namespace takt {

// The value of a block at depth d [tokens] is c(d) / (time to the block's next use), with c as in HoldValue. The unit
// is seconds of work saved per second held. Next uses are those of Belady. A block that is due or late counts as used
// within 1 ms. A block that is never used has no value.
struct BeladyCost {
  static constexpr std::string_view kName = "belady_cost";

  double alpha_ms = 0.0387;  // prefill time of a token [ms]; default: Llama-3.1-70B fp8 on 8 H100
  double beta_ns = 0.546;  // prefill time of a token per preceding token [ns]; default: as for alpha_ms
  const NextUses* next_uses = nullptr;  // next uses, which must outlive the policy; null: only c decides

  double Value(const Held& held, TimePoint now) const {
    const double away = Belady{next_uses}.Away(held, now);
    if (away >= Belady::kFar) return 0;
    return HoldValue{.alpha_ms = alpha_ms, .beta_ns = beta_ns}.Cost(held) / std::max(away, 1e-3);
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("alpha_ms", self.alpha_ms, OptionText{"ms", "prefill time of a token at the start of a prompt"});
    visit("beta_ns", self.beta_ns, OptionText{"ns", "additional prefill time of a token per token before it"});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_BELADY_COST_H_
