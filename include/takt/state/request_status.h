// The status of a request in a scheduler.
#ifndef TAKT_STATE_REQUEST_STATUS_H_
#define TAKT_STATE_REQUEST_STATUS_H_

#include <cstdint>

namespace takt {

// The status of a request in a scheduler.
enum class RequestStatus : std::uint8_t {
  kUnknown,  // not in this scheduler, or no longer
  kWaiting,  // in the queue
  kRunning,  // has a lane
  kPaused,   // in a tool call
  kBlocked,  // waits for Unblocked
  kDead,  // ended, but a step or move in flight uses it
};

}  // namespace takt

#endif  // TAKT_STATE_REQUEST_STATUS_H_
