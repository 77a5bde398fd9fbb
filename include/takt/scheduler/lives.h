// BasicScheduler, continued: the life of a request, from its arrival to its release.
//
//                              Arrived            Blocked                    Unblocked
//                                 |        .---------------> kBlocked -------------------.
//    refused: Refuse -> released  v        |  (Shelve)                                   |
//                    Join --> kWaiting ----+---------------> kPaused ---- ToolReturned --+--> Join
//                               |  ^       |  ToolCalled
//       TryAdmit, Admit, SwapIn |  |       |  (Shelve)
//                               v  |       |
//                             kRunning ----'      Preempt: kRunning -> kWaiting
//
//    From any of these: a last token, Cancelled, or Fail (expired, shed, out of KV, the host) -> End -> kDead ->
//    Release, which names the request in the next plan's `released`.
//
// A request that leaves its row (Depart) may still be named by steps or by a move in flight. Its status is the new one
// at once; what happens to its row and its KV is told by three further facts, and follows in Settle when nothing in
// flight names it any more:
//
//    Transit    kDraining: steps in flight name the row.      kMovingIn: its KV comes back; the row is kMoving.
//               kMovingOut: its KV is on its way to the host's memory, and it has no row.     kNone: nothing of these.
//               kPinned: it has ended, and its KV is released by KvFreed.
//    RowState   kSteady and kUnsteady run; kMoving waits for kMovingIn; kLeaving has departed; kFree has no request.
//    leave_action   what Settle does with the KV: kKeep (paused, blocked), kDrop, or kOut (MoveOut).
//
// MoveDone ends a move: out, and the KV is the host's memory's; in, and the row runs. A request that is kDead in the
// middle of either is released then, and its lane and blocks are free only then.
#ifndef TAKT_SCHEDULER_LIVES_H_
#define TAKT_SCHEDULER_LIVES_H_

#include "takt/basic_scheduler.h"

namespace takt {

// Between two plans more may wait: so many might be let in by the next.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Join(Slot slot) {
  Enqueue(slot, 0);
  ShedDownTo(options_.max_waiting + std::min<std::int64_t>(options_.max_running, INT64_MAX - options_.max_waiting));
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Enqueue(Slot slot, std::int64_t steps_run) {
  Record& record = table_[slot];
  record.status = RequestStatus::kWaiting;
  record.state.enqueued = now_;
  record.fits_since = 0;
  Score(record);
  queue_.Push(slot, record.state, now_, steps_run);
  WatchExpiry(slot);
  if (!record.state.has_run) {
    ++fresh_.waiting;
    if (options_.shed == Shed::kNewest && options_.max_waiting < INT64_MAX) {
      fresh_.newest.Push(slot,
                         internal::PackedKey(0, record.state.request.arrival, record.state.request.id).Reversed());
    }
  }
  ++held_.changes;
  if (held_.joined.size() < held_.joined.capacity()) held_.joined.push_back(slot);
  held_.oldest = std::min(held_.oldest, record.state.request.arrival);
  if (held_.door.share > 0) NoteAtDoor(slot);
  NoteKept(slot);
  NoteJoined(slot);
  if (record.known >= OutputCap(record)) return EndAtCap(slot);
  if (BlocksFor(record) > TotalBlocks()) Fail(slot, FailReason::kKvExhausted);
}

// The next search for a request that fits is to look at it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::NoteJoined(Slot slot) {
  if (!search_.vain.holds || table_[slot].status != RequestStatus::kWaiting) return;
  search_.joined.push_back(slot);
  if (search_.joined.size() > table_.size())
    search_.vain.holds = false;  // some of them many times: all are looked at instead
  if (!search_.vain.holds) search_.joined.clear();
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::LeaveQueue(Slot slot) {
  queue_.Erase(slot);
  ++held_.changes;
  if (draft_.head == slot) draft_.head = kNoSlot;
  fresh_.waiting -= table_[slot].state.has_run ? 0 : 1;
  if (fresh_.newest.contains(slot)) fresh_.newest.Erase(slot);
  fresh_.expiries.Erase(slot);
  held_.by_arrival.Erase(slot);
}

// Waiting or blocked, it expires before its first step.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::WatchExpiry(Slot slot) {
  const RequestState& state = table_[slot].state;
  if (state.has_run || state.request.expires_at == kNever || fresh_.expiries.contains(slot)) return;
  fresh_.expiries.Push(slot, state.request.expires_at, state.request.arrival, state.request.id);
}

