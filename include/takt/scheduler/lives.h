// The life of a request, from arrival to release.
#ifndef TAKT_SCHEDULER_LIVES_H_
#define TAKT_SCHEDULER_LIVES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "takt/scheduler/state.h"
#include "takt/scheduler/ceilings.h"
#include "takt/scheduler/fresh_requests.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/search_memory.h"
#include "takt/scheduler/gate.h"
#include "takt/scheduler/turns.h"
#include "takt/scheduler/prefixes.h"
#include "takt/scheduler/resting_kv.h"
#include "takt/scheduler/paused_requests.h"
#include "takt/scheduler/victims.h"
#include "takt/scheduler/ranks.h"

namespace takt::internal {

// Invariant: the counts of EngineState agree with the statuses. A request is in the queue if and only if its status is
// kWaiting.
class Lives {
 public:
  Lives(EngineState& s, Kv& kv, SearchMemory& memory, Gate& gate, Turns& turns, Prefixes& prefixes, RestingKv& resting,
        PausedRequests& pauses, Victims& victims, Ranks& ranks)
      : s_(s),
        kv_(kv),
        memory_(memory),
        gate_(gate),
        turns_(turns),
        prefixes_(prefixes),
        resting_(resting),
        pauses_(pauses),
        victims_(victims),
        ranks_(ranks),
        fresh_(s) {}

  FreshRequests& fresh() { return fresh_; }

  // Puts a request into the queue. Between plans, the bound on waiting requests rises by the number of requests that
  // the next plan could admit.
  void Join(Slot slot, TransitionReason why) {
    Enqueue(slot, 0, s_.table[slot].status, why);
    if (const WaitingBook::Excess over = fresh_.book().OverBy(slot, s_.options.max_running); over.slot != kNoSlot)
      ShedOne(over);
    ShedDownTo(
        s_.options.max_waiting + std::min<std::int64_t>(s_.options.max_running, INT64_MAX - s_.options.max_waiting),
        false);
  }

  // `goes`: it gets a row.
  void LeaveQueue(Slot slot, bool goes = false) {
    if (s_.ceilings != nullptr) s_.ceilings->Dequeued(slot, goes);
    s_.queue.Erase(slot, goes);
    gate_.Changed();
    if (s_.draft.head == slot) s_.draft.head = kNoSlot;
    fresh_.Left(slot, goes);
    gate_.Left(slot);
  }

  // Removes a request from the queue or from its row, because it waits for a tool or an unblock event.
  void Shelve(Slot slot, RequestStatus status, KvAction action, std::int32_t out = 0) {
    Record& record = s_.table[slot];
    ++(status == RequestStatus::kPaused ? s_.counts.paused : s_.counts.blocked);
    const TransitionReason why =
        status == RequestStatus::kPaused ? TransitionReason::kToolCalled : TransitionReason::kBlocked;
    if (record.status == RequestStatus::kRunning) return Depart(record.lane, action, status, why, out);
    LeaveQueue(slot);
    record.status = status;
    fresh_.Parked(slot, status);
    s_.Moved(record, RequestStatus::kWaiting, why);
    if (action == KvAction::kKeep) return;
    if (record.lane != kNoLane && record.leave_action == KvAction::kKeep) DropAtSettling(record);
    if (record.transit == Transit::kNone && record.blocks > 0) resting_.LetGo(slot, out);
  }

  // Takes a row out of the running set. Its lane and KV are freed when no step or move in flight uses them.
  void Depart(std::uint32_t lane, KvAction action, RequestStatus status, TransitionReason why, std::int32_t out = 0) {
    Row& row = s_.running[lane];
    const Slot slot = row.slot;
    Record& record = s_.table[slot];
    const bool moving = row.state == RowState::kMoving;
    victims_.Leave(lane);
    prefixes_.Leave(lane);
    s_.Void(row);
    if (std::exchange(row.left_out, false)) std::erase(s_.left_out, lane);
    row.state = RowState::kLeaving;
    --s_.counts.rows;
    s_.counts.seqs -= row.sequences;
    if (s_.ceilings != nullptr) s_.ceilings->Left(record, row);
    s_.adapters.Remove(record.state.request.adapter);
    s_.pacer.Remove(record.state.request.token_pace);

    if (row.sequences != s_.Sequences(record)) {  // some sequences have ended but are still in the row
      row.known -= (row.sequences - s_.Sequences(record)) * row.generated;
      row.expected = row.known;
      row.computed = row.scheduled = std::min(row.computed, row.known);
      action = KvAction::kDrop;
    }
    record.known = row.known;
    record.state.generated = {row.generated};
    record.state.has_run |= row.generated > 0;
    record.leave_action = action;
    record.status = status;
    if (action == KvAction::kOut) kv_.AllocateCpu(record, out);
    if (action != KvAction::kKeep) s_.counts.leaving_blocks += row.blocks;
    if (!moving) record.transit = Transit::kDraining;
    if (status == RequestStatus::kWaiting) {
      Enqueue(slot, row.steps, RequestStatus::kRunning, why);
    } else {
      s_.queue.Ran(slot, row.steps);
      fresh_.Parked(slot, status);
      s_.Moved(record, RequestStatus::kRunning, why);
    }
    if (row.in_flight == 0 && !moving) Settle(slot);
  }

