// BasicScheduler, continued: events, and the lives of requests.
#ifndef TAKT_SCHEDULER_EVENTS_H_
#define TAKT_SCHEDULER_EVENTS_H_

#include "takt/basic_scheduler.h"

namespace takt {

// Nanoseconds as a double are exact for a hundred days; beyond, what expires within a microsecond may swap.
inline FullKey ExpiryKey(const Request& r) {
  return {static_cast<double>(r.expires_at.time_since_epoch().count()), r.arrival, r.id};
}

// A prediction that cannot be meant, or that sums would overflow with: nothing of it is believed.
inline bool Absurd(Duration duration, Tokens returned, Tokens after = {0}) {
  constexpr Duration kLongest = FromSeconds(1e9);
  const auto outside = [](Tokens t) { return t.value < 0 || t.value > kMostRequestTokens; };
  return duration < Duration::zero() || duration > kLongest || outside(returned) || outside(after);
}

// ---- what events say ------------------------------------------------------------------------------------------

template <RankPolicy Policy, PausePolicy Pause>
NextCall BasicScheduler<Policy, Pause>::Believed(const NextCall& told) {
  if (!Absurd(told.duration, told.returned, told.after)) return told;
  ++stats_.estimates_absurd;
  return {};
}

template <RankPolicy Policy, PausePolicy Pause>
WorkAfter BasicScheduler<Policy, Pause>::Believed(const WorkAfter& told) {
  if (!told.absurd()) return told;
  ++stats_.estimates_absurd;
  return {};
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Arrived& e, TimePoint now) {
  const Request& r = e.request;
  // Neither is released: the one has no name, and the name of the other is still somebody's.
  if (!r.id) return Fault(r.id, FailReason::kInvalid);
  if (table_.Find(r.id) != IdMap::kAbsent) return Fault(r.id, FailReason::kIdInUse);
  if (draining_) return Refuse(r.id, FailReason::kDraining);
  if (r.prompt_tokens.value < 1 || r.prompt_tokens.value > kMostRequestTokens || r.max_output_tokens.value < 0 ||
      r.sequences < 1) {
    return Refuse(r.id, FailReason::kInvalid);
  }
  const auto never = [&r](std::int32_t most) { return most > 0 && r.sequences > most; };
  if (r.sequences > options_.max_running || r.sequences > UINT16_MAX ||
      std::int64_t{r.sequences} * block_tokens_ > kMostRequestTokens || never(options_.max_step_seqs) ||
      never(options_.max_step_tokens.value)) {  // each takes a token
    return Refuse(r.id, FailReason::kNeverFits);
  }
  if (r.expires_at <= now) return Refuse(r.id, FailReason::kExpired);

  const Slot slot = table_.Insert(r);
  Record& record = table_[slot];
  Request& kept = record.state.request;
  if (kept.arrival == kUnset) kept.arrival = now;
  if (kept.workflow_arrival == kUnset) kept.workflow_arrival = kept.arrival;
  for (Estimate* estimate : {&kept.output_tokens, &kept.workflow_tokens_left}) {
    if (estimate->known() || *estimate == Estimate{}) continue;
    ++stats_.estimates_absurd;
    *estimate = {};
  }
  kept.next_call = Believed(kept.next_call);
  kept.after = Believed(kept.after);
  record.known = kept.prompt_tokens.value;
  if (BlocksFor(record) > TotalBlocks()) {
    table_.Erase(slot);
    return Refuse(r.id, FailReason::kNeverFits);
  }
  ++stats_.arrived;
  Join(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Revised& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  Record& record = table_[slot];
  Request& r = record.state.request;
  const auto revise = [this](Estimate& estimate, const std::optional<Estimate>& news) {
    if (!news) return;
    const bool absurd = !news->known() && !(*news == Estimate{});
    stats_.estimates_absurd += absurd ? 1 : 0;
    estimate = absurd ? Estimate{} : *news;
  };
  revise(r.output_tokens, e.output_tokens);
  revise(r.workflow_tokens_left, e.workflow_tokens_left);
  if (e.after) r.after = Believed(*e.after);
  if (e.next_call) r.next_call = Believed(*e.next_call);
  if (e.deadline) r.deadline = *e.deadline;
  if (e.priority) r.priority = *e.priority;
  if (e.expires_at) {
    r.expires_at = *e.expires_at;
    if (expiries_.contains(slot)) expiries_.Erase(slot);
    if (record.status == RequestStatus::kWaiting || record.status == RequestStatus::kBlocked) WatchExpiry(slot);
  }
  if (e.sequences) {
    if (*e.sequences < 1 || *e.sequences > r.sequences) {
      ++stats_.events_out_of_place;
    } else if (*e.sequences < r.sequences) {
      const std::int32_t ended = r.sequences - *e.sequences;
      r.sequences = *e.sequences;
      if (record.status == RequestStatus::kRunning) {
        // Its row follows as soon as no step in flight counts the old ones.
        Row& row = running_[record.lane];
        if (row.state == RowState::kSteady) row.state = RowState::kUnsteady;
      } else {
        if (record.transit == Transit::kNone) FreeKv(record), FreeCpu(record);
        if (record.lane != kNoLane) DropAtSettling(record);  // its row is laid out for more sequences
        record.known -= ended * record.state.generated.value;
        record.computed = std::max(std::min(record.computed, record.known - r.sequences), 0);
        NoteJoined(slot);
      }
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
    ++stats_.events_out_of_place;
    return;
  }
  Shelve(slot, RequestStatus::kBlocked, KvAction::kKeep);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Unblocked& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  if (table_[slot].status != RequestStatus::kBlocked) {
    ++stats_.events_out_of_place;
    return;
  }
  --blocked_;
  Join(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const ToolCalled& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  Record& record = table_[slot];
  // Waiting is possible: it may have been preempted while the step that called the tool was in flight.
  if ((record.status != RequestStatus::kWaiting && record.status != RequestStatus::kRunning) ||
      Sequences(record) != 1) {
    ++stats_.events_out_of_place;
    return;
  }
  ToolCalled call = e;
  if (Absurd(call.expected, call.expected_returned)) {
    ++stats_.estimates_absurd;
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
    ++stats_.events_out_of_place;
    return;
  }
  --paused_;
  EndReviews(slot);
  if (e.returned.value > kMostRequestTokens - record.known) {
    record.status = RequestStatus::kBlocked, ++blocked_;  // a status that Fail knows how to leave
    return Fail(slot, FailReason::kKvExhausted);
  }
  record.known += e.returned.value;
  record.state.returned += e.returned;
  record.state.request.next_call = Believed(e.next_call);
  Join(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const Cancelled& e, TimePoint) {
  const Slot slot = Living(e.request);
  if (slot == kNoSlot) return;
  ++stats_.cancelled;
  End(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const MoveDone& e, TimePoint) {
  const auto move = std::ranges::find(moves_, e.move, &Move::id);
  if (move == moves_.end()) {
    ++stats_.events_unknown;
    return;
  }
  const Slot slot = move->slot;
  const KvAction action = move->action;
  moves_.erase(move);
  if (e.failed) ++stats_.moves_failed;

  Record& record = table_[slot];
  record.transit = Transit::kNone;
  if (action == KvAction::kOut) {
    const std::int32_t computed = record.computed;
    leaving_blocks_ -= record.blocks;
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

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Handle(const PolicyChanged& e, TimePoint now) {
  if constexpr (std::is_same_v<Policy, AnyPolicy>) {
    if (e.policy == nullptr) {
      ++stats_.events_out_of_place;
      return;
    }
    queue_.ChangePolicy(now, StateOf());
    for (std::uint32_t lane : running_.order()) {
      const Row& row = running_[lane];
      if (row.state == RowState::kFree || row.state == RowState::kLeaving) continue;
      RankRow(lane);
    }
  } else {
    ++stats_.events_out_of_place;  // a policy composed at compile time stays
  }
}

// ---- lives ----------------------------------------------------------------------------------------------------

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
  Score(record);
  queue_.Push(slot, record.state, now_, steps_run);
  WatchExpiry(slot);
  if (!record.state.has_run) {
    ++never_run_;
    if (options_.shed == Shed::kNewest && options_.max_waiting < INT64_MAX) {
      newest_waiting_.Push(slot, PackedKey(0, record.state.request.arrival, record.state.request.id).Reversed());
    }
  }
  NoteKept(slot);
  NoteJoined(slot);
  if (record.known >= OutputCap(record)) return EndAtCap(slot);
  if (BlocksFor(record) > TotalBlocks()) Fail(slot, FailReason::kKvExhausted);
}

// The next search for anyone who fits is to look at it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::NoteJoined(Slot slot) {
  if (!searched_.holds || table_[slot].status != RequestStatus::kWaiting) return;
  joined_.push_back(slot);
  if (joined_.size() > table_.size()) searched_.holds = false;  // some of them many times: all are looked at instead
  if (!searched_.holds) joined_.clear();
}

// It waits with KV of its own, perhaps.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::NoteKept(Slot slot) {
  Record& record = table_[slot];
  if (record.status != RequestStatus::kWaiting || record.lane != kNoLane || record.blocks == 0) return;
  const std::int32_t need = std::max(BlocksFor(record) - record.blocks, 0);
  came_back_least_ = came_back_.empty() ? need : std::min(came_back_least_, need);
  if (!std::exchange(record.came_back, true)) came_back_.push_back(slot);
}

// What a key may depend on besides the request itself, as it is now.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Score(Record& record) {
  RequestState& state = record.state;
  state.computed = {KeptOf(record).computed};
  if constexpr (RefreshingPolicy<Policy>) {
    if (queue_.policy().refresh_interval() > 0) {
      state.beside = static_cast<std::int32_t>(std::min<std::int64_t>(RunningTokens(), INT32_MAX));
    }
  }
  if constexpr (PredictingPause<Pause>) {
    if constexpr (requires { pause_.predicts(); }) {
      if (!pause_.predicts()) return;
    }
    if (!state.request.next_call) return;
    PauseView view = ViewOf(record);
    view.context = {record.known};  // it will all have been computed
    state.at_call = pause_.Predict(state, view);
  }
}

// A waiting request's key may have changed.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Rank(Slot slot) {
  Record& record = table_[slot];
  Score(record);
  queue_.Update(slot, record.state, now_);
}

// What its policy sees of a request that runs, brought up to date.
template <RankPolicy Policy, PausePolicy Pause>
RequestState& BasicScheduler<Policy, Pause>::StateOfRow(const Row& row) {
  RequestState& state = table_[row.slot].state;
  state.generated = {row.generated};
  state.has_run |= row.generated > 0;
  return state;
}

// A running request's key may have changed.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::RankRow(std::uint32_t lane) {
  const Row& row = running_[lane];
  RequestState& state = StateOfRow(row);
  state.computed = {row.computed};
  queue_.Enter(state, now_);
  row_keys_[lane] = queue_.VictimKeyOf(state, now_);
}

// The next slice of those that wait is scored again.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::RefreshScores() {
  if constexpr (RefreshingPolicy<Policy>) {
    const std::int64_t interval = queue_.policy().refresh_interval();
    if (interval <= 0 || interval == kForever) return;
    const auto slots = static_cast<std::int64_t>(table_.slots());
    for (std::int64_t n = (slots + interval - 1) / interval; n > 0; --n) {
      if (refresh_next_ >= table_.slots()) refresh_next_ = 0;
      const Slot slot = refresh_next_++;
      if (table_[slot].status == RequestStatus::kWaiting) Rank(slot);
    }
  }
}

// The KV that a request has, or will have once the steps in flight for it have resolved.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::KeptOf(const Record& record) const -> Kept {
  if (record.lane == kNoLane) return {record.computed, record.blocks};
  const Row& row = running_[record.lane];
  if (record.status == RequestStatus::kRunning || record.leave_action == KvAction::kKeep)
    return {row.computed, row.blocks};
  if (record.leave_action == KvAction::kDrop) return {};
  const bool part = record.cpu_blocks < row.blocks;
  return {part ? std::min(row.computed, record.cpu_blocks * block_tokens_) : row.computed, row.blocks};
}

