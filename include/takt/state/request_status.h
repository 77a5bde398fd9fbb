// Where a request of a scheduler stands.
#ifndef TAKT_STATE_REQUEST_STATUS_H_
#define TAKT_STATE_REQUEST_STATUS_H_

#include <cstdint>

namespace takt {

// Where a request stands.
enum class RequestStatus : std::uint8_t {
  kUnknown,  // not here (any more)
  kWaiting,  // in the ranked set
  kRunning,  // has a lane
  kPaused,   // in a tool call
  kBlocked,  // until Unblocked
  kDead,     // ended, but a step or a move in flight names it
};

}  // namespace takt

#endif  // TAKT_STATE_REQUEST_STATUS_H_