  // Makes a departing row drop its KV, even if an earlier decision kept it.
  void DropAtSettling(Record& record) {
    if (record.leave_action == KvAction::kKeep) s_.counts.leaving_blocks += s_.running[record.lane].blocks;
    if (record.leave_action == KvAction::kOut) kv_.FreeCpu(record);
    record.leave_action = KvAction::kDrop;
  }

  // Frees the lane of a row that no step or move in flight uses. Keeps, drops or moves its KV as decided.
  void Settle(Slot slot) {
    Record& record = s_.table[slot];
    Row& row = s_.running[record.lane];
    record.computed = std::min(row.computed, record.known);
    record.blocks = row.blocks;
    s_.running.Free(record.lane);
    record.lane = kNoLane;
    record.transit = Transit::kNone;
    if (record.leave_action != KvAction::kKeep) s_.counts.leaving_blocks -= record.blocks;
    if (record.status == RequestStatus::kDead) return EndedAt(slot);
    if (record.leave_action == KvAction::kDrop) {
      memory_.NoteJoined(slot);
      return resting_.FreeKv(record);
    }
    if (record.leave_action == KvAction::kKeep && record.blocks > 0) resting_.kept().Hold(slot, record.holds);
    resting_.NoteKept(slot);
    memory_.NoteJoined(slot);
    if (record.leave_action == KvAction::kOut) resting_.MoveOut(slot);
  }

  // Ends a living request in any state.
  void End(Slot slot, TransitionReason why) {
    Record& record = s_.table[slot];
    const RequestStatus from = record.status;
    switch (from) {
      case RequestStatus::kRunning: return Depart(record.lane, KvAction::kDrop, RequestStatus::kDead, why);
      case RequestStatus::kWaiting: LeaveQueue(slot); break;
      case RequestStatus::kPaused:
        --s_.counts.paused;
        pauses_.Forget(slot);
        fresh_.Forget(slot);
        break;
      case RequestStatus::kBlocked:
        --s_.counts.blocked;
        fresh_.Forget(slot);
        break;
      case RequestStatus::kUnknown:
      case RequestStatus::kDead: return;
    }
    record.status = RequestStatus::kDead;
    s_.Moved(record, from, why);
    if (record.transit == Transit::kNone) EndedAt(slot);  // otherwise the step or move in flight ends it
  }

  // Ends a request that has all its output but was never reported as finished. Otherwise it would wait forever.
  void EndAtCap(Slot slot) {
    if (s_.OutputCap(s_.table[slot]) == kMostContext) return Fail(slot, FailReason::kKvExhausted);
    ++s_.stats.finished;
    End(slot, TransitionReason::kFinished);
  }

  // Frees and releases an ended request that nothing in flight uses.
  void EndedAt(Slot slot) {
    Record& record = s_.table[slot];
    kv_.FreeCpu(record);
    if (record.pinned) {
      record.transit = Transit::kPinned;
      ++s_.counts.pinned;
      s_.counts.leaving_blocks += record.blocks;
      return;
    }
    if (turns_.Holds()) turns_.TurnNotAwaited(record);
    resting_.FreeKv(record);
    Release(slot);
  }

  // `retry_ms`: see Failure::retry_after_ms.
  void Fail(Slot slot, FailReason reason, std::uint16_t code = 0, std::uint32_t retry_ms = 0) {
    SayFailed(s_.table[slot].state.request.id, reason, code, retry_ms);
    s_.table[slot].state.cut = true;
    End(slot, ReasonOf(reason));
  }

  // Fails a request that was never inserted.
  void Refuse(const Request& r, FailReason reason) {
    Reject(r, reason);
    s_.notices.released.push_back(r.id);
  }
  // Fails a request whose id names none or another request, so no release follows.
  void Reject(const Request& r, FailReason reason) {
    SayFailed(r.id, reason);
    if (s_.observer.moved != nullptr) s_.observer.moved(s_.observer.context, Refusal(r, reason, s_.now));
  }

