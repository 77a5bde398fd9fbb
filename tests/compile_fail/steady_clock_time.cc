#include "takt/base/time.h"

takt::TimePoint FromHost(std::chrono::steady_clock::time_point now) {
#ifdef TAKT_MUST_FAIL
  return now;
#else
  return takt::TimePoint(now.time_since_epoch());
#endif
}
