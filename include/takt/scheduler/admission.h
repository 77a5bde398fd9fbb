// BasicScheduler, continued: from the queue into a row.
#ifndef TAKT_SCHEDULER_ADMISSION_H_
#define TAKT_SCHEDULER_ADMISSION_H_

#include "takt/basic_scheduler.h"

namespace takt {

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AdmitWaiting() {
  if (queue_.empty()) return;
  if (draft_.short_of_kv) {
    draft_.top_waits_for = WaitsFor::kKv;  // rows that run come first
    return;
  }
  if (kv_.oracle != nullptr) {  // candidates stay in the queue until it has answered
    do {
      do {
        AdmitPastTop(false);
      } while (round_.candidates() == 0 && options_.preempt == PreemptMode::kByRank && MakeWayFor(draft_.head));
    } while (round_.candidates() == 0 && MayBePassed(draft_.head) && AdmitPastTop(true));
    return;
  }
  if (!held_.gate.open()) return AdmitThroughGate();
  while (!queue_.empty()) {
    const Slot slot = queue_.Top();
    switch (TryAdmit(slot)) {
      case Fit::kAdmitted:
      case Fit::kGone: continue;
      case Fit::kSkip: AdmitPastTop(false); break;
      case Fit::kStop: break;
    }
    if (options_.preempt == PreemptMode::kByRank && MakeWayFor(draft_.head)) continue;
    if (draft_.head == slot && draft_.top_waits_for == WaitsFor::kKv && AdmitKept()) continue;
    if (!MayBePassed(draft_.head) || !AdmitPastTop(true)) return;
  }
}

// The first waits for memory, and some of that is held by one that has come back from a tool to its kept KV: that goes
// on, since no other gets that memory before it ends. So do InferCept and LAMPS. True: one of them can never fit, so
// that what it held is free.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::AdmitKept() {
  const auto room = [this] { return std::max(FreeBlocks() - (counts_.rows > 0 ? kv_.watermark : 0), 0); };
  const auto full = [this] {
    return budget_.tokens <= 0 || counts_.seqs >= budget_.limits.max_seqs || counts_.rows >= options_.max_running;
  };
  if (kept_.nobody_came_back() || kept_.least_need() > room()) return false;
  const Slot head = draft_.head;
  bool freed = false;
  kept_.VisitCameBack([&] { return !full(); },
                      [&](Slot slot) -> std::optional<std::int32_t> {
                        Record& record = table_[slot];
                        record.came_back =
                            record.status == RequestStatus::kWaiting && record.lane == kNoLane && record.blocks > 0;
                        if (!record.came_back) return std::nullopt;
                        const std::int32_t need = std::max(BlocksFor(record) - record.blocks, 0);
                        if (record.transit == Transit::kNone && need <= room()) freed |= TryAdmit(slot) == Fit::kGone;
                        return need;
                      });
  draft_.top_waits_for = WaitsFor::kKv;
  draft_.head = head;
  return freed;
}

