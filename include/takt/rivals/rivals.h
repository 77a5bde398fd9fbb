// Rules of other published systems, to compare with. They are no part of takt::takt: link takt::rivals.
#ifndef TAKT_RIVALS_RIVALS_H_
#define TAKT_RIVALS_RIVALS_H_

#include "absl/status/status.h"

namespace takt {

// Registers them by name, so that MakePolicy, MakePlacement, MakePause, MakeRetention and MakeGate know them, and so do
// replays and logs. Further calls, from any thread, do nothing and return the same. InvalidArgument: the host has
// registered one of the names before; the others are registered. As with RegisterPolicy, the first call must return
// before any thread makes policies by name.
absl::Status RegisterRivals();

}  // namespace takt

#endif  // TAKT_RIVALS_RIVALS_H_