// Out of the ranked set, or out of its lane, to wait for something else.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Shelve(Slot slot, RequestStatus status, KvAction action, std::int32_t out) {
  Record& record = table_[slot];
  ++(status == RequestStatus::kPaused ? counts_.paused : counts_.blocked);
  if (record.status == RequestStatus::kRunning) return Depart(record.lane, action, status, out);
  LeaveQueue(slot);
  record.status = status;
  if (status == RequestStatus::kBlocked) WatchExpiry(slot);
  if (action == KvAction::kKeep) return;
  if (record.lane != kNoLane && record.leave_action == KvAction::kKeep) DropAtSettling(record);
  if (record.transit == Transit::kNone && record.blocks > 0) LetGo(slot, out);
}

// Takes a row out of the running set. Its lane and KV follow when no step or move in flight names them.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Depart(std::uint32_t lane, KvAction action, RequestStatus status,
                                           std::int32_t out) {
  Row& row = running_[lane];
  const Slot slot = row.slot;
  Record& record = table_[slot];
  const bool moving = row.state == RowState::kMoving;
  if (victims_.heap.contains(lane)) victims_.heap.Erase(lane);
  leaders_.Leave(lane);
  Void(row);
  if (std::exchange(row.left_out, false)) std::erase(left_out_, lane);
  row.state = RowState::kLeaving;
  --counts_.rows;
  counts_.seqs -= row.sequences;
  adapters_.Remove(record.state.request.adapter);

  if (row.sequences != Sequences(record)) {  // sequences that ended and were not yet taken out
    row.known -= (row.sequences - Sequences(record)) * row.generated;
    row.expected = row.known;
    row.computed = row.scheduled = std::min(row.computed, row.known);
    action = KvAction::kDrop;
  }
  record.known = row.known;
  record.state.generated = {row.generated};
  record.state.has_run |= row.generated > 0;
  record.leave_action = action;
  record.status = status;
  if (action == KvAction::kOut) AllocateCpu(record, out);
  if (action != KvAction::kKeep) counts_.leaving_blocks += row.blocks;
  if (!moving) record.transit = Transit::kDraining;
  if (status == RequestStatus::kWaiting) {
    Enqueue(slot, row.steps);
  } else {
    queue_.Ran(slot, row.steps);
    if (status == RequestStatus::kBlocked) WatchExpiry(slot);
  }
  if (row.in_flight == 0 && !moving) Settle(slot);
}

// A row that is leaving will give up its KV, whatever was decided.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::DropAtSettling(Record& record) {
  if (record.leave_action == KvAction::kKeep) counts_.leaving_blocks += running_[record.lane].blocks;
  if (record.leave_action == KvAction::kOut) FreeCpu(record);
  record.leave_action = KvAction::kDrop;
}

// Nothing in flight names the row any more: frees its lane, and does with its KV what was decided.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Settle(Slot slot) {
  Record& record = table_[slot];
  Row& row = running_[record.lane];
  record.computed = std::min(row.computed, record.known);
  record.blocks = row.blocks;
  running_.Free(record.lane);
  record.lane = kNoLane;
  record.transit = Transit::kNone;
  if (record.leave_action != KvAction::kKeep) counts_.leaving_blocks -= record.blocks;
  if (record.status == RequestStatus::kDead) return EndedAt(slot);
  if (record.leave_action == KvAction::kDrop) {
    NoteJoined(slot);
    return FreeKv(record);
  }
  if (record.leave_action == KvAction::kKeep && record.blocks > 0) kept_.Hold(slot, record.holds);
  NoteKept(slot);
  NoteJoined(slot);
  if (record.leave_action == KvAction::kOut) MoveOut(slot);
}

// The KV of a request without a lane starts on its way; its place in the host's memory is taken already.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::MoveOut(Slot slot) {
  Record& record = table_[slot];
  record.transit = Transit::kMovingOut;
  counts_.leaving_blocks += record.blocks;
  if (record.cpu_blocks < record.blocks) {
    record.was_computed = std::max(record.was_computed, record.computed);
    record.computed = std::min(record.computed, record.cpu_blocks * kv_.block_tokens);
  }
  const MoveId id = moves_.Begin(slot, KvAction::kOut);
  notices_.moves.push_back({id, record.state.request.id, KvAction::kOut, {0}, {record.cpu_blocks}});
  ++stats_.moves_out;
}