// Whether it waits for a running request that is computing a prefix which both have, of which `found` chunks are in the
// cache. It does if the row is in flight, and as long as more chunks are found, within `prefix_wait` steps each time.
// Its prompt must have chunks. O(log chunks).
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::AwaitsPrefix(Record& record, std::int32_t found) {
  const Request& r = record.state.request;
  if (options_.prefix_wait == 0 || record.state.taken || record.blocks > 0 || record.arrived > 0) return false;
  const std::int32_t tokens = r.prefix.block_tokens.value, chunks = UsableChunks(r);
  if (found >= chunks) return false;
  const std::uint32_t lane = leaders_.Find(r.prefix.hashes[static_cast<std::size_t>(found)]);
  if (lane == kNoLane) return false;
  const Row row = running_.Look(lane);
  const Request& leader = table_[row.slot].state.request;
  if (!Runs(row) || (row.in_flight & Row::kCounting) == 0 || leader.prefix.block_tokens.value != tokens) return false;
  // A hash names all chunks before its own, too: so those that both have come first.
  const auto most = std::min(static_cast<std::size_t>(chunks), leader.prefix.hashes.size());
  const auto shared = static_cast<std::size_t>(
      *std::ranges::partition_point(std::views::iota(std::size_t{0}, most),
                                    [&](std::size_t i) { return r.prefix.hashes[i] == leader.prefix.hashes[i]; }));
  const std::int64_t to_come = (static_cast<std::int64_t>(shared) - found) * tokens;
  if (to_come * kLeastShare < record.known - found * tokens) return false;
  if (record.prefix_since == 0 || found > record.prefix_chunks) {
    record.prefix_chunks = found;
    record.prefix_since = stats_.commits + 1;
  }
  if (std::cmp_greater_equal(stats_.commits + 1 - record.prefix_since, options_.prefix_wait)) return false;
  record.prefix_seen_at = stats_.plans;
  return true;
}

// Whether those behind a request that was just stopped may be let in before it. It has never run and holds nothing, and
// fewer than `admission_window` have passed it. It lacks room in this step, or memory that is not about to be free.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::MayBePassed(Slot slot) const {
  const bool lacks_room = draft_.top_waits_for == WaitsFor::kBudget;
  if (slot == kNoSlot || !(lacks_room || draft_.top_waits_for == WaitsFor::kKv)) return false;
  const Record& record = table_[slot];
  if (record.state.taken || record.blocks > 0 || record.passed >= options_.admission_window) return false;
  if (queue_.promoted(slot)) return false;
  if (lacks_room) return budget_.HasRoom();
  const std::int64_t need = std::int64_t{BlocksNeeded(record, HitOf(record))} + (counts_.rows > 0 ? kv_.watermark : 0);
  return need > FreeBlocks() + Pending();
}

// The search goes on behind a request that was just stopped. False: those behind it wait.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::LetPass(Slot slot) {
  if (!MayBePassed(slot)) return false;
  if (search_.passed.empty()) search_.stopped_for = draft_.top_waits_for;
  search_.passed.push_back(slot);
  Record& record = table_[slot];
  record.passed -= static_cast<std::int32_t>(search_.passing);  // by those before it
  search_.most_passing = std::min(search_.most_passing, std::int64_t{options_.admission_window} - record.passed);
  return true;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::BeginPassing() {
  search_.passed.clear();
  search_.passing = 0, search_.most_passing = INT64_MAX;
}

// Counts who was passed. The first of them is what the queue waits for.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::EndPassing() {
  if (search_.passed.empty()) return;
  for (Slot slot : search_.passed) table_[slot].passed += static_cast<std::int32_t>(search_.passing);
  draft_.head = search_.passed.front();
  draft_.top_waits_for = search_.stopped_for;
}

