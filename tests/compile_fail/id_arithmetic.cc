#include "takt/base/id.h"

auto Next(takt::RequestId id) {
#ifdef TAKT_MUST_FAIL
  return id + 1;
#else
  return takt::RequestId{id.value + 1};
#endif
}
