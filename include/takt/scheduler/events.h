// BasicScheduler, continued: what events say.
#ifndef TAKT_SCHEDULER_EVENTS_H_
#define TAKT_SCHEDULER_EVENTS_H_

#include "takt/basic_scheduler.h"

namespace takt {

template <RankPolicy Policy, PausePolicy Pause>
TimePoint BasicScheduler<Policy, Pause>::Clock(TimePoint now) {
  if (now < now_) {
    Blame(&Stats::clock_stepped_back, {.kind = FaultKind::kClockBack,
                                       .said = now.time_since_epoch().count(),
                                       .expected = now_.time_since_epoch().count()});
  }
  now_ = std::max(now, now_);
  kv_.ledger.SetNow(now_);
  kv_.counted = false;  // each call begins here, and an oracle may have come to have other memory
  return now_;
}

// The host said what cannot be. `fault` comes without the step, unless it is in a result, and without the time.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Blame(std::uint64_t Stats::* counter, Fault fault) {
  ++(stats_.*counter);
  if (!fault.step) fault.step = {steps_.last()};
  fault.at = now_;
  faults_.Add(fault);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::UnknownRequest(RequestId id) {
  Blame(&Stats::events_unknown, {.kind = FaultKind::kUnknownRequest, .request = id});
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::OutOfPlace(RequestId id) {
  Blame(&Stats::events_out_of_place, {.kind = FaultKind::kOutOfPlace, .request = id});
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Absurd(RequestId id, int predictions) {
  for (; predictions > 0; --predictions) {
    Blame(&Stats::estimates_absurd, {.kind = FaultKind::kAbsurdEstimate, .request = id});
  }
}

// The slot of a request that has not ended; kNoSlot, and counted, where there is none.
template <RankPolicy Policy, PausePolicy Pause>
Slot BasicScheduler<Policy, Pause>::Living(RequestId id) {
  const Slot slot = table_.Find(id);
  if (slot != kNoSlot && table_[slot].status != RequestStatus::kDead) return slot;
  UnknownRequest(id);
  return kNoSlot;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Arrived& e, TimePoint now) {
  const Request& r = e.request;
  // Neither is released: the one has no name, and the name of the other still belongs to a request.
  if (!r.id) {
    faults_.Add({.kind = FaultKind::kNoId, .step = {steps_.last()}, .at = now_});
    return SayFailed(r.id, FailReason::kInvalid);
  }
  if (table_.Find(r.id) != kNoSlot) {
    faults_.Add({.kind = FaultKind::kIdInUse, .step = {steps_.last()}, .request = r.id, .at = now_});
    return SayFailed(r.id, FailReason::kIdInUse);
  }
  if (draining_) return Refuse(r.id, FailReason::kDraining);
  const auto invalid = [&](FaultKind kind, std::int32_t said) {
    faults_.Add({.kind = kind, .step = {steps_.last()}, .request = r.id, .at = now_, .said = said});
    Refuse(r.id, FailReason::kInvalid);
  };
  if (r.prompt_tokens.value < 1 || r.prompt_tokens.value > internal::kMostRequestTokens) {
    return invalid(FaultKind::kPromptTokens, r.prompt_tokens.value);
  }
  if (r.max_output_tokens.value < 0) return invalid(FaultKind::kMaxOutputTokens, r.max_output_tokens.value);
  if (r.sequences < 1) return invalid(FaultKind::kSequences, r.sequences);
  const auto never = [&r](std::int32_t most) { return most > 0 && r.sequences > most; };
  if (r.sequences > options_.max_running || r.sequences > UINT16_MAX ||
      std::int64_t{r.sequences} * kv_.block_tokens > internal::kMostRequestTokens || never(options_.max_step_seqs) ||
      never(options_.max_step_tokens.value)) {  // each takes a token
    return Refuse(r.id, FailReason::kNeverFits);
  }
  if (r.expires_at <= now) return Refuse(r.id, FailReason::kExpired);

  const Slot slot = table_.Insert(r);
  Record& record = table_[slot];
  Request& kept = record.state.request;
  Absurd(r.id, internal::Believe(kept, now));
  record.known = kept.prompt_tokens.value;
  if (BlocksFor(record) > TotalBlocks()) {
    table_.Erase(slot);
    return Refuse(r.id, FailReason::kNeverFits);
  }
  ++stats_.arrived;
  if (Holds()) TurnBegins(record);
  if (held_.hints && kept.workflow) held_.hints->Began({kept.workflow, kept.branch, kept.tenant}, now);
  if (kv_.ledger.holdings() != nullptr) table_.Salt(slot);
  Join(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Revised& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  Record& record = table_[slot];
  Request& r = record.state.request;
  const internal::Revision revision = internal::Revise(r, e);
  Absurd(e.request, revision.absurd);
  if (revision.sequences_out_of_place) OutOfPlace(e.request);
  if (e.expires_at) {
    fresh_.expiries.Erase(slot);
    if (record.status == RequestStatus::kWaiting || record.status == RequestStatus::kBlocked) WatchExpiry(slot);
  }
  if (revision.sequences_ended > 0) {
    if (record.status == RequestStatus::kRunning) {
      // Its row follows as soon as no step in flight counts the old ones.
      Row& row = running_[record.lane];
      if (row.state == RowState::kSteady) row.state = RowState::kUnsteady;
    } else {
      if (record.transit == Transit::kNone) FreeKv(record), FreeCpu(record);
      if (record.lane != kNoLane) DropAtSettling(record);  // its row is laid out for more sequences
      record.known -= revision.sequences_ended * record.state.generated.value;
      record.computed = std::max(std::min(record.computed, record.known - r.sequences), 0);
      NoteJoined(slot);
    }
  }
  if (record.status == RequestStatus::kWaiting) Rank(slot);
  if (record.status == RequestStatus::kRunning) RankRow(record.lane);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Blocked& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  const RequestStatus status = table_[slot].status;
  if (status != RequestStatus::kWaiting && status != RequestStatus::kRunning) {
    OutOfPlace(e.request);
    return;
  }
  Shelve(slot, RequestStatus::kBlocked, KvAction::kKeep);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Unblocked& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  if (table_[slot].status != RequestStatus::kBlocked) {
    OutOfPlace(e.request);
    return;
  }
  if (e.computed.value < 0) {
    OutOfPlace(e.request);
  } else if (e.computed.value > 0) {
    table_[slot].arrived = e.computed.value;
  }
  --counts_.blocked;
  Join(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const NotReady& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  const Record& record = table_[slot];
  if (record.status != RequestStatus::kRunning) {
    OutOfPlace(e.request);
    return;
  }
  Row& row = running_[record.lane];
  if (std::exchange(row.left_out, true)) return;
  if (row.state == RowState::kSteady) row.state = RowState::kUnsteady;
  left_out_.push_back(record.lane);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const KvArrived& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  if (table_[slot].status == RequestStatus::kRunning || e.computed.value < 0) {
    OutOfPlace(e.request);
    return;
  }
  table_[slot].arrived = e.computed.value;
  NoteJoined(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const KvLost& e, TimePoint) {
  const Slot slot = e.request ? Living(e.request) : kNoSlot;
  if (e.request && slot == kNoSlot) return;
  if (e.from.value < 0) {
    OutOfPlace(e.request);
    return;
  }
  if (slot != kNoSlot) return LoseKv(slot, e.from.value);
  if (Counts()) kv_.ledger.SpoilAll();
  for (Slot each = 0; each < table_.slots(); ++each) {
    const RequestStatus status = table_[each].status;
    if (status != RequestStatus::kUnknown && status != RequestStatus::kDead) LoseKv(each, e.from.value);
  }
}

// The tokens of its context from this one on are to be computed again.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::LoseKv(Slot slot, std::int32_t from) {
  Record& record = table_[slot];
  if (from < record.arrived) {
    record.arrived = from;
    NoteJoined(slot);
  }
  if (record.fetching > 0) {
    const std::int32_t whole = from / record.state.request.prefix.block_tokens.value;
    record.fetched = std::min(record.fetched, whole);
    kv_.ledger.SpoilCopies(Hashes(record, 0, record.fetching), whole, ChunkBlocks(record));
  }
  if (record.shared_chunks > 0) {
    const std::int32_t whole = from / record.state.request.prefix.block_tokens.value;
    if (whole < record.shared_chunks)
      kv_.ledger.Spoil(Hashes(record, 0, record.shared_chunks), whole, ChunkBlocks(record));
  }
  if (record.lane == kNoLane) {
    if (from >= record.computed) return;
    ++stats_.kv_lost;
    record.was_computed = std::max(record.was_computed, record.computed);
    record.computed = from;
    if (from == 0 && record.transit == Transit::kNone) FreeKv(record), FreeCpu(record);
    return NoteJoined(slot);
  }
  Row& row = running_[record.lane];
  if (from >= row.computed) return;
  ++stats_.kv_lost;
  record.was_computed = std::max(record.was_computed, row.computed);
  if (row.sequences > 1) from = std::min(from, record.state.request.prompt_tokens.value);  // what they share
  Void(row);
  row.computed = row.scheduled = from;
  row.drafts = 0;
  row.prefilling = true;
  if (row.state == RowState::kSteady) row.state = RowState::kUnsteady;
  if (row.state == RowState::kLeaving && from == 0) DropAtSettling(record);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const KvPinned& e, TimePoint) {
  const Slot slot = table_.Find(e.request);
  if (slot == kNoSlot) {
    UnknownRequest(e.request);
    return;
  }
  Record& record = table_[slot];
  const bool over = record.status == RequestStatus::kDead && record.transit == Transit::kNone;
  if (over || std::exchange(record.pinned, true)) OutOfPlace(e.request);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const KvFreed& e, TimePoint) {
  kv_.freed_at = stats_.plans, ++kv_.changes;
  if (!e.request) return;
  const Slot slot = table_.Find(e.request);
  if (slot == kNoSlot) {
    UnknownRequest(e.request);
    return;
  }
  Record& record = table_[slot];
  if (!std::exchange(record.pinned, false)) {
    OutOfPlace(e.request);
    return;
  }
  if (record.transit != Transit::kPinned) return;
  record.transit = Transit::kNone;
  --counts_.pinned;
  counts_.leaving_blocks -= record.blocks;
  EndedAt(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const ToolCalled& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  Record& record = table_[slot];
  // Waiting is possible: it may have been preempted while the step that called the tool was in flight.
  if ((record.status != RequestStatus::kWaiting && record.status != RequestStatus::kRunning) ||
      Sequences(record) != 1) {
    OutOfPlace(e.request);
    return;
  }
  ToolCalled call = e;
  if (internal::Absurd(call.expected, call.expected_returned)) {
    Absurd(e.request, 1);
    call.expected = {}, call.expected_returned = {0};
  }
  const PauseView view = ViewOf(record);
  const PauseDecision decision = pause_.AtCall(record.state, call, view);
  const std::int32_t out = BlocksOut(record, decision, view);
  const bool keep = decision.action == KvAction::kKeep || decision.action == KvAction::kIn;
  queue_.ToolCalled(slot);
  record.state.request.next_call = {};  // it has come
  Shelve(slot, RequestStatus::kPaused, keep ? KvAction::kKeep : out > 0 ? KvAction::kOut : KvAction::kDrop, out);
  if constexpr (ReviewingPause<Pause>) {
    if (keep) ReviewAt(slot, decision.review_at, {call, now_});
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const ToolReturned& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  Record& record = table_[slot];
  if (record.status != RequestStatus::kPaused || e.returned.value < 0) {
    OutOfPlace(e.request);
    return;
  }
  --counts_.paused;
  reviews_.Erase(slot);
  if (e.returned.value > internal::kMostRequestTokens - record.known) {
    record.status = RequestStatus::kBlocked, ++counts_.blocked;  // a status that Fail knows how to leave
    return Fail(slot, FailReason::kKvExhausted);
  }
  record.known += e.returned.value;
  record.state.returned += e.returned;
  Absurd(e.request, internal::Believe(record.state.request.next_call, e.next_call));
  Join(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Cancelled& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  ++stats_.cancelled;
  table_[slot].state.cut = true;
  End(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const MoveDone& e, TimePoint) {
  const std::optional<internal::Move> move = moves_.End(e.move);
  if (!move) {
    return Blame(&Stats::events_unknown,
                 {.kind = FaultKind::kUnknownMove, .said = static_cast<std::int64_t>(e.move.value)});
  }
  const Slot slot = move->slot;
  if (e.failed) ++stats_.moves_failed;

  Record& record = table_[slot];
  record.transit = Transit::kNone;
  if (move->action == KvAction::kOut) {
    const std::int32_t computed = record.computed;
    counts_.leaving_blocks -= record.blocks;
    FreeKv(record, KvAction::kOut);
    if (e.failed) {
      FreeCpu(record);
    } else {
      record.computed = computed;
    }
    if (record.status == RequestStatus::kDead) FreeCpu(record), Release(slot);
    NoteJoined(slot);
    return;
  }
  if (move->action == KvAction::kFetch) return Fetched(slot, e.failed);
  FreeCpu(record);
  Row& row = running_[record.lane];
  if (e.failed) {
    record.was_computed = std::max(record.was_computed, row.computed);
    row.computed = row.scheduled = 0;
  }
  if (row.state == RowState::kLeaving) return Settle(slot);
  row.state = RowState::kUnsteady;
  Refresh(row, record);
}

// What was loaded is there for others too. Where the load has failed, or what it loaded is lost, it is computed.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Fetched(Slot slot, bool failed) {
  Record& record = table_[slot];
  Row& row = running_[record.lane];
  const std::int32_t chunk_blocks = ChunkBlocks(record);
  const std::span<const std::uint64_t> hashes = Hashes(record, 0, std::exchange(record.fetching, 0));
  if (failed) {
    record.fetched = 0;
    kv_.ledger.SpoilCopies(hashes, record.shared_chunks, chunk_blocks);
  }
  kv_.ledger.UnpinCopies(hashes, chunk_blocks);
  const std::int32_t there = std::exchange(record.fetched, 0) * record.state.request.prefix.block_tokens.value;
  if (there > row.computed) {
    HitsOf(record) += static_cast<std::uint64_t>(there - row.computed);
    stats_.tokens_loaded += static_cast<std::uint64_t>(there - row.computed);
    row.computed = row.scheduled = there;
    PublishPrefix(row, record);
  }
  if (row.state == RowState::kLeaving) return Settle(slot);
  row.state = RowState::kUnsteady;
  Refresh(row, record);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::ChangePolicy(const Policy& policy, TimePoint now)
  requires std::same_as<Policy, AnyPolicy>
{
  const internal::Owner::Inside one_thread(owner_);
  if (inside_) return (void)Ended();
  queue_.PrepareChange(policy);
  inside_ = true;
  queue_.ChangePolicy(Clock(now), StateOf());
  for (std::uint32_t lane : running_.order()) {
    const Row& row = running_.Stored(lane);
    if (row.state == RowState::kFree || row.state == RowState::kLeaving) continue;
    RankRow(lane);
    queue_.Admitted(StateOfRow(running_.Look(lane)), now_);
  }
  inside_ = false;
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_EVENTS_H_