// Looks a bounded number of candidates past those that cannot run for reasons of their own, and with `pass` also past
// those that may be passed: each is, by at most `admission_window` requests, over its whole wait. Those that no step of
// these limits can run, and those that the policy declines, take no place among these: they may be many, and wait for
// long. One that waits for its adapter is overtaken by at most `admission_window` requests that use one: from then on
// those behind it wait until an adapter is out of use, and it gets in. Without any place for adapters there is nothing
// to wait for. Returns true if a request failed because it can never fit, and left memory, before any was admitted: the
// caller tries the first again.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::AdmitPastTop(bool pass) {
  draft_.head = kNoSlot;
  const Slot first = queue_.Top();
  const Fit of_first = TryAdmit(first);
  if (of_first == Fit::kStop && !(pass && MayBePassed(first))) return false;
  BeginPassing();
  search_.slots.clear();
  std::int64_t window = std::int64_t{options_.admission_window} + (pass ? 1 : 0);
  if (kv_.oracle != nullptr) window += std::max(budget_.limits.max_seqs - counts_.seqs, 0);
  std::int64_t followers = kMostFollowers;  // that do not count, since they waited for a prefix in the last plan
  queue_.ForEachInOrder([&](Slot slot) {
    const Record& record = table_[slot];
    if (!queue_.Admits(record.state, now_)) return true;
    search_.slots.push_back(slot);
    const bool counts = !NeedsLargerStep(record) && !(AwaitedPrefix(record) && followers-- > 0);
    window -= counts ? 1 : 0;
    return window > 0;
  });
  std::size_t passed = 0;  // those that wait for their adapters come first in `search_.slots`
  std::int64_t admitted = 0, most = INT64_MAX;  // that use adapters; so many, until one has been overtaken too often
  const std::int32_t free = FreeBlocks();
  bool freed = false;
  for (std::size_t i = 0; i < search_.slots.size() && search_.passing < search_.most_passing; ++i) {
    const Slot slot = search_.slots[i];
    Record& record = table_[slot];
    const bool uses_adapter = static_cast<bool>(record.state.request.adapter);
    if (uses_adapter && admitted >= most) continue;
    const Fit fit = slot == first ? of_first : TryAdmit(slot, std::span(search_.slots).subspan(i + 1));
    if (fit == Fit::kStop && !(pass && LetPass(slot))) break;
    search_.passing += fit == Fit::kAdmitted ? 1 : 0;
    freed = pass && search_.passing == 0 && fit == Fit::kGone && FreeBlocks() > free;
    if (freed) break;
    // The policy is to know of each before it is asked about the next.
    if (fit == Fit::kAdmitted && kv_.oracle != nullptr && queue_.declines()) AskOracle();
    if (!uses_adapter || budget_.limits.adapters < 1) continue;
    admitted += fit == Fit::kAdmitted ? 1 : 0;
    if (fit != Fit::kSkip || draft_.top_waits_for != WaitsFor::kAdapter) continue;
    record.overtaken -= static_cast<std::int32_t>(admitted);  // by those before it
    most = std::min(most, std::int64_t{options_.admission_window} - record.overtaken);
    search_.slots[passed++] = slot;
  }
  for (Slot slot : std::span(search_.slots).first(passed))
    table_[slot].overtaken += static_cast<std::int32_t>(admitted);
  EndPassing();
  return freed;
}

// Why it could not be let in by these limits, or by what is in use, whatever else were free: those behind it need not
// wait for it. kNothing: it could.
template <RankPolicy Policy, PausePolicy Pause>
WaitsFor BasicScheduler<Policy, Pause>::PassedOverFor(const Record& record) const {
  const Request& r = record.state.request;
  if (record.lane != kNoLane || record.transit != Transit::kNone) return WaitsFor::kMove;
  if (r.sequences > budget_.limits.max_seqs) return WaitsFor::kSequences;
  if (r.sequences > budget_.limits.tokens.value && record.cpu_blocks == 0) return WaitsFor::kBudget;
  if (!queue_.Admits(record.state, now_)) return WaitsFor::kDeclined;
  if (r.adapter && !adapters_.Fits(r.adapter, budget_.limits.adapters)) return WaitsFor::kAdapter;
  return WaitsFor::kNothing;
}

// Whether no step of these limits can run it, as far as its prompt and its sequences tell; with what is cached of its
// prompt one may.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::NeedsLargerStep(const Record& record) const {
  const Request& r = record.state.request;
  if (r.sequences > budget_.limits.max_seqs) return true;
  if (record.cpu_blocks > 0) return false;
  if (r.sequences > budget_.limits.tokens.value) return true;
  return record.computed == 0 && !budget_.Fits(r, 0, record.known);
}