// Context of all that run; counted once a plan.
template <RankPolicy Policy, PausePolicy Pause>
std::int64_t BasicScheduler<Policy, Pause>::RunningTokens() {
  if (running_tokens_at_ == last_step_) return running_tokens_;
  running_tokens_at_ = last_step_;
  running_tokens_ = 0;
  for (std::uint32_t lane : running_.order()) {
    if (Runs(running_[lane])) running_tokens_ += running_[lane].computed;
  }
  return running_tokens_;
}

template <RankPolicy Policy, PausePolicy Pause>
PauseView BasicScheduler<Policy, Pause>::ViewOf(const Record& record) {
  const Kept kept = KeptOf(record);
  return {.now = now_,
          .context = {kept.computed},
          .running_tokens = RunningTokens(),
          .held = {kept.blocks},
          .kv_free = kv().free,
          .swap_free = {std::min(ledger_.cpu_free(), std::max(swap_out_left_, 0))}};
}

// ---- paused requests ------------------------------------------------------------------------------------------

// How many blocks move out by a decision; 0: none, or none may.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::BlocksOut(const Record& record, const PauseDecision& decision,
                                                      const PauseView& view) const {
  if (decision.action != KvAction::kOut || record.cpu_blocks > 0) return 0;
  const std::int32_t blocks = std::clamp(decision.out.value, 0, view.held.value);
  const bool may = blocks <= std::min(ledger_.cpu_free(), swap_out_left_) &&
                   HasOwnKv(record, blocks, std::min(view.context.value, blocks * block_tokens_));
  return may ? blocks : 0;
}

