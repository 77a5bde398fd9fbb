// BasicScheduler, continued: building a plan.
#ifndef TAKT_SCHEDULER_PLAN_H_
#define TAKT_SCHEDULER_PLAN_H_

#include "takt/basic_scheduler.h"

namespace takt {

template <RankPolicy Policy, PausePolicy Pause>
const StepPlan& BasicScheduler<Policy, Pause>::Plan(TimePoint now, const StepLimits& limits) {
  if (!MayPlan()) return buffers_->back().plan;
  inside_ = true;
  Clock(now);
  ++stats_.plans;
  Buffer& buffer = *std::ranges::find(*buffers_, false, &Buffer::in_flight);
  plan_ = &buffer.plan;
  plan_->id = {++last_step_};
  plan_->tokens = {0};
  entries_ = buffer.entries.data();
  step_ = buffer.bits;
  planned_ = 0;
  const std::int32_t promised = std::max(limits_.swap_out.value, 0) - swap_out_left_;  // to tool calls since then
  limits_ = limits;

  swap_in_left_ = limits_.swap_in.value;  // of the whole plan, however often it is built
  asks_left_ = std::max(options_.admission_window, 1);
  way_for_ = kNoSlot;
  swap_out_left_ = std::max(limits_.swap_out.value, 0) - promised;
  Expire(now_);
  Review();
  RefreshScores();
  const bool builds = steps_in_flight_ < kMaxStepsInFlight;
  if (builds) {
    if (!queue_.empty()) queue_.BeginPlan(now_, StateOf());
    do {
      Build();
    } while (planned_ == 0 && Unstick());
    ShedDownTo(options_.max_waiting);
  }
  victims_.Clear();
  gathered_ = false;

  // What was noted since the last plan, and while this one was built.
  plan_->moves.clear(), plan_->preempted.clear(), plan_->failed.clear(), plan_->released.clear();
  plan_->moves.swap(notices_.moves);
  plan_->preempted.swap(notices_.preempted);
  plan_->failed.swap(notices_.failed);
  plan_->released.swap(notices_.released);

  swap_out_left_ = std::max(limits_.swap_out.value, 0);

  for (Slot slot : forgotten_) table_.Erase(slot);
  forgotten_.clear();

  plan_->run = std::span(entries_, planned_);
  const bool runs = planned_ > 0;
  queue_.EndPlan(runs);
  if (builds) TellPressure();
  buffer.in_flight = runs;
  steps_in_flight_ += runs ? 1 : 0;
  stats_.plans_idle += runs ? 0 : 1;
  stats_.rows_scheduled += planned_;
  plan_->idle = runs ? Idle::kBusy : WhyIdle();
  plan_->wake_at = expiries_.empty() ? kNever : table_[expiries_.Top()].state.request.expires_at;
  if (!reviews_.empty()) plan_->wake_at = std::min(plan_->wake_at, calls_[reviews_.Top()].review_at);
  if (const Slot next = queue_.Top(); next != kNoSlot) table_.Prefetch(next);
  inside_ = false;
  return *plan_;
}

// A policy that prices resources hears what the first of the queue waits for.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::TellPressure() {
  if constexpr (PressurePolicy<Policy>) {
    const std::int64_t tokens = Counts() || oracle_ != nullptr ? std::int64_t{TotalBlocks()} * block_tokens_ : 0;
    const auto kv_tokens = static_cast<std::int32_t>(std::min<std::int64_t>(tokens, INT32_MAX));
    queue_.TellPressure({queue_.empty() ? WaitsFor::kNothing : top_waits_for_, limits_, {kv_tokens}}, now_);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Build() {
  budget_ = std::max(limits_.tokens.value, 0);
  prefill_left_ = std::clamp(limits_.prefill_tokens.value, 0, budget_);
  seqs_left_ = limits_.max_seqs;
  // Who had no memory last time is asked first: else what was freed for it goes to admissions, again and again.
  const bool running_first = options_.order == StepOrder::kRunningFirst || short_of_kv_ || row_refused_;
  short_of_kv_ = displaced_ = refused_ = row_refused_ = false;
  top_waits_for_ = WaitsFor::kItsTurn;
  head_ = kNoSlot;
  ClearWishes();

  if (running_first) {
    PlanRunning();
    AdmitWaiting();
  } else {
    PlanPrefills();
    AdmitWaiting();
    PlanDecodes();
  }
  if (!wishes_.empty()) AskOracle();
  CloseGaps();
}

// ---- rows that run ----------------------------------------------------------------------------------------------

// All rows in the order of admission; those that have left drop out of the order on the way.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanRunning() {
  running_.BeginWalk();
  std::vector<std::uint32_t>& order = running_.order();
  std::size_t kept = 0;
  std::size_t planned = planned_;
  std::int32_t budget = budget_;
  const std::uint16_t step = step_;
  const bool crowded = running_seqs_ > limits_.max_seqs;  // the limit has fallen: not all may run
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint32_t lane = order[i];
    Row& row = running_[lane];
    const std::int32_t n = row.sequences;
    if (row.state == RowState::kSteady && n <= budget && !crowded &&
        (row.scheduled + n <= row.ceiling || (row.expected < row.cap && Grow(row)))) [[likely]] {
      order[kept++] = lane;
      entries_[planned++] = {row.request, lane, n, row.scheduled, 0, PlanEntry::kSamples};
      row.scheduled += n;
      row.expected += n;
      row.in_flight |= step;
      ++row.steps;
      budget -= n;
    } else if (row.state != RowState::kFree && row.state != RowState::kLeaving) {
      order[kept++] = lane;
      planned_ = planned, budget_ = budget;
      PlanRow(lane);
      planned = planned_, budget = budget_;
    }
  }
  order.resize(kept);
  planned_ = planned, budget_ = budget;
  plan_->tokens = {std::max(limits_.tokens.value, 0) - budget};
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanPrefills() {
  running_.BeginWalk();
  std::erase_if(running_.order(), [this](std::uint32_t lane) {
    const RowState state = running_[lane].state;
    return state == RowState::kFree || state == RowState::kLeaving;
  });
  for (std::size_t i = 0; i < running_.order().size(); ++i) {
    const std::uint32_t lane = running_.order()[i];
    if (running_[lane].prefilling) PlanRow(lane);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanDecodes() {
  for (std::size_t i = 0; i < running_.order().size(); ++i) {
    const std::uint32_t lane = running_.order()[i];
    const Row& row = running_[lane];
    const bool planned = (row.in_flight & step_) != 0;  // in this step's first pass
    if (!row.prefilling && !planned) PlanRow(lane);
  }
}

// One row, whatever its state; leaves it out where nothing can be done for it in this step.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::PlanRow(std::uint32_t lane) {
  Row& row = running_[lane];
  if (!Runs(row)) return;
  Record& record = table_[row.slot];
  if (row.sequences != Sequences(record)) {
    if (row.in_flight > 0) return;
    Shrink(row, record);
  }
  Refresh(row, record);
  if (row.in_flight == 0 && row.known >= row.cap) {
    displaced_ = true;
    return EndAtCap(row.slot);
  }
  if (row.sequences > seqs_left_ && running_seqs_ > limits_.max_seqs) return;
  std::int32_t n = row.expected - row.scheduled;
  std::int32_t drafts = 0;
  if (row.prefilling) {
    const Request& r = record.state.request;
    n = Chunk(r, row.scheduled, n);
    // Nobody starts before a prompt that must be computed whole, if it fits an empty step.
    const std::int32_t whole = r.prompt_tokens.value - row.scheduled;
    if (n == 0 && !r.chunkable && whole > 0 && whole <= std::min(limits_.tokens.value, limits_.prefill_tokens.value))
      prefill_left_ = 0;
  } else {
    if (n > budget_) return;
    if (row.expected >= row.cap) return;  // its last token is in flight
    if (row.sequences == 1) drafts = std::clamp(std::min(budget_ - n, row.cap - row.expected - 1), 0, +row.drafts);
  }
  if (n <= 0) return;
  // Nobody gives way to drafts.
  if (drafts > 0 && row.scheduled + n + drafts > row.capacity && !SpareRoom(lane, row.scheduled + n + drafts))
    drafts = 0;
  if (row.scheduled + n > row.capacity && !Room(lane, row.scheduled + n)) return;
  Emit(lane, n, drafts, static_cast<std::uint16_t>(row.prefilling ? PlanEntry::kPrefill : 0));
}

// How many of the `left` known tokens from `start` on this step may compute; 0: none.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::Chunk(const Request& r, std::int32_t start, std::int32_t left) const {
  const std::int32_t allowed = std::max(std::min(budget_, prefill_left_), 0);
  if (r.chunkable || start >= r.prompt_tokens.value)
    return std::max(std::min({left, allowed, limits_.chunk_tokens.value}), 0);
  return r.prompt_tokens.value - start <= allowed ? std::min(left, allowed) : 0;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Emit(std::uint32_t lane, std::int32_t tokens, std::int32_t drafts,
                                         std::uint16_t flags) {
  Row& row = running_[lane];
  const bool samples = row.scheduled + tokens == row.expected;
  if (samples) flags |= PlanEntry::kSamples;
  if (row.steps == 0) flags |= PlanEntry::kAdmitted;
  entries_[planned_++] = {row.request, lane, tokens, row.scheduled, static_cast<std::uint16_t>(drafts), flags};
  row.scheduled += tokens + drafts;
  budget_ -= tokens + drafts;
  seqs_left_ -= row.sequences;
  plan_->tokens += {tokens + drafts};
  if (row.prefilling) prefill_left_ -= tokens;
  if (samples) {
    row.expected += row.sequences + drafts;
    row.prefilling = false;
    if (row.sequences == Sequences(table_[row.slot])) row.state = RowState::kSteady;
  }
  row.drafts = 0;
  row.in_flight |= step_;
  ++row.steps;
}

// Takes a row's entry, and what was wished for it, out of the plan being built; false where there is none. Both leave
// gaps, so that taking out many costs no more than a look at each.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Unplan(std::uint32_t lane) {
  for (; indexed_ < planned_; ++indexed_)
    entry_of_lane_[entries_[indexed_].lane] = static_cast<std::uint32_t>(indexed_ + 1);
  const std::uint32_t at = std::exchange(entry_of_lane_[lane], 0);
  if (at == 0) return false;
  PlanEntry& entry = entries_[at - 1];
  Row& row = running_[lane];
  if (const std::uint32_t wish = std::exchange(wish_of_lane_[lane], 0); wish > 0) {
    WithdrawBlocks(row, wishes_[wish - 1]);
    wishes_[wish - 1].request = {};
  }
  const std::int32_t tokens = entry.tokens + entry.speculative;
  row.scheduled -= tokens;
  if (entry.samples()) row.expected -= row.sequences + entry.speculative;
  row.prefilling = entry.prefill();
  if (entry.prefill()) row.state = RowState::kUnsteady, prefill_left_ += entry.tokens;
  --row.steps;
  row.in_flight &= static_cast<std::uint16_t>(~step_);
  budget_ += tokens;
  seqs_left_ += row.sequences;
  plan_->tokens -= {tokens};
  entry.lane = kNoLane;
  return true;
}

// Where entries were taken out of the plan, the others move up.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::CloseGaps() {
  if (indexed_ == 0) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < planned_; ++i) {
    if (entries_[i].lane == kNoLane) continue;
    entry_of_lane_[entries_[i].lane] = 0;
    entries_[kept++] = entries_[i];
  }
  planned_ = kept;
  indexed_ = 0;
}