// What the prefix cache has of its prompt; but the last token is always computed, to sample from.
template <RankPolicy Policy, PausePolicy Pause>
internal::PrefixHit BasicScheduler<Policy, Pause>::HitOf(const Record& record) const {
  const Request& r = record.state.request;
  if (record.computed > 0 || record.blocks > 0 || record.cpu_blocks > 0) return {};
  const std::int32_t chunk_blocks = ChunkBlocks(record);
  if (chunk_blocks == 0 || !Counts()) return {};
  return kv_.ledger.Find(Hashes(record, 0, UsableChunks(r)), chunk_blocks);
}

// How many chunks the host's memory has of its prompt; 0 where the prefix cache has as many, or they may not be loaded.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::CopiesOf(const Record& record) const {
  if (kv_.ledger.copies() == nullptr) return 0;
  const Request& r = record.state.request;
  if (record.computed > 0 || record.blocks > 0 || record.cpu_blocks > 0) return 0;
  const std::int32_t chunk_blocks = ChunkBlocks(record);
  if (chunk_blocks == 0) return 0;
  return kv_.ledger.FindCopies(Hashes(record, 0, UsableChunks(r)), chunk_blocks);
}

// Tokens of its prompt that are there, in any tier.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::CachedTokensOf(const Record& record) const {
  return std::max(HitOf(record).chunks, CopiesOf(record)) * record.state.request.prefix.block_tokens.value;
}

// Blocks of a hit that others use. Idle chunks count as free memory until they are taken over.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::SharedBlocks(const Record& record, const internal::PrefixHit& hit) const {
  return hit.chunks > hit.idle ? (hit.chunks - hit.idle) * ChunkBlocks(record) : 0;
}

// Tokens that it need not compute, since their KV came from elsewhere; but the last is computed, to sample from.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::ArrivedOf(const Record& record) const {
  const Request& r = record.state.request;
  return std::min(record.arrived, (r.sequences == 1 ? record.known : r.prompt_tokens.value) - 1);
}

// Blocks that must be free for a waiting request to be let in.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::BlocksNeeded(const Record& record, const internal::PrefixHit& hit) const {
  return std::max({BlocksFor(record), record.blocks, record.cpu_blocks}) - record.blocks - SharedBlocks(record, hit);
}

// Whether memory for so many blocks will never be free. What is counted here has been looked at when the request came:
// only an oracle's total can have become less since.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Outgrows(std::int32_t blocks) const {
  return kv_.oracle != nullptr && blocks > TotalBlocks();
}

// Blocks of `free` ones that an admission must leave, so that rows can grow: the watermark, if anything runs. If only
// this has kept out the first of the queue for `admission_window` plans, a block for each sequence is enough.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::Spared(Slot slot, std::int32_t need, std::int32_t free) {
  if (counts_.rows == 0) return 0;
  std::uint64_t& fits_since = table_[slot].fits_since;
  if (need > free) {
    fits_since = 0;
  } else if (need > free - kv_.watermark && (draft_.head == kNoSlot || draft_.head == slot)) {
    if (fits_since == 0) fits_since = stats_.plans;
    if (std::cmp_greater_equal(stats_.plans - fits_since, options_.admission_window)) {
      return std::min(kv_.watermark, counts_.seqs + Sequences(table_[slot]));
    }
  }
  return kv_.watermark;
}