// KV that a paused request without a lane holds: so many blocks move out, and the rest is dropped.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::LetGo(Slot slot, std::int32_t out) {
  Record& record = table_[slot];
  if (out == 0) return FreeKv(record);
  AllocateCpu(record, out);
  MoveOut(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::ReviewAt(Slot slot, TimePoint at, const PausedCall& call) {
  if (at == kNever) return;
  if (slot >= calls_.size()) calls_.resize(std::max<std::size_t>(slot + 1, table_.slots()));
  calls_[slot] = call;
  calls_[slot].review_at = at;
  reviews_.Push(slot, FullKey{static_cast<double>(at.time_since_epoch().count()), {}, table_[slot].state.request.id});
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::EndReviews(Slot slot) {
  if (reviews_.contains(slot)) reviews_.Erase(slot);
}

// The pause policy is asked again about those whose tool takes long.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Review() {
  if constexpr (ReviewingPause<Pause>) {
    constexpr Duration kSoon = std::chrono::milliseconds(1);
    while (!reviews_.empty() && calls_[reviews_.Top()].review_at <= now_) {
      const Slot slot = reviews_.Pop();
      Record& record = table_[slot];
      const PausedCall call = calls_[slot];
      if (record.transit != Transit::kNone) {  // steps in flight name it
        ReviewAt(slot, now_ + kSoon, call);
        continue;
      }
      if (record.blocks == 0) continue;  // others needed it more
      const PauseView view = ViewOf(record);
      const PauseDecision decision = pause_.Review(record.state, call.call, call.since, view);
      if (decision.action == KvAction::kKeep || decision.action == KvAction::kIn) {
        if (decision.review_at != kNever) ReviewAt(slot, std::max(decision.review_at, now_ + kSoon), call);
        continue;
      }
      ++stats_.pauses_let_go;
      LetGo(slot, BlocksOut(record, decision, view));
    }
  }
}

// Waiting or blocked, it expires before its first step.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::WatchExpiry(Slot slot) {
  const RequestState& state = table_[slot].state;
  if (state.has_run || state.request.expires_at == kNever || expiries_.contains(slot)) return;
  expiries_.Push(slot, ExpiryKey(state.request));
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::LeaveQueue(Slot slot) {
  queue_.Erase(slot);
  if (head_ == slot) head_ = kNoSlot;
  never_run_ -= table_[slot].state.has_run ? 0 : 1;
  if (newest_waiting_.contains(slot)) newest_waiting_.Erase(slot);
  if (expiries_.contains(slot)) expiries_.Erase(slot);
}

// Out of the ranked set, or out of its lane, to wait for something else.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Shelve(Slot slot, RequestStatus status, KvAction action, std::int32_t out) {
  Record& record = table_[slot];
  ++(status == RequestStatus::kPaused ? paused_ : blocked_);
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
  if (victims_.contains(lane)) victims_.Erase(lane);
  Void(row);
  row.state = RowState::kLeaving;
  --running_rows_;
  running_seqs_ -= row.sequences;
  UseAdapter(record.state.request.adapter, -1);

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
  if (action != KvAction::kKeep) leaving_blocks_ += row.blocks;
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
  if (record.leave_action == KvAction::kKeep) leaving_blocks_ += running_[record.lane].blocks;
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
  if (record.leave_action != KvAction::kKeep) leaving_blocks_ -= record.blocks;
  if (record.status == RequestStatus::kDead) {
    FreeKv(record), FreeCpu(record);
    return Release(slot);
  }
  if (record.leave_action == KvAction::kDrop) {
    NoteJoined(slot);
    return FreeKv(record);
  }
  if (record.leave_action == KvAction::kKeep && record.blocks > 0 && !std::exchange(record.holds, true)) {
    holders_.push_back(slot);
  }
  NoteKept(slot);
  NoteJoined(slot);
  if (record.leave_action == KvAction::kOut) MoveOut(slot);
}

