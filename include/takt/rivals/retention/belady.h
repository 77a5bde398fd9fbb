// Clairvoyant, for simulators: evicts the block whose next use is farthest.
#ifndef TAKT_RIVALS_RETENTION_BELADY_H_
#define TAKT_RIVALS_RETENTION_BELADY_H_

#include <string_view>

#include "takt/turns/held.h"
#include "takt/rivals/retention/next_uses.h"

namespace takt {

// The value is minus the time to the next use [s]. Blocks held by several workflows count as used now; blocks of
// requests without a workflow count as never used again. Without lists, each plan that evicts visits all held contexts.
struct Belady {
  static constexpr std::string_view kName = "belady";
  static constexpr double kFar = 1e10;  // assumed time to a use that never comes [s]

  const NextUses* next_uses = nullptr;  // next uses, which outlive the policy; null: evicts the least recently used

  // Returns the time to the next use [s]; negative if that use is late.
  double Away(const Held& held, TimePoint now) const {
    if (next_uses == nullptr) return 0;
    if (!held.workflow) return held.uses > 1 ? 0 : kFar;
    const TimePoint at = next_uses->Of(held.workflow, held.branch);
    return at == kNever ? kFar : ToSeconds(Between(now, at));
  }

  double Value(const Held& held, TimePoint now) const { return -Away(held, now); }
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_BELADY_H_