// A row does not get what was wished for it.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::WithdrawBlocks(Row& row, const KvReservation& wish) {
  const std::int32_t blocks = (wish.want.value - wish.have.value) / block_tokens_;
  wished_blocks_ -= blocks;
  row.blocks -= blocks;
  row.capacity -= blocks * block_tokens_;
  row.ceiling = std::min(row.capacity, row.cap - 1);
}

// One more block per sequence, if the ledger has them.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Grow(Row& row) {
  const std::int32_t n = row.sequences;
  if (!Counts() || ledger_.free() < n) return false;
  ledger_.Allocate(n);
  row.blocks += n;
  row.capacity += n * block_tokens_;
  row.ceiling = std::min(row.capacity, row.cap - 1);
  return true;
}

// Room for `want` tokens of context in a row that runs, from blocks that are free. False: there are too few.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::SpareRoom(std::uint32_t lane, std::int32_t want) {
  Row& row = running_[lane];
  const std::int32_t blocks = row.blocks, capacity = row.capacity, n = row.sequences;  // held
  while (row.capacity < want) {
    if (Grow(row)) continue;
    if (oracle_ == nullptr) return false;
    if (oracle_->free_blocks().value < n + (row.blocks - blocks) + wished_blocks_) {
      row.blocks = blocks, row.capacity = capacity;  // nothing was asked for yet
      return false;
    }
    row.blocks += n;
    row.capacity += n * block_tokens_;
  }
  if (oracle_ != nullptr) {
    row.ceiling = std::min(row.capacity, row.cap - 1);
    wishes_.push_back({row.request, {blocks * block_tokens_}, {row.blocks * block_tokens_}, false, false});
    wish_lanes_.push_back(lane);
    wish_of_lane_[lane] = static_cast<std::uint32_t>(wishes_.size());
    wished_blocks_ += row.blocks - blocks;
  }
  return true;
}

