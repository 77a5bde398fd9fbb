#include "takt/model/request.h"

void Set(takt::Request& request, takt::RequestId id) {
#ifdef TAKT_MUST_FAIL
  request.workflow = id;
#else
  request.id = id;
#endif
}