// The KV of a request without a lane starts on its way; its place in the host's memory is taken already.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::MoveOut(Slot slot) {
  Record& record = table_[slot];
  record.transit = Transit::kMovingOut;
  leaving_blocks_ += record.blocks;
  if (record.cpu_blocks < record.blocks) {
    record.was_computed = std::max(record.was_computed, record.computed);
    record.computed = std::min(record.computed, record.cpu_blocks * block_tokens_);
  }
  const MoveId id{++last_move_};
  moves_.push_back({id, slot, KvAction::kOut});
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
      --paused_;
      EndReviews(slot);
      break;
    case RequestStatus::kBlocked:
      --blocked_;
      if (expiries_.contains(slot)) expiries_.Erase(slot);
      break;
    case RequestStatus::kUnknown:
    case RequestStatus::kDead: return;
  }
  record.status = RequestStatus::kDead;
  if (record.transit != Transit::kNone) return;  // what is in flight settles it
  FreeKv(record);
  FreeCpu(record);
  Release(slot);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Fail(Slot slot, FailReason reason) {
  Fault(table_[slot].state.request.id, reason);
  End(slot);
}

// All its output is there, though no result said that it was the last: it would wait for ever.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::EndAtCap(Slot slot) {
  if (OutputCap(table_[slot]) == kMostContext) return Fail(slot, FailReason::kKvExhausted);
  ++stats_.finished;
  End(slot);
}