// The same, also at the cost of others. False: not in this step; somebody may have been preempted, the row itself
// included.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Room(std::uint32_t lane, std::int32_t want) {
  if (block_tokens_ == 0) return true;
  const Slot slot = running_[lane].slot;
  while (!SpareRoom(lane, want)) {
    const Row& row = running_[lane];
    const std::int32_t n = row.sequences;
    short_of_kv_ = true;
    ++stats_.kv_stalls;
    if (row.blocks + n > TotalBlocks()) {
      Unplan(lane);
      Fail(slot, FailReason::kKvExhausted);
      return false;
    }
    // Memory that is about to be free makes a further victim pointless.
    if (Pending() >= n) return false;
    // Who waits can be computed again at no loss to who runs; not where an oracle is to be asked to let it in.
    if (candidates_.empty() && Reclaim(kNoSlot, true)) continue;
    if (options_.preempt == PreemptMode::kOff) return false;
    const std::uint32_t victim = Worst(true);
    if (victim == kNoLane) return false;
    // Its own steps in flight would be void: it would give way and come back, and never get further.
    if (victim == lane && running_[lane].in_flight > 0) return false;
    Preempt(victim, false);
    if (victim == lane) return false;
  }
  return true;
}

// ---- admission --------------------------------------------------------------------------------------------------

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AdmitWaiting() {
  if (queue_.empty()) return;
  if (short_of_kv_) {
    top_waits_for_ = WaitsFor::kKv;  // who runs comes first
    return;
  }
  if (oracle_ != nullptr) {  // candidates stay in the queue until it has answered
    do {
      AdmitPastTop();
    } while (candidates_.empty() && options_.preempt == PreemptMode::kByRank && MakeWayFor(head_));
    return;
  }
  while (!queue_.empty()) {
    const Slot slot = queue_.Top();
    switch (TryAdmit(slot)) {
      case Fit::kAdmitted:
      case Fit::kGone: continue;
      case Fit::kSkip:
        AdmitPastTop();
        if (options_.preempt == PreemptMode::kByRank && MakeWayFor(head_)) continue;
        return;
      case Fit::kStop:
        if (options_.preempt == PreemptMode::kByRank && MakeWayFor(slot)) continue;
        if (top_waits_for_ == WaitsFor::kKv && AdmitKept()) continue;
        return;
    }
  }
}

// The first waits for memory, and some of that is held by who has come back from a tool to the KV kept for it: it goes
// on, since nobody else gets that memory before it ends. So do InferCept and LAMPS. True: one of them can never fit, so
// that what it held is free.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::AdmitKept() {
  const auto room = [this] { return std::max(FreeBlocks() - (running_rows_ > 0 ? watermark_ : 0), 0); };
  const auto full = [this] {
    return budget_ <= 0 || running_seqs_ >= limits_.max_seqs || running_rows_ >= options_.max_running;
  };
  if (came_back_.empty() || came_back_least_ > room()) return false;
  const Slot head = head_;
  bool freed = false;
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  std::size_t left = 0, i = 0;
  for (; i < came_back_.size() && !full(); ++i) {
    const Slot slot = came_back_[i];
    Record& record = table_[slot];
    record.came_back = record.status == RequestStatus::kWaiting && record.lane == kNoLane && record.blocks > 0;
    if (!record.came_back) continue;
    came_back_[left++] = slot;
    const std::int32_t need = std::max(BlocksFor(record) - record.blocks, 0);
    least = std::min(least, need);
    if (record.transit == Transit::kNone && need <= room()) freed |= TryAdmit(slot) == Fit::kGone;
  }
  if (i == came_back_.size()) came_back_least_ = least;
  came_back_.erase(came_back_.begin() + static_cast<std::ptrdiff_t>(left),
                   came_back_.begin() + static_cast<std::ptrdiff_t>(i));
  top_waits_for_ = WaitsFor::kKv;
  head_ = head;
  return freed;
}

