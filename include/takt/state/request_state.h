// What a policy sees of a request.
#ifndef TAKT_STATE_REQUEST_STATE_H_
#define TAKT_STATE_REQUEST_STATE_H_

#include <cstdint>

#include "takt/model/request.h"
#include "takt/model/step.h"

namespace takt {

struct RequestState {
  Request request = {};          // arrival and workflow_arrival are always set; absurd estimates read as unknown
  TimePoint enqueued{};     // when it last joined the waiting queue
  Tokens generated{0};      // output so far, per sequence
  Tokens returned{0};       // tokens that tools have added to its context
  // As of when it joined the queue, or was scored again: tokens of its context with KV on the GPU or in the host's
  // memory.
  Tokens computed{0};
  // As of the same time, where KV is held for workflows: tokens of its prompt that are cached; brought up to date as
  // that changes. 0 elsewhere.
  Tokens cached{0};
  // As of the same time: tokens of context of all that run.
  std::int32_t beside = 0;
  KvAction at_call = KvAction::kKeep;  // what the pause policy means to do at its next tool call
  bool has_run = false;     // a step has made progress for it
  bool taken = false;       // a place was given to it: in a step, by a queue's host, or on a router's instance
  bool cut = false;         // as it ends: before its time (cancelled, failed, lost), as far as the host tells
  std::uint32_t slot = 0;   // small index, unique among the living of its scheduler or router; reused
};

}  // namespace takt

#endif  // TAKT_STATE_REQUEST_STATE_H_
