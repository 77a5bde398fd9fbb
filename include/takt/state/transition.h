// Transitions of requests between statuses, and an observer of them.
#ifndef TAKT_STATE_TRANSITION_H_
#define TAKT_STATE_TRANSITION_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "takt/base/count.h"
#include "takt/base/id.h"
#include "takt/base/names.h"
#include "takt/base/slot.h"
#include "takt/base/time.h"
#include "takt/model/request.h"
#include "takt/model/step.h"
#include "takt/state/request_status.h"

namespace takt {

// The reason of a transition. The last values have the names and the order of FailReason.
enum class TransitionReason : std::uint8_t {
  kArrived,
  kAdmitted,  // the request got its first row; in a router: its first instance
  kResumed,  // the request got a row or an instance again
  kFirstToken,  // the first output token; the status does not change
  kPreemptedKv,  // the request lost its row because memory or room was short
  kPreemptedRank,  // the request lost its row to a request of better rank
  kInstanceLost,  // the request's instance went down
  kBlocked,  // the host blocked the request; in a router: it is too large for every instance that is up
  kUnblocked,
  kToolCalled,
  kToolReturned,
  kFinished,
  kCancelled,
  kInvalid,
  kNeverFits,
  kKvExhausted,
  kExpired,
  kShed,
  kDraining,
  kHost,
  kIdInUse,
  kQuota,
  kNoInstance,
};
constexpr auto NamesOf(TransitionReason) {
  return std::to_array<std::string_view>(
      {"arrived",       "admitted", "resumed",    "first_token",  "preempted_kv",  "preempted_rank",
       "instance_lost", "blocked",  "unblocked",  "tool_called",  "tool_returned", "finished",
       "cancelled",     "invalid",  "never_fits", "kv_exhausted", "expired",       "shed",
       "draining",      "host",     "id_in_use",  "quota",        "no_instance"});
}
constexpr TransitionReason ReasonOf(FailReason reason) {
  return static_cast<TransitionReason>(static_cast<std::uint8_t>(TransitionReason::kInvalid) +
                                       static_cast<std::uint8_t>(reason));
}
static_assert(ReasonOf(FailReason::kNoInstance) == TransitionReason::kNoInstance);

// A change of a request's status. Each accepted request begins with kUnknown to kWaiting or kBlocked, and ends exactly
// once, with a change to kDead. Each change begins with the status in which the previous one ended.
//
// A refused request has one transition, from kUnknown to kDead, with slot kNoSlot. For kIdInUse, the accepted request
// with that id continues.
struct Transition {
  RequestId request = {};
  std::uint32_t slot = kNoSlot;  // small index, unique among the living requests of its scheduler or router; reused
  RequestStatus from = RequestStatus::kUnknown, to = RequestStatus::kUnknown;
  TransitionReason reason = TransitionReason::kArrived;
  TimePoint at{};  // time of the call that made the transition
  Tokens known{0};  // context tokens
  Tokens generated{0};  // output tokens so far, per sequence
  Tokens recomputed{0};  // context tokens computed again so far; 0 in a router
  const Request* about = nullptr;  // the request with its revisions, valid during the call; never null
};

namespace internal {
constexpr Transition Refusal(const Request& r, FailReason reason, TimePoint now) {
  return {.request = r.id, .to = RequestStatus::kDead, .reason = ReasonOf(reason), .at = now, .about = &r};
}
}  // namespace internal

// Receives each transition, during the call that makes it. It must not call the object that it observes. An exception
// from an observer ends that object, as an exception from a policy does.
struct Observer {
  void (*moved)(void* context, const Transition& transition) = nullptr;  // null: no observer
  void* context = nullptr;
};

}  // namespace takt

#endif  // TAKT_STATE_TRANSITION_H_
