// A scheduler whose policies are chosen at run time. The default policy is room_to_pass.
#ifndef TAKT_SCHEDULER_H_
#define TAKT_SCHEDULER_H_

#include "takt/basic_scheduler.h"
#include "takt/pause/any_pause.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/room_to_pass.h"

namespace takt {

template <>
struct DefaultPolicy<AnyPolicy> {
  static AnyPolicy Make() { return RoomToPass{}; }
};

using Scheduler = BasicScheduler<AnyPolicy, AnyPause>;

#ifdef TAKT_COMPILED  // set by linking takt::takt, which contains it
extern template class BasicScheduler<AnyPolicy, AnyPause>;
#endif

}  // namespace takt

#endif  // TAKT_SCHEDULER_H_
