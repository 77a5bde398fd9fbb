#include "takt/base/time.h"

takt::Duration FromNumber(double seconds) {
#ifdef TAKT_MUST_FAIL
  return takt::Duration(seconds);
#else
  return takt::FromSeconds(seconds);
#endif
}