// Looks a bounded number of candidates past those that cannot run for reasons of their own. Those that no step of these
// limits can run take no place among these: they may be many, and wait for long. One that waits for its adapter is
// overtaken by at most `admission_window` requests that use one: from then on those behind it wait until an adapter is
// out of use, and it gets in. Without any place for adapters there is nothing to wait for.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AdmitPastTop() {
  head_ = kNoSlot;
  const Slot first = queue_.Top();
  const Fit of_first = TryAdmit(first);
  if (of_first == Fit::kStop) return;
  scratch_.clear();
  std::int64_t window = options_.admission_window;
  if (oracle_ != nullptr) window += std::max(limits_.max_seqs - running_seqs_, 0);
  queue_.ForEachInOrder([&](Slot slot) {
    scratch_.push_back(slot);
    window -= NeedsLargerStep(table_[slot]) ? 0 : 1;
    return window > 0;
  });
  std::size_t passed = 0;  // those that wait for their adapters come first in `scratch_`
  std::int64_t admitted = 0, most = INT64_MAX;  // that use adapters; so many, until one has been overtaken too often
  for (std::size_t i = 0; i < scratch_.size(); ++i) {
    const Slot slot = scratch_[i];
    Record& record = table_[slot];
    const bool uses_adapter = static_cast<bool>(record.state.request.adapter);
    if (uses_adapter && admitted >= most) continue;
    const Fit fit = slot == first ? of_first : TryAdmit(slot);
    if (fit == Fit::kStop) break;
    if (!uses_adapter || limits_.adapters < 1) continue;
    admitted += fit == Fit::kAdmitted ? 1 : 0;
    if (fit != Fit::kSkip || top_waits_for_ != WaitsFor::kAdapter) continue;
    record.overtaken -= static_cast<std::int32_t>(admitted);  // by those before it
    most = std::min(most, std::int64_t{options_.admission_window} - record.overtaken);
    scratch_[passed++] = slot;
  }
  for (Slot slot : std::span(scratch_).first(passed)) table_[slot].overtaken += static_cast<std::int32_t>(admitted);
}

// Why it could not be let in by these limits, or by what is in use, whatever else were free: those behind it need not
// wait for it. kNothing: it could.
template <RankPolicy Policy, PausePolicy Pause>
WaitsFor BasicScheduler<Policy, Pause>::PassedOverFor(const Record& record) const {
  const Request& r = record.state.request;
  if (record.lane != kNoLane || record.transit != Transit::kNone) return WaitsFor::kMove;
  if (r.sequences > limits_.max_seqs) return WaitsFor::kSequences;
  if (r.sequences > limits_.tokens.value && record.cpu_blocks == 0) return WaitsFor::kBudget;
  if (r.adapter && !AdapterFits(r.adapter)) return WaitsFor::kAdapter;
  return WaitsFor::kNothing;
}

// Whether no step of these limits can run it, as far as its prompt and its sequences tell; with what is cached of its
// prompt one may.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::NeedsLargerStep(const Record& record) const {
  const Request& r = record.state.request;
  if (r.sequences > limits_.max_seqs) return true;
  if (record.cpu_blocks > 0) return false;
  if (r.sequences > limits_.tokens.value) return true;
  return !r.chunkable && record.computed == 0 &&
         r.prompt_tokens.value > std::min(limits_.tokens.value, limits_.prefill_tokens.value);
}

// What the prefix cache has of its prompt; but the last token is always computed, to sample from.
template <RankPolicy Policy, PausePolicy Pause>
PrefixCache::Hit BasicScheduler<Policy, Pause>::HitOf(const Record& record) const {
  const Request& r = record.state.request;
  if (record.computed > 0 || record.blocks > 0 || record.cpu_blocks > 0) return {};
  const std::int32_t chunk_blocks = ChunkBlocks(record);
  if (chunk_blocks == 0 || !Counts()) return {};
  const auto chunks = std::min(static_cast<std::int32_t>(r.prefix->hashes.size()),
                               (r.prompt_tokens.value - 1) / r.prefix->block_tokens.value);
  return ledger_.Find(Hashes(record, 0, chunks), chunk_blocks);
}

// Blocks that must be free for a waiting request to be let in. Idle chunks that it would take over count as free
// memory until then.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::BlocksNeeded(const Record& record, const PrefixCache::Hit& hit) const {
  const std::int32_t shared = hit.chunks > hit.idle ? (hit.chunks - hit.idle) * ChunkBlocks(record) : 0;
  return std::max({BlocksFor(record), record.blocks, record.cpu_blocks}) - record.blocks - shared;
}

