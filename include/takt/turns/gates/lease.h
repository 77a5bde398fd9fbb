// Protects the memory of workflows that ran recently.
#ifndef TAKT_TURNS_GATES_LEASE_H_
#define TAKT_TURNS_GATES_LEASE_H_

#include <string_view>

#include "takt/base/spec.h"
#include "takt/turns/gates/gate_policy.h"

namespace takt {

// A turn's blocks belong to its workflow for `seconds` seconds. All other blocks are free to take. A request that would
// break a lease waits without limit. If nothing runs, the leases of waiting turns are broken.
struct Lease {
  static constexpr std::string_view kName = "lease";

  double seconds = 30;

  double LetsInAfter(const GateAsk& ask, const HeldOrder& held) const {
    bool broken = false;
    held.Walk(ask.lack, [&](const HeldVictim& victim) {
      if (IsOwn(ask, victim.held)) return true;
      const bool kept = victim.tier >= HeldTier::kPinned;
      const bool leased = victim.held.workflow && ToSeconds(Between(victim.held.since, ask.now)) < seconds;
      const bool pinned = victim.tier == HeldTier::kPinned;
      broken = (leased || pinned) && victim.tier != HeldTier::kDead && !(ask.stuck && kept);
      return !broken;
    });
    return broken ? kNotNow : 0;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("seconds", self.seconds, OptionText{"s", "how long after a turn its blocks are protected"});
  }
};

}  // namespace takt

#endif  // TAKT_TURNS_GATES_LEASE_H_
