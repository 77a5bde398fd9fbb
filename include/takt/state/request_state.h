// A request as policies see it.
#ifndef TAKT_STATE_REQUEST_STATE_H_
#define TAKT_STATE_REQUEST_STATE_H_

#include <cstdint>

#include "takt/model/request.h"
#include "takt/model/step.h"

namespace takt {

struct RequestState {
  Request request = {};  // arrival and workflow_arrival are always set; absurd estimates are replaced by unknown
  TimePoint enqueued{};  // time when the request last joined the waiting queue
  Tokens generated{0};  // output tokens so far, per sequence
  Tokens returned{0};  // tokens that tools added to its context
  // Context tokens that had KV on the GPU or in host memory when the request joined the queue or was last scored.
  Tokens computed{0};
  // Cached prompt tokens, updated when they change; 0 unless KV is held for workflows.
  Tokens cached{0};
  // Context tokens that all running requests had when this request joined the queue or was last scored.
  std::int32_t beside = 0;
  KvAction at_call = KvAction::kKeep;  // action that the pause policy plans for the request's next tool call
  bool has_run = false;  // true: a step has made progress for the request
  bool taken = false;  // true: the request was admitted to a step, taken by a queue's host, or placed on an instance
  bool cut = false;  // true: the host reported an early end (cancelled, failed or lost)
  std::uint32_t slot = 0;  // small index, unique among the living requests of its scheduler or router; reused
};

}  // namespace takt

#endif  // TAKT_STATE_REQUEST_STATE_H_