// Moves a waiting request to the running set if it fits this step.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::TryAdmit(Slot slot) -> Fit {
  const auto skip = [this](WaitsFor reason) {
    top_waits_for_ = reason;
    return Fit::kSkip;
  };
  const auto stop = [this, slot](WaitsFor reason) {
    top_waits_for_ = reason;
    head_ = slot;
    return Fit::kStop;
  };
  Record& record = table_[slot];
  const Request& r = record.state.request;
  if (const WaitsFor reason = PassedOverFor(record); reason != WaitsFor::kNothing) return skip(reason);
  const auto rows = running_rows_ + static_cast<std::int32_t>(candidates_.size());
  const std::int32_t seqs = running_seqs_ + candidate_seqs_ + r.sequences;
  if (seqs > limits_.max_seqs || rows >= options_.max_running) {
    return stop(WaitsFor::kSequences);
  }
  if (record.cpu_blocks > 0) return TrySwapIn(slot);

  // What is there already: kept KV, or a prefix.
  std::int32_t start = record.computed;
  const PrefixCache::Hit hit = HitOf(record);
  if (hit.chunks > 0) start = hit.chunks * r.prefix->block_tokens.value;
  if (oracle_ != nullptr && start == 0 && record.blocks == 0) {
    start = std::clamp(oracle_->CachedTokens(r).value, 0, r.prompt_tokens.value - 1);
  }
  std::int32_t n = record.known - start;
  const bool decodes = n == r.sequences && record.state.generated.value > 0;
  if (decodes) {
    if (n > budget_) return stop(WaitsFor::kBudget);
  } else {
    n = Chunk(r, start, n);
    if (n == 0) {
      const std::int32_t whole = r.prompt_tokens.value - start;
      if (r.chunkable || whole <= std::min(limits_.tokens.value, limits_.prefill_tokens.value)) {
        return stop(WaitsFor::kBudget);
      }
      const std::int32_t most = options_.max_step_tokens.value;
      if (most == 0 || whole <= most) return skip(WaitsFor::kBudget);
      Fail(slot, FailReason::kNeverFits);
      return Fit::kGone;
    }
  }

  const std::int32_t blocks = std::max(BlocksFor(record), record.blocks);
  if (block_tokens_ > 0) {
    const std::int32_t need = BlocksNeeded(record, hit);
    const std::int32_t spared = running_rows_ > 0 ? watermark_ : 0;
    if (need > 0 && need > FreeBlocks() - spared) return stop(WaitsFor::kKv);
  }
  if (oracle_ != nullptr) {
    Wish(slot, {slot, start, n, !decodes}, blocks);
    budget_ -= n;
    if (!decodes) prefill_left_ -= n;
    return Fit::kAdmitted;
  }
  if (Counts()) {
    const std::int32_t chunk_blocks = hit.chunks > 0 ? ChunkBlocks(record) : 0;
    if (hit.chunks > 0) {
      ledger_.Acquire(Hashes(record, 0, hit.chunks), chunk_blocks);
      record.shared_chunks = hit.chunks;
    }
    ledger_.Allocate(blocks - record.blocks - hit.chunks * chunk_blocks);
  }
  record.blocks = blocks;
  Admit(slot, start, n);
  return Fit::kAdmitted;
}

// KV comes back from the host's memory.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::TrySwapIn(Slot slot) -> Fit {
  const Record& record = table_[slot];
  const std::int32_t blocks = std::max(BlocksFor(record), record.cpu_blocks);
  const bool fits = blocks <= FreeBlocks() - (running_rows_ > 0 ? watermark_ : 0);
  // The first of a step may exceed the step's allowance: else what is larger than it would never move.
  const bool allowed =
      record.cpu_blocks <= swap_in_left_ || (swap_in_left_ == limits_.swap_in.value && swap_in_left_ > 0);
  if (!fits || !allowed) {
    top_waits_for_ = fits ? WaitsFor::kMove : WaitsFor::kKv;
    head_ = slot;
    return Fit::kStop;
  }
  swap_in_left_ -= record.cpu_blocks;
  if (oracle_ != nullptr) {
    Wish(slot, {.slot = slot, .start = record.computed, .tokens = 0}, blocks);
  } else {
    ledger_.Allocate(blocks);
    SwapIn(slot, blocks);
  }
  return Fit::kAdmitted;
}

// Takes a row now, runs when the move is done.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::SwapIn(Slot slot, std::int32_t blocks) {
  Record& record = table_[slot];
  record.blocks = blocks;
  AddRow(slot, record.computed, RowState::kMoving);
  record.transit = Transit::kMovingIn;
  const MoveId id{++last_move_};
  moves_.push_back({id, slot, KvAction::kIn});
  notices_.moves.push_back({id, record.state.request.id, KvAction::kIn, {0}, {record.cpu_blocks}});
  ++stats_.moves_in;
}

// An admission that the oracle will be asked about.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Wish(Slot slot, const Candidate& candidate, std::int32_t blocks) {
  const Record& record = table_[slot];
  candidates_.push_back(candidate);
  candidate_seqs_ += Sequences(record);
  wishes_.push_back({record.state.request.id, {record.blocks * block_tokens_}, {blocks * block_tokens_}, true, false});
  wish_lanes_.push_back(kNoLane);
  wished_blocks_ += blocks - record.blocks;
  UseAdapter(record.state.request.adapter, 1);
}

// Takes a request out of the queue and into a lane, with its first entry.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Admit(Slot slot, std::int32_t start, std::int32_t tokens) {
  Record& record = table_[slot];
  stats_.tokens_cached += static_cast<std::uint64_t>(std::max(start - record.computed, 0));
  const std::uint32_t lane = AddRow(slot, start, RowState::kUnsteady);
  Emit(lane, tokens, 0, static_cast<std::uint16_t>(running_[lane].prefilling ? PlanEntry::kPrefill : 0));
}

