// What is used again last goes first: a clairvoyant's order, for simulators.
#ifndef TAKT_RIVALS_RETENTION_BELADY_H_
#define TAKT_RIVALS_RETENTION_BELADY_H_

#include <string_view>

#include "takt/turns/held.h"
#include "takt/rivals/retention/next_uses.h"

namespace takt {

// The value is minus the time to the next use [s]. Blocks that several workflows hold are taken for used now, since
// whichever comes first uses them; those of requests without a workflow for never used again. Without lists: each
// plan that evicts costs a look at all holdings.
struct Belady {
  static constexpr std::string_view kName = "belady";
  static constexpr double kFar = 1e10;  // [s] to what never is

  const NextUses* next_uses = nullptr;  // must outlive it; null: all alike, so that age decides

  // Seconds until then; below 0 where it is late.
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
