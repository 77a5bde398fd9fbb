// Explains requests, and checks the redundant counts of a scheduler.
#ifndef TAKT_SCHEDULER_EXPLAIN_H_
#define TAKT_SCHEDULER_EXPLAIN_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <iterator>
#include <utility>

#include "takt/scheduler/explanation.h"
#include "takt/scheduler/parts.h"

namespace takt::internal {

// Returns the output tokens per sequence of a living request; 0 if it is unknown.
inline Tokens GeneratedBy(const Parts& p, RequestId id) {
  const Slot slot = p.state.table.Find(id);
  if (slot == kNoSlot) return {0};
  const Record& record = p.state.table[slot];
  if (record.lane == kNoLane || record.status != RequestStatus::kRunning) return record.state.generated;
  return {p.state.running.Look(record.lane).generated};
}

// Returns the reason why a request waits. `first`: it is the first of the queue.
inline WaitsFor WaitReason(const Parts& p, const Record& record, bool first) {
  switch (record.status) {
    case RequestStatus::kWaiting: {
      if (record.prefix_seen_at == p.state.stats.plans) return WaitsFor::kPrefix;
      WaitsFor reason = p.state.PassedOverFor(record);
      if (reason != WaitsFor::kMove && reason != WaitsFor::kDeclined && reason != WaitsFor::kCeiling && !first)
        reason = WaitsFor::kItsTurn;
      if (reason == WaitsFor::kNothing) reason = p.state.draft.top_waits_for;
      if (reason == WaitsFor::kPrefix) reason = WaitsFor::kItsTurn;  // an earlier request waits for a prefix
      const bool gated = record.gated && (reason == WaitsFor::kItsTurn || reason == WaitsFor::kBudget);
      return gated ? WaitsFor::kGate : reason;
    }
    case RequestStatus::kRunning: return record.transit == Transit::kMovingIn ? WaitsFor::kMove : WaitsFor::kNothing;
    case RequestStatus::kPaused: return WaitsFor::kTool;
    case RequestStatus::kBlocked: return WaitsFor::kUnblock;
    case RequestStatus::kUnknown:
    case RequestStatus::kDead: break;
  }
  return WaitsFor::kNothing;
}

// Returns the reason why the first waiting request waits; kNothing if none waits.
inline WaitsFor HeadWaitsFor(const Parts& p) {
  return p.state.queue.empty() ? WaitsFor::kNothing : WaitReason(p, p.state.table[p.state.queue.Top()], true);
}

// Returns the state of a request and why it waits. O(waiting).
inline Explanation Explain(const Parts& p, RequestId id) {
  Explanation e;
  const Slot slot = p.state.table.Find(id);
  if (slot == kNoSlot) return e;
  const Record& record = p.state.table[slot];
  e.status = record.status;
  e.key = {p.state.queue.PeekKey(record.state, p.state.now).key};
  e.key_parts = p.state.queue.PartsOf(record.state);
  e.promoted = p.state.queue.promoted(slot);
  e.known = {record.known}, e.computed = {record.computed}, e.generated = record.state.generated;
  e.kv_blocks = {record.blocks}, e.cpu_blocks = {record.cpu_blocks};
  e.passed = record.passed;
  if (record.lane != kNoLane) {
    const Row row = p.state.running.Look(record.lane);
    if (record.status == RequestStatus::kRunning) e.known = {row.known}, e.generated = {row.generated};
    e.computed = {row.computed};
    e.in_flight = {row.scheduled - row.computed};
    e.kv_blocks = {row.blocks};
  }
  if (record.status == RequestStatus::kWaiting) e.ahead = p.state.queue.Ahead(slot);
  e.waits_for = WaitReason(p, record, e.ahead == 0);
  return e;
}

// Counts the waiting, paused and blocked requests by reason, and requests whose KV moves in. O(slots).
inline WaitingCounts WaitingByReason(const Parts& p) {
  WaitingCounts counts;
  const Slot top = p.state.queue.empty() ? kNoSlot : p.state.queue.Top();
  for (Slot slot = 0; slot < p.state.table.slots(); ++slot) {
    const WaitsFor reason = WaitReason(p, p.state.table[slot], slot == top);
    counts.of[static_cast<std::size_t>(reason)] += reason != WaitsFor::kNothing ? 1 : 0;
  }
  return counts;
}

// Compares every redundant count with a recount. Returns null if they agree. O(all requests).
inline const char* Inconsistency(const Parts& p) {
  if (p.faults.desk.log().count() != p.state.stats.faults()) return "the fault log disagrees with the counters";
  std::int64_t blocks = 0, cpu = 0, leaving = 0, waiting = 0, paused = 0, blocked = 0, alive = 0, in_flight = 0;
  std::int64_t rows = 0, seqs = 0, shared = 0, fetching = 0;
  std::array<std::pair<std::int32_t, std::int32_t>, kMostClasses> by_class = {};  // rows and sequences
  for (Slot slot = 0; slot < p.state.table.slots(); ++slot) {
    const Record& r = p.state.table[slot];
    if (r.status == RequestStatus::kUnknown) continue;
    ++alive;
    if (std::ranges::find(p.state.ended, slot) != p.state.ended.end()) continue;
    waiting += r.status == RequestStatus::kWaiting;
    paused += r.status == RequestStatus::kPaused;
    blocked += r.status == RequestStatus::kBlocked;
    cpu += r.cpu_blocks;
    if ((r.status == RequestStatus::kWaiting) != p.state.queue.contains(slot)) return "waiting and the queue disagree";
    if (p.state.ceilings != nullptr && r.status == RequestStatus::kWaiting && !p.ceilings.Lists(slot))
      return "a waiting request is not in the line of its class";
    const std::int32_t held_shared = r.shared_chunks > 0 ? r.shared_chunks * p.kv.ChunkBlocks(r) : 0;
    shared += held_shared;
    fetching += r.fetching > 0 ? std::int64_t{r.fetching} * p.kv.ChunkBlocks(r) : 0;
    std::int32_t held = r.blocks;
    if (r.lane != kNoLane) {
      const Row row = p.state.running.Look(r.lane);
      held = row.blocks;
      if (row.slot != slot || row.request != r.state.request.id) return "a row belongs to another request";
      if (row.state == RowState::kFree) return "a request holds a free lane";
      if ((row.state == RowState::kLeaving) == (r.status == RequestStatus::kRunning))
        return "a row's state and status disagree";
      if (row.computed > row.scheduled || row.scheduled > row.expected) return "token counts are out of order";
      if (row.known > row.expected || row.computed > row.known) return "more is computed than known";
      if (row.scheduled > row.capacity) return "more is scheduled than its blocks hold";
      in_flight += std::popcount(static_cast<std::uint8_t>(row.in_flight));
      if ((row.in_flight >> 8 & ~row.in_flight) != 0) return "a step that counts does not use its row";
      if (row.state == RowState::kLeaving) {
        leaving += r.leave_action != KvAction::kKeep ? row.blocks : 0;
      } else {
        ++rows, seqs += row.sequences;
        if (r.ceiling_class >= 0) {
          auto& [of_rows, of_seqs] = by_class[static_cast<std::size_t>(r.ceiling_class)];
          ++of_rows, of_seqs += row.sequences;
        }
      }
    } else if (r.transit == Transit::kMovingOut || r.transit == Transit::kPinned) {
      leaving += r.blocks;
    }
    blocks += held - held_shared;
    if (p.kv.Counts() && held < held_shared) return "a request shares more blocks than it holds";
  }
  if (alive != static_cast<std::int64_t>(p.state.table.size())) return "the size of the table is wrong";
  if (waiting != static_cast<std::int64_t>(p.state.queue.size()) || paused != p.state.counts.paused ||
      blocked != p.state.counts.blocked)
    return "the count of a status is wrong";
  if (rows != p.state.counts.rows || seqs != p.state.counts.seqs) return "the count of rows or sequences is wrong";
  for (std::size_t i = 0; p.state.ceilings != nullptr && i < by_class.size(); ++i) {
    if (!p.ceilings.Has(i, by_class[i].first, by_class[i].second)) return "the rows of a class are miscounted";
  }
  if (p.state.ceilings != nullptr && !p.ceilings.HasTenants(rows)) return "the tenants are miscounted";
  if (leaving != p.state.counts.leaving_blocks) return "the blocks of leaving rows are miscounted";
  if (p.kv.Counts()) {
    const KvUse use = p.kv.ledger.use();
    if (use.used > use.total) return "the KV cache is overcommitted";
    if (use.cpu_used.value != cpu) return "the host's memory is miscounted";
    if (use.cpu_used + use.cpu_cached > use.cpu_total) return "the host's memory is overcommitted";
    if (use.cpu_cached > p.state.options.prefix_cpu_blocks) return "the host's memory keeps too many prefix blocks";
    const std::int64_t pinned = p.kv.ledger.copies() != nullptr ? p.kv.ledger.copies()->referenced() : 0;
    if (pinned > fetching || (pinned == 0) != (fetching == 0)) return "KV being loaded is miscounted";
    if (blocks + p.kv.ledger.shared() != use.used.value) return "KV blocks are miscounted";
    if (shared < p.kv.ledger.shared()) return "unused prefix chunks have references";
  }
  std::int64_t entries = 0;
  for (const Step& s : p.state.steps.steps()) entries += s.in_flight ? std::ssize(s.plan.run) : 0;
  if (entries != in_flight) return "the entries in flight are miscounted";
  return nullptr;
}

}  // namespace takt::internal

#endif  // TAKT_SCHEDULER_EXPLAIN_H_