// Moves a waiting request to the running set if it fits this step. Those that may be tried after it are `next`.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::TryAdmit(Slot slot, std::span<const Slot> next) -> Fit {
  const auto skip = [this](WaitsFor reason) {
    draft_.top_waits_for = reason;
    return Fit::kSkip;
  };
  const auto stop = [this, slot](WaitsFor reason) {
    draft_.top_waits_for = reason;
    draft_.head = slot;
    return Fit::kStop;
  };
  Record& record = table_[slot];
  const Request& r = record.state.request;
  if (const WaitsFor reason = PassedOverFor(record); reason != WaitsFor::kNothing) return skip(reason);
  const auto rows = counts_.rows + round_.candidates();
  const std::int32_t seqs = counts_.seqs + round_.candidate_seqs() + r.sequences;
  if (seqs > budget_.limits.max_seqs) return stop(WaitsFor::kSequences);
  if (rows >= options_.max_running) {
    ++stats_.short_of_rows;
    return stop(WaitsFor::kSequences);
  }
  if (record.cpu_blocks > 0) return TrySwapIn(slot);

  // What is there already: kept KV, or a prefix.
  std::int32_t start = record.computed;
  const internal::PrefixHit hit = HitOf(record);
  if (hit.chunks > 0) start = hit.chunks * r.prefix.block_tokens.value;
  if (kv_.oracle != nullptr && start == 0 && record.blocks == 0) {
    start = CachedOf(slot, next);
  }
  if (record.computed == 0 && record.blocks == 0) start = std::max(start, ArrivedOf(record));
  // What is loaded is computed behind, when it is there. Should the load fail, a step must be able to compute it whole.
  std::int32_t copies = CopiesOf(record);
  if (copies > 0 && !budget_.Fits(r, start, record.known - start)) copies = 0;
  if (copies * r.prefix.block_tokens.value <= start) copies = 0;
  if (copies == 0 && ChunkBlocks(record) > 0 && AwaitsPrefix(record, hit.chunks)) return skip(WaitsFor::kPrefix);
  std::int32_t n = record.known - start;
  const bool decodes = n == r.sequences && record.state.generated.value > 0;
  if (copies > 0) {
    if (!MayMoveIn((copies - hit.chunks) * ChunkBlocks(record))) return stop(WaitsFor::kMove);
  } else if (decodes) {
    if (n > budget_.tokens) return stop(WaitsFor::kBudget);
  } else {
    const std::int32_t rest = std::exchange(n, budget_.Chunk(r, start, n));
    if (n > 0 && !budget_.MayStart(n, rest)) return skip(WaitsFor::kBudget);
    if (n == 0) {
      if (budget_.Fits(r, start, record.known - start)) {
        draft_.crowded |= budget_.HasRoom() && (kv_.block_tokens == 0 || BlocksNeeded(record, hit) <= FreeBlocks());
        return stop(WaitsFor::kBudget);
      }
      const std::int32_t most = options_.max_step_tokens.value;
      if (r.chunkable || most == 0 || r.prompt_tokens.value - start <= most) return skip(WaitsFor::kBudget);
      Fail(slot, FailReason::kNeverFits);
      return Fit::kGone;
    }
  }

  const std::int32_t blocks = std::max(BlocksFor(record), record.blocks);
  if (kv_.block_tokens > 0) {
    const std::int32_t need = blocks - record.blocks - SharedBlocks(record, hit);
    const std::int32_t free = FreeBlocks();
    if (need > 0 && need > free - Spared(slot, need, free)) {
      if (!Outgrows(blocks)) return stop(WaitsFor::kKv);
      Fail(slot, FailReason::kNeverFits);
      return Fit::kGone;
    }
    const std::int32_t there = std::max(start, copies * r.prefix.block_tokens.value);
    if (!held_.gate.open() && !LetsIn(record, blocks - record.blocks - hit.chunks * ChunkBlocks(record), there)) {
      return skip(WaitsFor::kGate);
    }
  }
  if (kv_.oracle != nullptr) {
    Wish(slot, {slot, start, n, !decodes}, blocks);
    budget_.SetAside(n, !decodes);
    return Fit::kAdmitted;
  }
  if (Counts()) {
    const std::int32_t chunk_blocks = hit.chunks > 0 ? ChunkBlocks(record) : 0;
    if (hit.chunks > 0) {
      kv_.ledger.Acquire(Hashes(record, 0, hit.chunks), chunk_blocks);
      record.shared_chunks = hit.chunks;
    }
    kv_.ledger.Allocate(blocks - record.blocks - hit.chunks * chunk_blocks);
  }
  record.blocks = blocks;
  if (copies > 0) {
    Fetch(slot, start, copies);
  } else {
    Admit(slot, start, n);
  }
  return Fit::kAdmitted;
}