template <RankPolicy Policy, PausePolicy Pause>
std::uint32_t BasicScheduler<Policy, Pause>::AddRow(Slot slot, std::int32_t start, RowState state) {
  LeaveQueue(slot);
  Record& record = table_[slot];
  const Request& r = record.state.request;
  Row row;
  row.request = r.id;
  row.slot = slot;
  row.known = row.expected = record.known;
  row.computed = row.scheduled = start;
  row.blocks = record.blocks;
  row.generated = record.state.generated.value;
  row.sequences = static_cast<std::uint16_t>(r.sequences);
  row.state = state;
  row.capacity = CapacityOf(record, record.blocks);
  Refresh(row, record);
  const std::uint32_t lane = running_.Add(row);
  if (lane >= row_keys_.size()) {
    row_keys_.resize(lane + 1), entry_of_lane_.resize(lane + 1), wish_of_lane_.resize(lane + 1);
  }
  row_keys_[lane] = queue_.VictimKeyOf(record.state, now_);
  if (gathered_ && Runs(row)) victims_.Push(lane, RankOfRow(lane));
  record.lane = lane;
  record.status = RequestStatus::kRunning;
  record.overtaken = 0;
  ++running_rows_;
  running_seqs_ += r.sequences;
  UseAdapter(r.adapter, 1);
  ++stats_.admitted;
  return lane;
}

// Brings up to date what is derived from a row's other fields.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Refresh(Row& row, const Record& record) {
  if (row.in_flight == 0) row.prefilling = row.generated == 0 || row.known - row.computed != row.sequences;
  row.cap = OutputCap(record);
  row.ceiling = std::min(row.capacity, row.cap - 1);
}

// Known tokens after which nothing more is computed: the host's own cap on output, or what can be counted.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::OutputCap(const Record& record) const {
  const Request& r = record.state.request;
  if (r.max_output_tokens.value == 0) return kMostContext;
  return static_cast<std::int32_t>(
      std::min<std::int64_t>(kMostContext, std::int64_t{r.prompt_tokens.value} + record.state.returned.value +
                                               std::int64_t{r.sequences} * r.max_output_tokens.value));
}

// Blocks that admissions may still take.
template <RankPolicy Policy, PausePolicy Pause>
std::int32_t BasicScheduler<Policy, Pause>::FreeBlocks() const {
  if (oracle_ != nullptr) return oracle_->free_blocks().value - wished_blocks_;
  return Counts() ? ledger_.free() : std::numeric_limits<std::int32_t>::max();
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::ClearWishes() {
  wishes_.clear(), wish_lanes_.clear(), candidates_.clear();
  wished_blocks_ = candidate_seqs_ = 0;
}

// Asks the host's oracle for all that this plan needs. What it refuses is left out of this plan and loses nothing: how
// much memory there is, its counts alone tell. So an admission that it grants takes nothing from a row that it refuses.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::AskOracle() {
  std::size_t kept = 0;  // of those that were withdrawn, nothing is left
  for (std::size_t i = 0; i < wishes_.size(); ++i) {
    if (!wishes_[i].request) continue;
    if (wish_lanes_[i] != kNoLane) wish_of_lane_[wish_lanes_[i]] = 0;
    wishes_[kept] = wishes_[i], wish_lanes_[kept++] = wish_lanes_[i];
  }
  wishes_.resize(kept), wish_lanes_.resize(kept);
  if (kept == 0) return;
  oracle_->Reserve(plan_->id, wishes_);
  std::size_t candidate = 0;
  for (std::size_t i = 0; i < wishes_.size(); ++i) {
    const KvReservation& wish = wishes_[i];
    stats_.oracle_refused += wish.granted ? 0 : 1;
    refused_ |= !wish.granted;
    if (const std::uint32_t lane = std::exchange(wish_lanes_[i], kNoLane); lane != kNoLane) {
      if (wish.granted) continue;
      row_refused_ = true;
      Unplan(lane);
      WithdrawBlocks(running_[lane], wish);
      continue;
    }
    const Candidate c = candidates_[candidate++];
    Record& record = table_[c.slot];
    // What was set aside for it: Admit takes it again, and whoever is refused leaves it to others.
    budget_ += c.tokens;
    if (c.prefill) prefill_left_ += c.tokens;
    UseAdapter(record.state.request.adapter, -1);
    record.refused_at = wish.granted ? 0 : stats_.plans;
    if (!wish.granted) {
      top_waits_for_ = WaitsFor::kKv;
      if (c.tokens == 0) swap_in_left_ += record.cpu_blocks;
      continue;
    }
    if (record.cpu_blocks > 0) {
      SwapIn(c.slot, std::max(BlocksFor(record), record.cpu_blocks));
    } else {
      record.blocks = std::max(BlocksFor(record), record.blocks);
      Admit(c.slot, c.start, c.tokens);
    }
  }
  ClearWishes();
}

