// BasicScheduler, continued: answers to questions, and a check of all counts.
#ifndef TAKT_SCHEDULER_EXPLAIN_H_
#define TAKT_SCHEDULER_EXPLAIN_H_

#include "takt/basic_scheduler.h"

namespace takt {

template <RankPolicy Policy, PausePolicy Pause>
Explanation BasicScheduler<Policy, Pause>::Explain(RequestId id) const {
  Explanation e;
  if (ended()) return e;
  const Slot slot = table_.Find(id);
  if (slot == kNoSlot) return e;
  const Record& record = table_[slot];
  e.status = record.status;
  e.key = {queue_.PeekKey(record.state, now_).key};
  e.key_parts = queue_.PartsOf(record.state);
  e.promoted = queue_.promoted(slot);
  e.known = {record.known}, e.computed = {record.computed}, e.generated = record.state.generated;
  e.kv_blocks = {record.blocks}, e.cpu_blocks = {record.cpu_blocks};
  e.passed = record.passed;
  if (record.lane != kNoLane) {
    const Row row = running_.Look(record.lane);
    if (record.status == RequestStatus::kRunning) e.known = {row.known}, e.generated = {row.generated};
    e.computed = {row.computed};
    e.in_flight = {row.scheduled - row.computed};
    e.kv_blocks = {row.blocks};
  }
  switch (record.status) {
    case RequestStatus::kWaiting:
      e.ahead = queue_.Ahead(slot);
      e.waits_for = PassedOverFor(record);
      if (e.waits_for != WaitsFor::kMove && e.waits_for != WaitsFor::kDeclined && e.ahead > 0)
        e.waits_for = WaitsFor::kItsTurn;
      if (e.waits_for == WaitsFor::kNothing) e.waits_for = draft_.top_waits_for;
      if (e.waits_for == WaitsFor::kPrefix) e.waits_for = WaitsFor::kItsTurn;  // another did, and was the first
      if (record.prefix_seen_at == stats_.plans) e.waits_for = WaitsFor::kPrefix;
      if (record.gated && (e.waits_for == WaitsFor::kItsTurn || e.waits_for == WaitsFor::kBudget)) {
        e.waits_for = WaitsFor::kGate;
      }
      break;
    case RequestStatus::kRunning:
      if (record.transit == Transit::kMovingIn) e.waits_for = WaitsFor::kMove;
      break;
    case RequestStatus::kPaused: e.waits_for = WaitsFor::kTool; break;
    case RequestStatus::kBlocked: e.waits_for = WaitsFor::kUnblock; break;
    case RequestStatus::kUnknown:
    case RequestStatus::kDead: break;
  }
  return e;
}

template <RankPolicy Policy, PausePolicy Pause>
const char* BasicScheduler<Policy, Pause>::Inconsistency() const {
  if (ended()) return nullptr;
  if (faults_.count() != stats_.faults()) return "faults are told otherwise than they are counted";
  std::int64_t blocks = 0, cpu = 0, leaving = 0, waiting = 0, paused = 0, blocked = 0, alive = 0, in_flight = 0;
  std::int64_t rows = 0, seqs = 0, shared = 0, fetching = 0;
  for (Slot slot = 0; slot < table_.slots(); ++slot) {
    const Record& r = table_[slot];
    if (r.status == RequestStatus::kUnknown) continue;
    ++alive;
    if (std::ranges::find(ended_, slot) != ended_.end()) continue;
    waiting += r.status == RequestStatus::kWaiting;
    paused += r.status == RequestStatus::kPaused;
    blocked += r.status == RequestStatus::kBlocked;
    cpu += r.cpu_blocks;
    if ((r.status == RequestStatus::kWaiting) != queue_.contains(slot)) return "waiting and the queue disagree";
    const std::int32_t held_shared = r.shared_chunks > 0 ? r.shared_chunks * ChunkBlocks(r) : 0;
    shared += held_shared;
    fetching += r.fetching > 0 ? std::int64_t{r.fetching} * ChunkBlocks(r) : 0;
    std::int32_t held = r.blocks;
    if (r.lane != kNoLane) {
      const Row row = running_.Look(r.lane);
      held = row.blocks;
      if (row.slot != slot || row.request != r.state.request.id) return "a row belongs to another request";
      if (row.state == RowState::kFree) return "a request holds a free lane";
      if ((row.state == RowState::kLeaving) == (r.status == RequestStatus::kRunning))
        return "a row's state and status disagree";
      if (row.computed > row.scheduled || row.scheduled > row.expected) return "token counts are out of order";
      if (row.known > row.expected || row.computed > row.known) return "more is computed than known";
      if (row.scheduled > row.capacity) return "more is scheduled than its blocks hold";
      in_flight += std::popcount(static_cast<std::uint8_t>(row.in_flight));
      if ((row.in_flight >> 8 & ~row.in_flight) != 0) return "a step counts that does not name its row";
      if (row.state == RowState::kLeaving) {
        leaving += r.leave_action != KvAction::kKeep ? row.blocks : 0;
      } else {
        ++rows, seqs += row.sequences;
      }
    } else if (r.transit == Transit::kMovingOut || r.transit == Transit::kPinned) {
      leaving += r.blocks;
    }
    blocks += held - held_shared;
    if (Counts() && held < held_shared) return "a request shares more blocks than it holds";
  }
  if (alive != static_cast<std::int64_t>(table_.size())) return "the table's size";
  if (waiting != this->waiting() || paused != counts_.paused || blocked != counts_.blocked) return "a count of states";
  if (rows != counts_.rows || seqs != counts_.seqs) return "the count of rows or sequences";
  if (leaving != counts_.leaving_blocks) return "the blocks of leaving rows";
  if (Counts()) {
    const KvUse use = kv_.ledger.use();
    if (use.used > use.total) return "the KV cache is overcommitted";
    if (use.cpu_used.value != cpu) return "the host's memory is miscounted";
    if (use.cpu_used + use.cpu_cached > use.cpu_total) return "the host's memory is overcommitted";
    if (use.cpu_cached > options_.prefix_cpu_blocks) return "the host's memory keeps too much of prefixes";
    const std::int64_t pinned = kv_.ledger.copies() != nullptr ? kv_.ledger.copies()->referenced() : 0;
    if (pinned > fetching || (pinned == 0) != (fetching == 0)) return "what is being loaded is miscounted";
    if (blocks + kv_.ledger.shared() != use.used.value) return "KV blocks are miscounted";
    if (shared < kv_.ledger.shared()) return "prefix chunks are referred to that nobody uses";
  }
  std::int64_t entries = 0;
  for (const internal::Step& s : steps_.steps()) entries += s.in_flight ? std::ssize(s.plan.run) : 0;
  if (entries != in_flight) return "entries in flight";
  return nullptr;
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_EXPLAIN_H_