  void Release(Slot slot) {
    s_.notices.released.push_back(s_.table[slot].state.request.id);
    if (const Request& r = s_.table[slot].state.request; turns_.hints() != nullptr && r.workflow) {
      const Tokens context{s_.table[slot].state.has_run ? s_.table[slot].known : 0};
      turns_.Hint(s_.table[slot].last_turn ? turns_.hints()->EndedLast(r.workflow, r.branch)
                                           : turns_.hints()->Ended({r.workflow, r.branch, r.tenant}, context, s_.now));
    }
    s_.queue.Forget(slot, s_.table[slot].state, s_.now);
    s_.table[slot].status = RequestStatus::kDead;
    s_.table.PrefetchErase(slot);
    s_.ended.push_back(slot);
  }

  // Sheds requests that have never run until all bounds hold: of tenants, then of classes, then of the queue.
  void ShedAll() {
    for (WaitingBook::Excess over; (over = fresh_.book().OverTenantOrClass()).slot != kNoSlot;) ShedOne(over);
    ShedDownTo(s_.options.max_waiting, true);
  }

  // Sheds requests that have never run until at most `bound` are waiting. `tokens`: the bound on tokens must hold, too.
  void ShedDownTo(std::int64_t bound, bool tokens) {
    while (fresh_.Over(bound, tokens)) {
      const bool of_tokens = fresh_.waiting() <= bound;
      if (const Slot shed = fresh_.ToShed(); shed != kNoSlot) {
        ShedOne({shed, WaitingBook::kAll, of_tokens});
        continue;
      }
      // All requests are promoted, so shed them from the end of the queue.
      s_.scratch.clear();
      s_.queue.ForEachInOrder([&](Slot slot) {
        if (!s_.table[slot].state.has_run) s_.scratch.push_back(slot);
        return true;
      });
      for (; fresh_.Over(bound, tokens); s_.scratch.pop_back())
        ShedOne({s_.scratch.back(), WaitingBook::kAll, of_tokens});
    }
  }

  void Expire(TimePoint now) {
    for (Slot slot; (slot = fresh_.Expired(now)) != kNoSlot;) Fail(slot, FailReason::kExpired);
  }

 private:
  void ShedOne(const WaitingBook::Excess& over) {
    const Duration after = fresh_.book().RetryAfter(over, s_.now);
    Fail(over.slot, over.reason(), 0, static_cast<std::uint32_t>((after.count() + 999'999) / 1'000'000));
  }

  void Enqueue(Slot slot, std::int64_t steps_run, RequestStatus from, TransitionReason why) {
    Record& record = s_.table[slot];
    record.status = RequestStatus::kWaiting;
    record.state.enqueued = s_.now;
    record.fits_since = 0;
    ranks_.Score(record);
    s_.queue.Push(slot, record.state, s_.now, steps_run);
    if (s_.ceilings != nullptr) s_.ceilings->Enqueued(slot);
    fresh_.Joined(slot);
    gate_.Joined(slot);
    resting_.NoteKept(slot);
    memory_.NoteEntered(slot);
    s_.Moved(record, from, why);
    if (record.known >= s_.OutputCap(record)) return EndAtCap(slot);
    if (kv_.BlocksFor(record) > kv_.TotalBlocks()) Fail(slot, FailReason::kKvExhausted);
  }

  void SayFailed(RequestId id, FailReason reason, std::uint16_t code = 0, std::uint32_t retry_ms = 0) {
    ++Failures(reason);
    s_.notices.failed.push_back({.request = id, .reason = reason, .code = code, .retry_after_ms = retry_ms});
  }

  std::uint64_t& Failures(FailReason reason) {
    switch (reason) {
      case FailReason::kInvalid: return s_.stats.failed_invalid;
      case FailReason::kNeverFits: return s_.stats.failed_never_fits;
      case FailReason::kKvExhausted: return s_.stats.failed_kv_exhausted;
      case FailReason::kExpired: return s_.stats.failed_expired;
      case FailReason::kShed: return s_.stats.failed_shed;
      case FailReason::kDraining: return s_.stats.failed_draining;
      case FailReason::kIdInUse: return s_.stats.failed_id_in_use;
      case FailReason::kQuota: return s_.stats.failed_quota;
      case FailReason::kHost:
      case FailReason::kNoInstance: break;
    }
    return s_.stats.failed_host;
  }

  EngineState& s_;
  Kv& kv_;
  SearchMemory& memory_;
  Gate& gate_;
  Turns& turns_;
  Prefixes& prefixes_;
  RestingKv& resting_;
  PausedRequests& pauses_;
  Victims& victims_;
  Ranks& ranks_;
  FreshRequests fresh_;
};

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_LIVES_H_