// Fails a request that was never let in.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Refuse(RequestId id, FailReason reason) {
  Fault(id, reason);
  notices_.released.push_back(id);
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Fault(RequestId id, FailReason reason) {
  ++Failures(reason);
  notices_.failed.push_back({id, reason});
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
  queue_.Forget(slot, table_[slot].state, now_);
  table_[slot].status = RequestStatus::kDead;
  table_.PrefetchErase(slot);
  forgotten_.push_back(slot);
}

// What is in flight for this row does not count.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Void(Row& row) {
  stats_.tokens_void += static_cast<std::uint64_t>(row.scheduled - row.computed);
  row.in_flight &= static_cast<std::uint16_t>(~Row::kCounting);
  // Who ended without a token may have done so before the result of the step that computes what was known.
  row.computed = std::min(row.computed, row.known);
  row.scheduled = row.computed;
  row.expected = row.known;
}

// Takes sequences that have ended out of a row; no step in flight may name it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Shrink(Row& row, Record& record) {
  const std::int32_t left = Sequences(record);
  const std::int32_t base = row.known - row.sequences * row.generated;
  const std::int32_t behind = row.known - row.computed;
  running_seqs_ -= row.sequences - left;
  row.known = base + left * row.generated;
  // Decoding, each sequence lacks its last token; recomputing, the share that is there is kept.
  row.computed = behind == row.sequences ? row.known - left
                 : row.computed <= base  ? row.computed
                                         : base + (row.computed - base) / row.sequences * left;
  row.sequences = static_cast<std::uint16_t>(left);
  row.scheduled = row.computed;
  row.expected = row.known;
  record.known = row.known;
  record.state.generated = {row.generated};
  if (Counts()) {
    const std::int32_t blocks = std::min(row.blocks, BlocksFor(record));
    ledger_.Free(row.blocks - blocks);
    row.blocks = blocks;
  }
  row.capacity = CapacityOf(record, row.blocks);
  Refresh(row, record);
}

