// The status of a request in a scheduler.
#ifndef TAKT_STATE_REQUEST_STATUS_H_
#define TAKT_STATE_REQUEST_STATUS_H_

#include <cstdint>

namespace takt {

// The status of a request in a scheduler.
enum class RequestStatus : std::uint8_t {
  kUnknown,  // the request is not in this scheduler, or no longer
  kWaiting,  // the request is in the queue
  kRunning,  // the request has a lane
  kPaused,  // the request is in a tool call
  kBlocked,  // the request waits for Unblocked
  kDead,  // the request has ended, but a step or move in flight uses it
};

}  // namespace takt

#endif  // TAKT_STATE_REQUEST_STATUS_H_