// Ends a living request, wherever it is.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::End(Slot slot) {
  Record& record = table_[slot];
  switch (record.status) {
    case RequestStatus::kRunning: return Depart(record.lane, KvAction::kDrop, RequestStatus::kDead);
    case RequestStatus::kWaiting: LeaveQueue(slot); break;
    case RequestStatus::kPaused:
      --counts_.paused;
      reviews_.Erase(slot);
      break;
    case RequestStatus::kBlocked:
      --counts_.blocked;
      fresh_.expiries.Erase(slot);
      break;
    case RequestStatus::kUnknown:
    case RequestStatus::kDead: return;
  }
  record.status = RequestStatus::kDead;
  if (record.transit == Transit::kNone) EndedAt(slot);  // else what is in flight settles it
}

// It has ended, and nothing in flight names it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::EndedAt(Slot slot) {
  Record& record = table_[slot];
  FreeCpu(record);
  if (record.pinned) {
    record.transit = Transit::kPinned;
    ++counts_.pinned;
    counts_.leaving_blocks += record.blocks;
    return;
  }
  if (Holds()) TurnNotAwaited(record);
  FreeKv(record);
  Release(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Fail(Slot slot, FailReason reason, std::uint16_t code) {
  SayFailed(table_[slot].state.request.id, reason, code);
  table_[slot].state.cut = true;
  End(slot);
}

// All its output is there, though no result said that it was the last: it would wait for ever.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::EndAtCap(Slot slot) {
  if (OutputCap(table_[slot]) == internal::kMostContext) return Fail(slot, FailReason::kKvExhausted);
  ++stats_.finished;
  End(slot);
}

// Fails a request that was never let in.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Refuse(RequestId id, FailReason reason) {
  SayFailed(id, reason);
  notices_.released.push_back(id);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::SayFailed(RequestId id, FailReason reason, std::uint16_t code) {
  ++Failures(reason);
  notices_.failed.push_back({.request = id, .reason = reason, .code = code});
}

template <RankPolicy Policy, PausePolicy Pause>
std::uint64_t& BasicScheduler<Policy, Pause>::Failures(FailReason reason) {
  switch (reason) {
    case FailReason::kInvalid: return stats_.failed_invalid;
    case FailReason::kNeverFits: return stats_.failed_never_fits;
    case FailReason::kKvExhausted: return stats_.failed_kv_exhausted;
    case FailReason::kExpired: return stats_.failed_expired;
    case FailReason::kShed: return stats_.failed_shed;
    case FailReason::kDraining: return stats_.failed_draining;
    case FailReason::kIdInUse: return stats_.failed_id_in_use;
    case FailReason::kHost: break;
  }
  return stats_.failed_host;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Release(Slot slot) {
  notices_.released.push_back(table_[slot].state.request.id);
  if (const Request& r = table_[slot].state.request; held_.hints && r.workflow) {
    const Tokens context{table_[slot].state.has_run ? table_[slot].known : 0};
    Hint(table_[slot].last_turn ? held_.hints->EndedLast(r.workflow, r.branch)
                                : held_.hints->Ended({r.workflow, r.branch, r.tenant}, context, now_));
  }
  queue_.Forget(slot, table_[slot].state, now_);
  table_[slot].status = RequestStatus::kDead;
  table_.PrefetchErase(slot);
  ended_.push_back(slot);
}

// Bounded waiting: of those that have never run, so many may stay.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::ShedDownTo(std::int64_t bound) {
  while (fresh_.waiting > bound) {
    const Slot shed = options_.shed == Shed::kNewest ? fresh_.newest.Top() : queue_.WorstNeverRun(now_, StateOf());
    if (shed != kNoSlot) {
      Fail(shed, FailReason::kShed);
      continue;
    }
    // All are promoted: the last of these goes first.
    search_.slots.clear();
    queue_.ForEachInOrder([&](Slot slot) {
      if (!table_[slot].state.has_run) search_.slots.push_back(slot);
      return true;
    });
    for (; fresh_.waiting > bound; search_.slots.pop_back()) Fail(search_.slots.back(), FailReason::kShed);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Expire(TimePoint now) {
  while (!fresh_.expiries.empty() && fresh_.expiries.next() <= now) Fail(fresh_.expiries.Top(), FailReason::kExpired);
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_LIVES_H_
