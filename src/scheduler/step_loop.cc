// The step loop of a scheduler, compiled once.
#include "takt/config.h"
#undef TAKT_INLINE
#define TAKT_INLINE  // this file holds the definitions that others link
#include "takt/scheduler/step_loop_inl.h"

namespace takt::internal {

#define TAKT_INSTANTIATE(E) template Ignored StepLoop::On<E>(const E&, TimePoint);
TAKT_EVENTS(TAKT_INSTANTIATE)
#undef TAKT_INSTANTIATE

}  // namespace takt::internal
