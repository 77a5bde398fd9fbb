// Policies of other published systems, for comparison. Not part of takt::takt: link takt::rivals.
#ifndef TAKT_RIVALS_RIVALS_H_
#define TAKT_RIVALS_RIVALS_H_

#include "absl/status/status.h"

namespace takt {

// Registers the policies for MakePolicy, MakePlacement, MakePause, MakeRetention and MakeGate, and so for replays and
// logs. Later calls, from any thread, only return the first result. InvalidArgument: the host has registered one of the
// names; all other policies are registered. As with RegisterPolicy, the first call must return before any thread makes
// policies by name.
absl::Status RegisterRivals();

}  // namespace takt

#endif  // TAKT_RIVALS_RIVALS_H_