// Bounded waiting: of those that have never run, so many may stay.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::ShedDownTo(std::int64_t bound) {
  while (never_run_ > bound) {
    Slot shed = options_.shed == Shed::kNewest ? newest_waiting_.Top() : queue_.WorstNeverRun(now_, StateOf());
    if (shed == kNoSlot) {  // all are promoted
      queue_.ForEachInOrder([&](Slot slot) {
        if (!table_[slot].state.has_run) shed = slot;
        return true;
      });
    }
    Fail(shed, FailReason::kShed);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Expire(TimePoint now) {
  while (!expiries_.empty()) {
    const Slot slot = expiries_.Top();
    if (table_[slot].state.request.expires_at > now) return;
    Fail(slot, FailReason::kExpired);
  }
}

// ---- KV -------------------------------------------------------------------------------------------------------

// Blocks that hold its known tokens. Sequences share the blocks of the prompt that they cannot write to.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::BlocksFor(const Record& record) const {
  if (block_tokens_ == 0) return 0;
  const std::int32_t n = Sequences(record);
  if (n == 1) return (record.known + block_tokens_ - 1) / block_tokens_;
  const std::int32_t generated = record.state.generated.value;
  const std::int32_t base = record.known - n * generated;
  return base / block_tokens_ + n * ((base % block_tokens_ + generated + block_tokens_ - 1) / block_tokens_);
}

// Known tokens that fit into so many blocks; the inverse of BlocksFor. What the sequences cannot share evenly is spare.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::CapacityOf(const Record& record, std::int32_t blocks) const {
  if (block_tokens_ == 0) return std::numeric_limits<std::int32_t>::max();
  const std::int32_t n = Sequences(record);
  if (n == 1) return blocks * block_tokens_;
  const std::int32_t base = record.known - n * record.state.generated.value;
  return base + n * ((blocks - base / block_tokens_) / n * block_tokens_ - base % block_tokens_);
}

template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::TotalBlocks() const {
  if (oracle_ != nullptr) return oracle_->total_blocks().value;
  return Counts() ? ledger_.total() : std::numeric_limits<std::int32_t>::max();
}

// Whether there is anything to swap: KV beyond prefix chunks that others may share.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::HasOwnKv(const Record& record, std::int32_t blocks, std::int32_t computed) const {
  const std::int32_t chunks = record.shared_chunks;
  return blocks > 0 && computed > (chunks > 0 ? chunks * record.state.request.prefix->block_tokens.value : 0);
}