// KV comes back from the host's memory.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::TrySwapIn(Slot slot) -> Fit {
  const Record& record = table_[slot];
  const std::int32_t blocks = std::max(BlocksFor(record), record.cpu_blocks);
  const std::int32_t free = FreeBlocks();
  const bool fits = blocks <= free - Spared(slot, blocks, free);
  const bool allowed = MayMoveIn(record.cpu_blocks);
  if (!fits && Outgrows(blocks)) {
    Fail(slot, FailReason::kNeverFits);
    return Fit::kGone;
  }
  if (!fits || !allowed) {
    draft_.top_waits_for = fits ? WaitsFor::kMove : WaitsFor::kKv;
    draft_.head = slot;
    return Fit::kStop;
  }
  budget_.swap_in -= record.cpu_blocks;
  if (kv_.oracle != nullptr) {
    Wish(slot, {.slot = slot, .start = record.computed, .tokens = 0}, blocks);
  } else {
    kv_.ledger.Allocate(blocks);
    SwapIn(slot, blocks);
  }
  return Fit::kAdmitted;
}

// The first of a step may exceed the step's allowance: else what is larger than it would never move.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::MayMoveIn(std::int32_t blocks) const {
  return blocks <= budget_.swap_in || (budget_.swap_in == budget_.limits.swap_in.value && budget_.swap_in > 0);
}

// Counts what was found of a request that is about to run: `there` tokens, of which `cached` in the prefix cache. If it
// ran before, it finds its own blocks, which say nothing of what requests share.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::CountHits(Record& record, std::int32_t cached, std::int32_t there) {
  record.recovers = record.state.taken;
  HitsOf(record) += static_cast<std::uint64_t>(std::max(cached, 0));
  if (record.recovers) return;
  held_.prompt_tokens += record.known, held_.cached_tokens += there;
}

// Takes a row now, for which the host's memory has so many chunks, and runs when those are loaded that the prefix cache
// does not have.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Fetch(Slot slot, std::int32_t start, std::int32_t chunks) {
  Record& record = table_[slot];
  const std::int32_t chunk_blocks = ChunkBlocks(record);
  const Blocks first{record.shared_chunks * chunk_blocks}, count{(chunks - record.shared_chunks) * chunk_blocks};
  CountHits(record, start, chunks * record.state.request.prefix.block_tokens.value);
  budget_.swap_in -= count.value;
  kv_.ledger.PinCopies(Hashes(record, 0, chunks), chunk_blocks);
  record.fetching = record.fetched = chunks;
  AddRow(slot, start, RowState::kMoving);
  record.transit = Transit::kMovingIn;
  const MoveId id = moves_.Begin(slot, KvAction::kFetch);
  notices_.moves.push_back({id, record.state.request.id, KvAction::kFetch, first, count});
  ++stats_.moves_in;
}

// Takes a row now, runs when the move is done.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::SwapIn(Slot slot, std::int32_t blocks) {
  Record& record = table_[slot];
  record.blocks = blocks;
  AddRow(slot, record.computed, RowState::kMoving);
  record.transit = Transit::kMovingIn;
  const MoveId id = moves_.Begin(slot, KvAction::kIn);
  notices_.moves.push_back({id, record.state.request.id, KvAction::kIn, {0}, {record.cpu_blocks}});
  ++stats_.moves_in;
}

// Takes a request out of the queue and into a lane, with its first entry.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Admit(Slot slot, std::int32_t start, std::int32_t tokens) {
  Record& record = table_[slot];
  CountHits(record, start - record.computed, start);
  const std::uint32_t lane = AddRow(slot, start, RowState::kUnsteady);
  Emit(lane, tokens, static_cast<std::uint16_t>(running_[lane].prefilling ? PlanEntry::kPrefill : 0));
  if (ChunkBlocks(record) > 0) LeadPrefix(record);
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_ADMISSION_H_
