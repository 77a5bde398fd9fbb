// Handlers of events.
#ifndef TAKT_SCHEDULER_EVENTS_H_
#define TAKT_SCHEDULER_EVENTS_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "takt/scheduler/state.h"
#include "takt/scheduler/faults.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/search_memory.h"
#include "takt/scheduler/turns.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/paused_requests.h"
#include "takt/scheduler/ranks.h"
#include "takt/scheduler/kv_events.h"
#include "takt/scheduler/lives.h"

namespace takt::internal {

// Invariant: an event for an unknown request, or in the wrong state, has no effect and is counted as a fault.
class Events {
 public:
  Events(EngineState& s, Faults& faults, Kv& kv, SearchMemory& memory, Turns& turns, RestingKv& resting,
         PausedRequests& pauses, Ranks& ranks, Lives& lives, KvEvents& kv_events)
      : s_(s),
        faults_(faults),
        kv_(kv),
        memory_(memory),
        turns_(turns),
        resting_(resting),
        pauses_(pauses),
        ranks_(ranks),
        lives_(lives),
        kv_events_(kv_events) {}

  void Handle(const Arrived& e, TimePoint now) {
    const Request& r = e.request;
    // A request without an id, or with an id in use, fails at once and gets no release notice.
    if (!r.id) {
      faults_.Blame({.kind = FaultKind::kNoId});
      return lives_.Reject(r, FailReason::kInvalid);
    }
    if (s_.table.Find(r.id) != kNoSlot) {
      faults_.Blame({.kind = FaultKind::kIdInUse, .request = r.id});
      return lives_.Reject(r, FailReason::kIdInUse);
    }
    if (s_.draining) return lives_.Refuse(r, FailReason::kDraining);
    const auto invalid = [&](FaultKind kind, std::int32_t received) {
      faults_.Blame({.kind = kind, .request = r.id, .received = received});
      lives_.Refuse(r, FailReason::kInvalid);
    };
    if (r.prompt_tokens.value < 1 || r.prompt_tokens.value > kMostRequestTokens) {
      return invalid(FaultKind::kPromptTokens, r.prompt_tokens.value);
    }
    if (r.max_output_tokens.value < 0) return invalid(FaultKind::kMaxOutputTokens, r.max_output_tokens.value);
    if (r.sequences < 1) return invalid(FaultKind::kSequences, r.sequences);
    const auto never = [&r](std::int32_t most) { return most > 0 && r.sequences > most; };
    if (r.sequences > s_.options.max_running || r.sequences > UINT16_MAX ||
        std::int64_t{r.sequences} * kv_.block_tokens > kMostRequestTokens || never(s_.options.max_step_seqs) ||
        never(s_.options.max_step_tokens.value)) {  // each sequence takes a token
      return lives_.Refuse(r, FailReason::kNeverFits);
    }
    if (r.expires_at <= now) return lives_.Refuse(r, FailReason::kExpired);

    const Slot slot = s_.table.Insert(r);
    Record& record = s_.table[slot];
    Request& kept = record.state.request;
    faults_.Absurd(r.id, Sanitize(kept, now));
    record.known = kept.prompt_tokens.value;
    if (kv_.BlocksFor(record) > kv_.TotalBlocks()) {
      s_.table.Erase(slot);
      return lives_.Refuse(r, FailReason::kNeverFits);
    }
    ++s_.stats.arrived;
    if (turns_.Holds()) turns_.TurnBegins(record);
    if (turns_.hints() != nullptr && kept.workflow)
      turns_.hints()->Began({kept.workflow, kept.branch, kept.tenant}, now);
    if (kv_.ledger.holdings() != nullptr) s_.table.Salt(slot);
    if (s_.ceilings != nullptr) s_.ceilings->Arrived(kept.priority);
    lives_.Join(slot, TransitionReason::kArrived);
  }

  void Handle(const Revised& e, TimePoint) {
    const Slot slot = faults_.Living(e.request);
    if (slot == kNoSlot) return;
    Record& record = s_.table[slot];
    Request& r = record.state.request;
    const Revision revision = Revise(r, e);
    faults_.Absurd(e.request, revision.absurd);
    if (revision.sequences_out_of_place) faults_.OutOfPlace(e.request);
    if (e.expires_at || e.priority) {  // the class may limit the wait
      lives_.fresh().ForgetExpiry(slot);
      if (record.status == RequestStatus::kWaiting || record.status == RequestStatus::kBlocked)
        lives_.fresh().WatchExpiry(slot);
    }
    if (revision.sequences_ended > 0) {
      if (record.status == RequestStatus::kRunning) {
        // The row shrinks after the last step in flight that includes the ended sequences.
        Row& row = s_.running[record.lane];
        if (row.state == RowState::kSteady) row.state = RowState::kUnsteady;
      } else {
        if (record.transit == Transit::kNone) resting_.FreeKv(record), kv_.FreeCpu(record);
        if (record.lane != kNoLane) lives_.DropAtSettling(record);  // its KV is laid out for more sequences
        record.known -= revision.sequences_ended * record.state.generated.value;
        record.computed = std::max(std::min(record.computed, record.known - r.sequences), 0);
        memory_.NoteJoined(slot);
      }
    }
    if ((e.priority || revision.sequences_ended > 0) && s_.ceilings != nullptr) s_.ceilings->Revised(slot);
    if (record.status == RequestStatus::kWaiting) ranks_.Rank(slot);
    if (record.status == RequestStatus::kRunning) ranks_.RankRow(record.lane);
  }

