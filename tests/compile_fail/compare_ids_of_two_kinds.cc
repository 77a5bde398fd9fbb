#include "takt/model/request.h"

bool Same(const takt::Request& request) {
#ifdef TAKT_MUST_FAIL
  return request.id == request.workflow;
#else
  return request.id == request.id;
#endif
}
