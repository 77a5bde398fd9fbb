// BasicScheduler, continued: results, and answers to questions.
#ifndef TAKT_SCHEDULER_COMMIT_H_
#define TAKT_SCHEDULER_COMMIT_H_

#include "takt/basic_scheduler.h"

namespace takt {

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Commit(const StepResult& result, TimePoint now) {
  if (inside_) return static_cast<void>(Ended());
  const auto buffer =
      std::ranges::find_if(*buffers_, [&](const Buffer& b) { return b.in_flight && b.plan.id == result.step; });
  const bool known = buffer != buffers_->end();
  if (known) MakeRoomFor(*buffer);
  Clock(now);
  host_changes_ += oracle_ != nullptr ? 1u : 0u;
  if (!known) {
    ++stats_.commits_unknown;
    return;
  }
  inside_ = true;
  buffer->in_flight = false;
  --steps_in_flight_;
  ++stats_.commits;

  const std::uint16_t step = buffer->bits;
  const auto counting = static_cast<std::uint16_t>(step & Row::kCounting), others = static_cast<std::uint16_t>(~step);
  const std::span<const PlanEntry> run = buffer->plan.run;
  const std::size_t both = std::min(run.size(), result.rows.size());
  std::uint64_t output = 0;
  std::size_t i = 0;
  for (; i < both; ++i) {
    const PlanEntry& entry = run[i];
    const RowResult& news = result.rows[i];
    if (news.request != entry.request || news.lane != entry.lane) break;
    Row& row = running_[entry.lane];
    // One token per sequence for a row that decodes, and nothing else to say: nearly always.
    const bool plain = entry.flags == PlanEntry::kSamples && entry.speculative == 0 && news.tokens == 1 &&
                       (news.flags | news.drafts) == 0 && (row.in_flight & counting) != 0;
    if (!plain) [[unlikely]] {
      Apply(entry, news, step);
      continue;
    }
    row.computed += entry.tokens;
    row.known += entry.tokens;
    row.drafts = 0;
    ++row.generated;
    row.in_flight &= others;
    output += static_cast<std::uint64_t>(entry.tokens);
    TellScheduled(entry, 0, entry.tokens);
  }
  stats_.tokens_output += output;
  if (i < run.size() || i < result.rows.size()) CommitScattered(*buffer, result.rows, i);
  inside_ = false;
}

// Rows that are missing, doubled, unknown or out of order, from the first place where plan and result part. The first
// row that names an entry's request and lane is its result; others are unknown, and harm nobody.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::CommitScattered(const Buffer& buffer, std::span<const RowResult> rows,
                                                    std::size_t first) {
  const std::span<const PlanEntry> run = buffer.plan.run;
  for (std::size_t i = first; i < run.size(); ++i) entry_of_lane_[run[i].lane] = static_cast<std::uint32_t>(i + 1);
  for (std::size_t j = first; j < rows.size(); ++j) {
    const std::uint32_t lane = rows[j].lane;
    const std::uint32_t i = lane < entry_of_lane_.size() ? entry_of_lane_[lane] : 0;
    if (i == 0 || run[i - 1].request != rows[j].request) {
      ++stats_.rows_unknown;
      continue;
    }
    entry_of_lane_[lane] = 0;
    Apply(run[i - 1], rows[j], buffer.bits);
  }
  for (std::size_t i = first; i < run.size(); ++i) {
    if (std::exchange(entry_of_lane_[run[i].lane], 0) != 0) Absent(run[i], buffer.bits);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Apply(const PlanEntry& entry, const RowResult& result, std::uint16_t step) {
  if (Voided(entry, step)) return;
  Row& row = running_[entry.lane];
  const Slot slot = row.slot;
  if (result.failed()) {
    row.in_flight &= static_cast<std::uint16_t>(~step);
    return Fail(slot, FailReason::kHost);
  }
  const std::int32_t most = entry.samples() ? 1 + entry.speculative : 0;
  const std::int32_t sampled = std::min<std::int32_t>(result.tokens, most);
  stats_.rows_invalid += sampled != result.tokens ? 1 : 0;
  if (entry.samples() && sampled == 0 && !result.finished()) {
    ++stats_.rows_invalid;
    return Absent(entry, step);
  }
  Record& record = table_[slot];
  row.in_flight &= static_cast<std::uint16_t>(~step);
  const std::int32_t accepted = std::max(sampled - 1, 0);
  const std::int32_t rejected = entry.speculative - accepted;
  const std::int32_t fresh = sampled > 0 ? row.sequences + accepted : 0;
  row.computed += entry.tokens + accepted;
  row.scheduled -= rejected;
  row.expected -= rejected;
  row.known += fresh;
  row.generated += sampled;
  row.drafts = result.drafts;
  if (row.drafts > 0 && row.state == RowState::kSteady) row.state = RowState::kUnsteady;
  record.state.has_run = true;
  const std::int32_t prefilled = entry.prefill() ? entry.tokens : 0;
  stats_.tokens_prefill += static_cast<std::uint64_t>(prefilled);
  stats_.tokens_recomputed +=
      static_cast<std::uint64_t>(std::clamp(record.was_computed - entry.position, 0, entry.tokens));
  stats_.tokens_output += static_cast<std::uint64_t>(fresh);
  if (prefilled > 0 && Counts()) PublishPrefix(row, record);
  TellScheduled(entry, prefilled, fresh);
  if (result.finished()) {
    ++stats_.finished;
    Depart(entry.lane, KvAction::kDrop, RequestStatus::kDead);
  }
}

// No progress for this entry, so none for what was planned on top of it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Absent(const PlanEntry& entry, std::uint16_t step) {
  if (Voided(entry, step)) return;
  ++stats_.rows_absent;
  Row& row = running_[entry.lane];
  row.in_flight &= static_cast<std::uint16_t>(~step);
  Void(row);
  row.drafts = 0;
  row.state = RowState::kUnsteady;
  row.prefilling = row.generated == 0 || row.known - row.computed != row.sequences;
}

// True where the row has left since this entry was planned, or what was in flight for it does not count.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Voided(const PlanEntry& entry, std::uint16_t step) {
  Row& row = running_[entry.lane];
  TAKT_ASSERT(row.request == entry.request && (row.in_flight & step) != 0);
  if (row.Counts(step)) return false;
  ++stats_.rows_dead;
  row.in_flight &= static_cast<std::uint16_t>(~step);
  if (row.state == RowState::kLeaving && row.in_flight == 0) Settle(row.slot);
  return true;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TellScheduled(const PlanEntry& entry, std::int32_t prefill, std::int32_t output) {
  if constexpr (ScheduledPolicy<Policy>) {
    if constexpr (requires { queue_.policy().wants_scheduled(); }) {
      if (!queue_.policy().wants_scheduled()) return;
    }
    const Row& row = running_[entry.lane];
    RequestState& state = table_[row.slot].state;
    state.generated = {row.generated};
    if (queue_.Scheduled(state, Tokens{prefill}, Tokens{output}))
      row_keys_[entry.lane] = queue_.VictimKeyOf(state, now_);
  }
}

// ---- questions --------------------------------------------------------------------------------------------------

template <RankPolicy Policy, PausePolicy Pause>
Explanation BasicScheduler<Policy, Pause>::Explain(RequestId id) const {
  Explanation e;
  if (ended()) return e;
  const Slot slot = table_.Find(id);
  if (slot == IdMap::kAbsent) return e;
  const Record& record = table_[slot];
  e.status = record.status;
  e.key = queue_.PeekKey(record.state, now_);
  e.key_parts = queue_.PartsOf(record.state);
  e.promoted = queue_.promoted(slot);
  e.known = {record.known}, e.computed = {record.computed}, e.generated = record.state.generated;
  e.kv_blocks = {record.blocks}, e.cpu_blocks = {record.cpu_blocks};
  if (record.lane != kNoLane) {
    const Row& row = running_[record.lane];
    if (record.status == RequestStatus::kRunning) e.known = {row.known}, e.generated = {row.generated};
    e.computed = {row.computed};
    e.in_flight = {row.scheduled - row.computed};
    e.kv_blocks = {row.blocks};
  }
  switch (record.status) {
    case RequestStatus::kWaiting:
      e.ahead = queue_.Ahead(slot);
      e.waits_for = PassedOverFor(record);
      if (e.waits_for != WaitsFor::kMove && e.ahead > 0) e.waits_for = WaitsFor::kItsTurn;
      if (e.waits_for == WaitsFor::kNothing) e.waits_for = top_waits_for_;
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
  std::int64_t blocks = 0, cpu = 0, leaving = 0, waiting = 0, paused = 0, blocked = 0, alive = 0, in_flight = 0;
  std::int64_t rows = 0, seqs = 0, shared = 0;
  for (Slot slot = 0; slot < table_.slots(); ++slot) {
    const Record& r = table_[slot];
    if (r.status == RequestStatus::kUnknown) continue;
    ++alive;
    if (std::ranges::find(forgotten_, slot) != forgotten_.end()) continue;
    waiting += r.status == RequestStatus::kWaiting;
    paused += r.status == RequestStatus::kPaused;
    blocked += r.status == RequestStatus::kBlocked;
    cpu += r.cpu_blocks;
    if ((r.status == RequestStatus::kWaiting) != queue_.contains(slot)) return "waiting and the queue disagree";
    const std::int32_t held_shared = r.shared_chunks > 0 ? r.shared_chunks * ChunkBlocks(r) : 0;
    shared += held_shared;
    std::int32_t held = r.blocks;
    if (r.lane != kNoLane) {
      const Row& row = running_[r.lane];
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
    } else if (r.transit == Transit::kMovingOut) {
      leaving += r.blocks;
    }
    blocks += held - held_shared;
    if (Counts() && held < held_shared) return "a request shares more blocks than it holds";
  }
  if (alive != static_cast<std::int64_t>(table_.size())) return "the table's size";
  if (waiting != this->waiting() || paused != paused_ || blocked != blocked_) return "a count of states";
  if (rows != running_rows_ || seqs != running_seqs_) return "the count of rows or sequences";
  if (leaving != leaving_blocks_) return "the blocks of leaving rows";
  if (Counts()) {
    const KvUse use = ledger_.use();
    if (use.used > use.total) return "the KV cache is overcommitted";
    if (use.cpu_used.value != cpu) return "the host's memory is miscounted";
    if (use.cpu_used > use.cpu_total) return "the host's memory is overcommitted";
    if (blocks > use.used.value || (shared == 0 && blocks != use.used.value)) return "KV blocks are miscounted";
  }
  std::int64_t entries = 0;
  for (const Buffer& b : *buffers_) entries += b.in_flight ? static_cast<std::int64_t>(b.plan.run.size()) : 0;
  if (entries != in_flight) return "entries in flight";
  return nullptr;
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_COMMIT_H_