  void Handle(const Blocked& e, TimePoint) {
    const Slot slot = faults_.Living(e.request);
    if (slot == kNoSlot) return;
    const RequestStatus status = s_.table[slot].status;
    if (status != RequestStatus::kWaiting && status != RequestStatus::kRunning) {
      faults_.OutOfPlace(e.request);
      return;
    }
    lives_.Shelve(slot, RequestStatus::kBlocked, KvAction::kKeep);
  }

  void Handle(const Unblocked& e, TimePoint) {
    const Slot slot = faults_.Living(e.request);
    if (slot == kNoSlot) return;
    if (s_.table[slot].status != RequestStatus::kBlocked) {
      faults_.OutOfPlace(e.request);
      return;
    }
    if (e.computed.value < 0) {
      faults_.OutOfPlace(e.request);
    } else if (e.computed.value > 0) {
      s_.table[slot].arrived = e.computed.value;
    }
    --s_.counts.blocked;
    lives_.Join(slot, TransitionReason::kUnblocked);
  }

  void Handle(const Drain&, TimePoint) { s_.draining = true; }

  void Handle(const NotReady& e, TimePoint) {
    const Slot slot = faults_.Living(e.request);
    if (slot == kNoSlot) return;
    const Record& record = s_.table[slot];
    if (record.status != RequestStatus::kRunning) {
      faults_.OutOfPlace(e.request);
      return;
    }
    Row& row = s_.running[record.lane];
    if (std::exchange(row.left_out, true)) return;
    if (row.state == RowState::kSteady) row.state = RowState::kUnsteady;
    s_.left_out.push_back(record.lane);
  }

  void Handle(const ToolCalled& e, TimePoint) {
    const Slot slot = faults_.Living(e.request);
    if (slot == kNoSlot) return;
    Record& record = s_.table[slot];
    // The request may be waiting, because it may have been preempted before the step that called the tool completed.
    if ((record.status != RequestStatus::kWaiting && record.status != RequestStatus::kRunning) ||
        s_.Sequences(record) != 1) {
      faults_.OutOfPlace(e.request);
      return;
    }
    ToolCalled call = e;
    if (internal::Absurd(call.expected, call.expected_returned)) {
      faults_.Absurd(e.request, 1);
      call.expected = {}, call.expected_returned = {0};
    }
    const PauseView view = pauses_.ViewOf(record);
    const PauseDecision decision = s_.queue.AtCall(record.state, call, view);
    const std::int32_t out = pauses_.BlocksOut(record, decision, view);
    const bool keep = decision.action == KvAction::kKeep || decision.action == KvAction::kIn;
    s_.queue.NoteToolCall(slot);
    record.state.request.next_call = {};  // it was made
    lives_.Shelve(slot, RequestStatus::kPaused,
                  keep      ? KvAction::kKeep
                  : out > 0 ? KvAction::kOut
                            : KvAction::kDrop,
                  out);
    if (keep && s_.queue.reviews()) pauses_.ReviewAt(slot, decision.review_at, {call, s_.now});
  }

  void Handle(const ToolReturned& e, TimePoint) {
    const Slot slot = faults_.Living(e.request);
    if (slot == kNoSlot) return;
    Record& record = s_.table[slot];
    if (record.status != RequestStatus::kPaused || e.returned.value < 0) {
      faults_.OutOfPlace(e.request);
      return;
    }
    if (e.returned.value > kMostRequestTokens - record.known) return lives_.Fail(slot, FailReason::kKvExhausted);
    --s_.counts.paused;
    pauses_.Forget(slot);
    record.known += e.returned.value;
    record.state.returned += e.returned;
    faults_.Absurd(e.request, Sanitize(record.state.request.next_call, e.next_call));
    lives_.Join(slot, TransitionReason::kToolReturned);
  }

  void Handle(const Cancelled& e, TimePoint) {
    const Slot slot = faults_.Living(e.request);
    if (slot == kNoSlot) return;
    ++s_.stats.cancelled;
    s_.table[slot].state.cut = true;
    lives_.End(slot, TransitionReason::kCancelled);
  }

  template <class E>
    requires requires(KvEvents& kv, const E& e, TimePoint now) { kv.Handle(e, now); }
  void Handle(const E& e, TimePoint now) {
    kv_events_.Handle(e, now);
  }

  void Handle(const TurnEnded& e, TimePoint now) {
    if (!turns_.On(e, now)) faults_.OutOfPlace({});
  }
  void Handle(const TurnExpected& e, TimePoint now) {
    if (!turns_.On(e, now)) faults_.OutOfPlace({});
  }
  void Handle(const WorkflowEnded& e, TimePoint now) {
    if (!turns_.On(e, now)) faults_.OutOfPlace({});
  }

 private:
  EngineState& s_;
  Faults& faults_;
  Kv& kv_;
  SearchMemory& memory_;
  Turns& turns_;
  RestingKv& resting_;
  PausedRequests& pauses_;
  Ranks& ranks_;
  Lives& lives_;
  KvEvents& kv_events_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_EVENTS_H_