template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::AdapterFits(AdapterId id) const {
  std::int32_t distinct = 0;
  for (const AdapterUse& use : adapters_) {
    if (use.id == id) return true;
    ++distinct;
  }
  return distinct < limits_.adapters;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::UseAdapter(AdapterId id, std::int32_t change) {
  if (!id) return;
  auto use = std::ranges::find(adapters_, id, &AdapterUse::id);
  if (use == adapters_.end()) use = adapters_.insert(use, {id, 0}), ++adapter_changes_;
  use->requests += change;
  if (use->requests == 0) adapters_.erase(use), ++adapter_changes_;
}

// ---- giving way -------------------------------------------------------------------------------------------------

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::Preempt(std::uint32_t lane, bool by_rank) {
  displaced_ |= Unplan(lane);
  const Row& row = running_[lane];
  const bool swap = options_.preempt_action == KvAction::kOut && HasOwnKv(row) && row.blocks <= ledger_.cpu_free() &&
                    row.blocks <= swap_out_left_ && row.sequences == Sequences(table_[row.slot]);
  const KvAction action = swap ? KvAction::kOut : KvAction::kDrop;
  ++(swap ? stats_.preempted_swap : stats_.preempted_recompute);
  stats_.preempted_by_rank += by_rank ? 1 : 0;
  notices_.preempted.push_back({row.request, action});
  Depart(lane, action, RequestStatus::kWaiting, row.blocks);
}

// Promoted rows are better than all others; then by rank, as of now.
template <RankPolicy Policy, PausePolicy Pause>
auto BasicScheduler<Policy, Pause>::RankOfRow(std::uint32_t lane) -> Victim {
  const Row& row = running_[lane];
  const RequestState& state = StateOfRow(row);
  return {state.request.preemptible,
          {!queue_.PromotedWith(row.slot, row.steps),
           {queue_.VictimGroupOf(state), queue_.moving() ? queue_.VictimKeyOf(state, now_) : row_keys_[lane]}}};
}

// The row to preempt first; kNoLane where there is none. The first question of a plan looks at all rows, and keeps them
// in order: their ranks change between plans.
template <RankPolicy Policy, PausePolicy Pause>
std::uint32_t BasicScheduler<Policy, Pause>::Worst(bool preemptible_only) {
  if (!std::exchange(gathered_, true)) {
    for (std::uint32_t lane : running_.order()) {
      if (Runs(running_[lane]) && !victims_.contains(lane)) victims_.Push(lane, {});
    }
    victims_.UpdateAll([this](std::uint32_t lane) { return RankOfRow(lane); });
  }
  const std::uint32_t worst = victims_.Top();
  return preemptible_only && worst != kNoLane && !victims_.TopKey().preemptible ? kNoLane : worst;
}

// A waiting request may displace a running one; equal ranks never swap. Who was let in runs a step first: else two
// requests whose keys follow their waiting could displace each other for ever.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Outranks(Slot slot, std::uint32_t lane) {
  const Row& row = running_[lane];
  if (row.steps == 0 || (row.steps == 1 && (row.in_flight & step_) != 0)) return false;
  if (queue_.PromotedWith(row.slot, row.steps)) return false;
  if (queue_.promoted(slot)) return true;
  return queue_.Outranks(table_[slot].state, StateOfRow(row), options_.preempt_margin, now_);
}

// PreemptMode::kByRank: frees a row's place, or its memory, for the first of the queue. False: nothing to gain.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::MakeWayFor(Slot slot) {
  if (slot == kNoSlot || (top_waits_for_ != WaitsFor::kSequences && top_waits_for_ != WaitsFor::kKv)) return false;
  const Record& record = table_[slot];
  if (record.refused_at > kv_freed_at_) return false;  // as it would be again, perhaps: nobody loses its place for that
  const std::uint32_t worst = Worst(true);
  if (worst == kNoLane || !Outranks(slot, worst)) return false;
  if (block_tokens_ > 0) {
    // Those that it outranks, up to the first that it does not, must be enough together, or nobody gains.
    const std::int64_t need = std::max(BlocksFor(record), record.cpu_blocks) - record.blocks + watermark_;
    const std::int64_t missing = need - FreeBlocks() - Pending();
    if (missing > 0 && (way_for_ != slot || way_blocks_ < missing)) {
      way_for_ = slot;
      way_blocks_ = 0;
      victims_.VisitInOrder([&](std::uint32_t lane) {
        const Row& row = running_[lane];
        if (!table_[row.slot].state.request.preemptible || !Outranks(slot, lane)) return false;
        way_blocks_ += row.blocks;
        return way_blocks_ < missing;
      });
      if (way_blocks_ < missing) return false;
    }
    if (top_waits_for_ == WaitsFor::kKv && Pending() > 0) return false;
  }
  if (way_for_ == slot) way_blocks_ -= running_[worst].blocks;  // the first of them
  const bool resolved = running_[worst].in_flight == 0;
  const Slot victim = running_[worst].slot;
  Preempt(worst, true);
  displaced_ = true;
  // Where who was displaced comes first even so (its key follows what it has done), it would displace back.
  if (queue_.contains(victim) && queue_.IsBefore(victim, slot)) return false;
  return resolved || top_waits_for_ == WaitsFor::kSequences;
}

// The plan is empty. If something could run, were it not for memory that idles, or for its rank, this sees to it.
// True: memory was freed, so build again. Each round frees something, so that it ends.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Unstick() {
  if (limits_.tokens.value <= 0 || steps_in_flight_ > 0) return false;
  // The oracle has the memory, by its counts, and refused it. The next plan asks again.
  if (refused_) {
    if (!short_of_kv_) AdmitWhoeverFits();
    return false;
  }
  // Rows gave up their places, or their share of the step, and nobody took it: with fewer rows it is another question.
  if (displaced_ || (short_of_kv_ && Worst(false) == kNoLane)) return true;
  const bool more_kv_soon = !moves_.empty() || Pending() > 0;
  if (running_rows_ == 0 && !more_kv_soon && ReclaimForHead()) return true;
  const std::int32_t free = FreeBlocks();
  if ((!short_of_kv_ || more_kv_soon) && AdmitWhoeverFits()) return false;
  if (refused_) return false;
  if (FreeBlocks() > free) return true;  // some of them can never fit, and what they held is free
  if (more_kv_soon) return false;
  if (running_rows_ == 0) return top_waits_for_ == WaitsFor::kKv && !queue_.empty() && Reclaim(Head(), false);
  if (!short_of_kv_) return false;
  // All rows need memory that none has to give.
  if (!Reclaim(kNoSlot, false)) {
    const std::uint32_t worst = Worst(true);
    if (worst != kNoLane && running_rows_ > 1) {
      Preempt(worst, false);
    } else {
      Fail(running_[worst != kNoLane ? worst : Worst(false)].slot, FailReason::kKvExhausted);
    }
  }
  return true;
}