// Gives back the GPU's blocks of a request without a lane; its tokens have to be computed again.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::FreeKv(Record& record, KvAction action) {
  record.was_computed = std::max(record.was_computed, record.computed);
  record.computed = 0;
  if (record.blocks == 0) return;
  if (oracle_ != nullptr) {
    oracle_->Release(record.state.request.id, action);
  } else if (Counts()) {
    std::int32_t shared = 0;
    if (record.shared_chunks > 0) {
      shared = record.shared_chunks * ChunkBlocks(record);
      ledger_.Release(Hashes(record, 0, record.shared_chunks), ChunkBlocks(record));
      record.shared_chunks = 0;
    }
    ledger_.Free(record.blocks - shared);
  }
  record.blocks = 0;
}

// A place in the host's memory for blocks that are to move out.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AllocateCpu(Record& record, std::int32_t blocks) {
  record.cpu_blocks = blocks;
  ledger_.AllocateCpu(blocks);
  swap_out_left_ -= blocks;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::FreeCpu(Record& record) {
  ledger_.FreeCpu(record.cpu_blocks);
  record.cpu_blocks = 0;
}

// Once a plan: those whose KV may be dropped for others.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::RankHolders() {
  if (std::exchange(droppable_of_, last_step_) == last_step_) return;
  std::erase_if(holders_, [this](Slot slot) {
    Record& record = table_[slot];
    record.holds = record.blocks > 0 && record.lane == kNoLane;
    return !record.holds;
  });
  droppable_.clear();
  held_by_waiting_ = 0;
  for (Slot slot : holders_) {
    const Record& record = table_[slot];
    if (record.transit != Transit::kNone) continue;
    const bool waits = record.status == RequestStatus::kWaiting;
    droppable_.push_back({waits, queue_.VictimRankOf(record.state, now_), slot, record.blocks});
    held_by_waiting_ += waits ? record.blocks : 0;
  }
  std::make_heap(droppable_.begin(), droppable_.end());
}

// Drops KV that is kept for somebody who does not run: the worst of those that wait, and where none does and not only
// they are `waiting`, of those that are paused or blocked; never `spared`. False where there is none.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Reclaim(Slot spared, bool waiting) {
  if (waiting && came_back_.empty()) return false;
  RankHolders();
  std::optional<Holder> passed;
  bool dropped = false;
  while (!dropped && !droppable_.empty() && (droppable_.front().waits || !waiting)) {
    std::pop_heap(droppable_.begin(), droppable_.end());
    const Holder worst = droppable_.back();
    droppable_.pop_back();
    if (worst.slot == spared) {
      passed = worst;
      continue;
    }
    held_by_waiting_ -= worst.waits ? worst.blocks : 0;
    Record& record = table_[worst.slot];
    if (record.blocks == 0 || record.lane != kNoLane) continue;  // it has got a lane since, or has ended
    ++stats_.kv_reclaimed;
    FreeKv(record);
    dropped = true;
  }
  if (passed) {
    droppable_.push_back(*passed);
    std::push_heap(droppable_.begin(), droppable_.end());
  }
  return dropped;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PublishPrefix(const Row& row, Record& record) {
  const std::int32_t chunk_blocks = ChunkBlocks(record);
  if (chunk_blocks == 0) return;
  const PrefixBlocks& prefix = *record.state.request.prefix;
  const std::int32_t whole =
      std::min(row.computed, record.state.request.prompt_tokens.value) / prefix.block_tokens.value;
  const std::int32_t last = std::min(whole, static_cast<std::int32_t>(prefix.hashes.size()));
  while (record.shared_chunks < last) {
    if (!ledger_.Publish(prefix.hashes[static_cast<std::size_t>(record.shared_chunks)], chunk_blocks)) return;
    ++record.shared_chunks;
  }
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_EVENTS_H_
