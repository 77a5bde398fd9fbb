// A scheduler moves and does not copy: its plans are its own, and an engine has one.
#include <utility>

#include "takt/scheduler.h"

takt::Scheduler Use(takt::Scheduler& scheduler) {
#ifdef TAKT_MUST_FAIL
  return scheduler;
#else
  return std::move(scheduler);
#endif
}