// Nothing runs, and the first of the queue waits for memory: what is kept for those behind it is dropped where that is
// enough, or they would go first, one at a time.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::ReclaimForHead() {
  if (top_waits_for_ != WaitsFor::kKv || queue_.empty() || came_back_.empty()) return false;
  RankHolders();
  const Slot head = Head();
  const Record& record = table_[head];
  const bool holds = record.holds && record.blocks > 0 && record.lane == kNoLane && record.transit == Transit::kNone;
  // Of its prefix nothing is counted on here: it may be those who would lose their KV that have it.
  if (FreeBlocks() + held_by_waiting_ - (holds ? record.blocks : 0) < BlocksNeeded(record, {})) return false;
  bool any = false;
  while (FreeBlocks() < BlocksNeeded(record, HitOf(record)) && Reclaim(head, true)) any = true;
  return any;
}

// Whether all that waited when a search found nobody would still not fit: there is no more room than there was then.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::SearchHolds() const {
  return searched_.holds && searched_.limits == limits_ && FreeBlocks() <= searched_.free &&
         running_rows_ >= searched_.rows && running_seqs_ >= searched_.seqs && LoadedAdapters() == searched_.adapters &&
         searched_.host_changes == host_changes_ && searched_.prefixes == ledger_.prefixes_used() &&
         (!searched_.by_memory || top_waits_for_ == WaitsFor::kKv);
}

// Whoever is first does not fit; but nothing runs that it could wait for, so whoever fits may run: one at a time. As
// long as a search that found nobody holds, only those are looked at that have come since. An oracle is asked for so
// many in a plan; where it refuses them all, the next plan asks for those behind them.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::AdmitWhoeverFits() {
  if (queue_.empty()) return false;
  const WaitsFor top_waits_for = top_waits_for_;
  const Slot head = head_;
  const bool held = SearchHolds(), by_memory = top_waits_for == WaitsFor::kKv;
  const std::int32_t free = FreeBlocks();
  std::int32_t least = std::numeric_limits<std::int32_t>::max();  // that one needs who was not tried
  bool tried = false;
  const auto may_fit = [&](Slot slot) {
    ++stats_.searched;
    const Record& record = table_[slot];
    if (record.refused_at == stats_.plans) return false;
    if (!by_memory) return true;
    const std::int32_t blocks = BlocksNeeded(record, HitOf(record));
    if (blocks <= free) return true;
    least = std::min(least, blocks);
    return false;
  };
  std::size_t next = 0;  // where the search stopped
  const auto try_from = [&](std::size_t first) {
    const std::size_t n = scratch_.size();
    next = first;
    for (std::size_t i = 0; i < n && asks_left_ > 0; ++i) {
      const Slot slot = scratch_[next % n];
      next = (next + 1) % n;
      tried = true;
      if (TryAdmit(slot) != Fit::kAdmitted) continue;
      if (oracle_ != nullptr) --asks_left_, AskOracle();
      if (planned_ > 0) return true;  // else its KV is on the way back, and somebody else may run
    }
    return false;
  };
  scratch_.clear();
  if (held) {
    for (Slot slot : joined_) {
      if (queue_.contains(slot) && may_fit(slot)) scratch_.push_back(slot);
    }
    std::ranges::sort(scratch_, [this](Slot a, Slot b) { return queue_.IsBefore(a, b); });
    scratch_.erase(std::unique(scratch_.begin(), scratch_.end()), scratch_.end());
    if (try_from(0)) return true;
  } else {
    // Mostly the first that seems to fit does; and where nobody does, the order of the queue does not matter.
    for (const std::size_t most : {std::size_t{1}, SIZE_MAX}) {
      scratch_.clear();
      queue_.ForEachInOrder([&](Slot slot) {
        if (may_fit(slot)) scratch_.push_back(slot);
        return scratch_.size() < most;
      });
      if (try_from(most == 1 ? 0 : search_from_)) return true;
      if (scratch_.size() < most) break;
    }
  }
  search_from_ = held || asks_left_ > 0 ? 0 : next;
  top_waits_for_ = top_waits_for;
  head_ = queue_.contains(head) ? head : kNoSlot;
  joined_.clear();
  const std::int32_t enough = tried ? std::min(free, FreeBlocks()) : std::max(free, least - 1);  // for nobody
  searched_ = {.limits = limits_,
               .free = held ? std::min(searched_.free, enough) : enough,
               .rows = held && !tried ? searched_.rows : running_rows_,
               .seqs = held && !tried ? searched_.seqs : running_seqs_,
               .adapters = LoadedAdapters(),
               .host_changes = host_changes_,
               .prefixes = ledger_.prefixes_used(),
               .by_memory = by_memory,
               .tried = tried || (held && searched_.tried),
               // What may move in one step has been used up, perhaps, or an oracle has refused what it will grant.
               .holds = !refused_ && asks_left_ > 0 && swap_in_left_ >= limits_.swap_in.value};
  return false;
}

template <RankPolicy Policy, PausePolicy Pause>
Idle BasicScheduler<Policy, Pause>::WhyIdle() const {
  if (table_.size() == 0) return draining_ ? Idle::kDrained : Idle::kNoRequests;
  if (limits_.tokens.value <= 0 || limits_.max_seqs <= 0) return Idle::kNoBudget;
  if (steps_in_flight_ > 0) return Idle::kStepsInFlight;
  if (!moves_.empty()) return Idle::kMovesInFlight;
  if (Pending() > 0) return Idle::kKvPending;
  if (!queue_.empty() || running_rows_ > 0) {
    return top_waits_for_ == WaitsFor::kKv || short_of_kv_ || refused_ ? Idle::kKvHeld : Idle::kNoBudget;
  }
  return blocked_ > 0 ? Idle::kBlocked : Idle::kPaused;
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_PLAN_H_
