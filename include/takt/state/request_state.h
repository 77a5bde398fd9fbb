// What a policy sees of a request.
#ifndef TAKT_STATE_REQUEST_STATE_H_
#define TAKT_STATE_REQUEST_STATE_H_

#include "takt/model/request.h"

namespace takt {

struct RequestState {
  Request request = {};          // arrival and workflow_arrival are always set; absurd estimates read as unknown
  TimePoint enqueued{};     // when it last joined the waiting queue
  Tokens generated{0};      // output so far, per sequence
  Tokens returned{0};       // tokens that tools have added to its context
  bool has_run = false;     // a step has made progress for it
};

}  // namespace takt

#endif  // TAKT_STATE_REQUEST_STATE_H_
