// BasicScheduler, continued: storage, made ready before a call begins.
#ifndef TAKT_SCHEDULER_MEMORY_H_
#define TAKT_SCHEDULER_MEMORY_H_

#include "takt/basic_scheduler.h"

// Each call first makes room for all that it may have to store; where memory fails then, nothing has changed. From then
// on nothing of the scheduler's own allocates. A call that an exception of the host's leaves all the same (from a
// policy, an oracle) has stopped half-way: `inside_` stays set, and the scheduler has ended.
namespace takt {

template <RankPolicy Policy, PausePolicy Pause>
BasicScheduler<Policy, Pause>::BasicScheduler(const SchedulerOptions& options, Policy policy, Pause pause,
                                              KvOracle* oracle)
    : options_(options),
      queue_(std::move(policy)),
      pause_(std::move(pause)),
      kv_{.ledger =
              internal::KvLedger(options.kv_blocks, options.kv_block_tokens, options.cpu_blocks,
                                 options.prefix_cache && options.kv == KvMode::kLedger, options.prefix_cpu_blocks),
          .oracle = oracle},
      steps_(options.first_step, 2 * RowsOf(options, static_cast<std::size_t>(options.reserve_requests))) {
  const auto requests = static_cast<std::size_t>(options.reserve_requests);
  const std::size_t rows = RowsOf(options, requests);
  table_.KeyHashes(options.hash_seed);
  queue_.KeyHashes(options.hash_seed);
  kv_.ledger.KeyHashes(options.hash_seed);
  leaders_.KeyHashes(options.hash_seed);
  if (options.shed == Shed::kWorst && options.max_waiting < INT64_MAX) queue_.TrackWorst();
  ReserveLanes(3 * rows + 64);  // of those that run, may come, and leave
  const auto reserve_lists = [rows, requests](auto& lists) {
    lists.moves.reserve(2 * rows + requests), lists.preempted.reserve(2 * rows);
    lists.failed.reserve(2 * rows + requests), lists.released.reserve(2 * rows + requests);
  };
  for (internal::Step& step : steps_.steps()) {
    if (!step.entries.empty()) reserve_lists(step.said);
  }
  reserve_lists(notices_);
  moves_.Reserve(2 * rows + requests);
  ReserveSlots(requests);
  if (kv_.ledger.holdings() != nullptr) {  // chunks are mostly of so many tokens, or more; smaller ones grow
    const std::int64_t chunks = std::int64_t{options.kv_blocks.value} * options.kv_block_tokens.value / 512;
    const std::int64_t most_chunks = std::clamp<std::int64_t>(64 * options.reserve_requests, 64, 1 << 20);
    kv_.ledger.MakeRoom(static_cast<std::size_t>(std::clamp<std::int64_t>(chunks, 64, most_chunks)));
    kv_.ledger.dropped().reserve(kv_.ledger.chunk_capacity());
    for (internal::Step& step : steps_.steps()) step.said.dropped.reserve(kv_.ledger.chunk_capacity());
    if (kv_.ledger.copies() != nullptr) {
      const std::int64_t copies = std::int64_t{options.prefix_cpu_blocks.value} * options.kv_block_tokens.value / 512;
      kv_.ledger.MakeRoomToCopy(static_cast<std::size_t>(std::clamp<std::int64_t>(copies, 64, most_chunks)));
    }
  }
  if (Counts()) {
    kv_.block_tokens = options.kv_block_tokens.value;
    if (kv_.block_tokens <= kMostBlockTokens) running_.SetBlocks(kv_.block_tokens);
    kv_.watermark = static_cast<std::int32_t>(options.kv_watermark * options.kv_blocks.value);
  }
  if (oracle != nullptr) kv_.block_tokens = oracle->block_tokens().value;
}

// Room for requests in slots 0..n-1, wherever they are. No list holds a slot twice.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::ReserveSlots(std::size_t slots) {
  table_.Reserve(slots);
  queue_.Reserve(slots);
  fresh_.expiries.Reserve(slots);
  if (options_.shed == Shed::kNewest && options_.max_waiting < INT64_MAX) fresh_.newest.Reserve(slots);
  ended_.reserve(slots), search_.slots.reserve(slots), search_.passed.reserve(slots);
  search_.joined.reserve(slots + 1);
  kept_.Reserve(slots);
  if (held_.door.share > 0) held_.by_arrival.Reserve(slots);
  if (Reviews()) reviews_.Reserve(slots);
  slots_reserved_ = slots;
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::ReserveLanes(std::size_t lanes) {
  running_.Reserve(lanes);
  victims_.keys.reserve(lanes), victims_.heap.Reserve(lanes);
  draft_.entry_of_lane.reserve(lanes), draft_.served.reserve(lanes), draft_.prompts.reserve(lanes);
  draft_.offers.reserve(lanes), left_out_.reserve(lanes), round_.ReserveLanes(lanes);
  adapters_.Reserve(lanes);
  if (kv_.oracle != nullptr) round_.Reserve(lanes);
  lanes_reserved_ = running_.capacity();
  if (kv_.ledger.holdings() != nullptr && options_.prefix_wait > 0) leaders_.Reserve(lanes_reserved_);
}

// Whether the pause policy may ask for a review.
template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Reviews() const {
  if constexpr (!ReviewingPause<Pause>) return false;
  if constexpr (requires { pause_.reviews(); }) return pause_.reviews();
  return true;
}

// Room for so many more; grows by doubling.
template <RankPolicy Policy, PausePolicy Pause>
template <class T>
void BasicScheduler<Policy, Pause>::MakeRoom(std::vector<T>& list, std::size_t more) {
  if (list.capacity() - list.size() < more) [[unlikely]]
    list.reserve(std::max(list.size() + more, 2 * list.capacity()));
}

template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::MakeRoomForNotices(std::size_t ends, std::size_t moves) {
  MakeRoom(notices_.failed, ends), MakeRoom(notices_.released, ends);
  if (held_.hints) MakeRoom(notices_.hints, ends);
  MakeRoom(notices_.moves, moves), moves_.MakeRoom(moves);
  kv_.ledger.MakeRoomToDrop();
  kv_.ledger.MakeRoomToCopy(table_.hashes());
}

// True where a call may go on: there is room for it, and no call before it has stopped half-way.
template <RankPolicy Policy, PausePolicy Pause>
template <class E>
bool BasicScheduler<Policy, Pause>::MayBegin(const E& event) {
  if (inside_) return Ended();
  MakeRoomForNotices(2, 1);
  if constexpr (std::same_as<E, Arrived>) {
    if (!table_.HasSlot() && table_.slots() >= slots_reserved_)
      ReserveSlots(std::max<std::size_t>(2 * slots_reserved_, 16));
    table_.MakeRoomFor(event.request);
    if (Holds()) kv_.ledger.MakeRoomToHold(table_.size() + 1), held_.times->MakeRoom(table_.size() + 1);
    if (held_.hints) held_.hints->MakeRoom(table_.size() + 1);
  }
  if constexpr (std::same_as<E, MoveDone>) {
    const internal::Move* move = moves_.Find(event.move);
    if (move != nullptr && move->action == KvAction::kFetch) {
      kv_.ledger.MakeRoom(table_[move->slot].state.request.prefix.hashes.size());
    }
  }
  if constexpr (std::same_as<E, TurnEnded> || std::same_as<E, WorkflowEnded>) {
    // A host that tells of turns has takt's own retention and gate without choosing.
    if (event.workflow && !Holds() && kv_.ledger.holdings() != nullptr) Hold(HoldValue{}, Price{}, {});
    if (event.workflow && !held_.hints && kv_.oracle != nullptr) SetHints();
    if (held_.hints) held_.hints->MakeRoom(table_.size() + 1), MakeRoom(notices_.hints, held_.hints->branches() + 1);
  }
  if constexpr (std::same_as<E, TurnEnded> || std::same_as<E, TurnExpected>) {
    if (held_.hints) MakeRoom(notices_.hints, 1);
    if (Holds()) held_.times->MakeRoom(table_.size() + 1);
  }
  return true;
}

template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::MayPlan() {
  if (inside_) return Ended();
  // No request ends twice. A row moves in or out, and all may be others at the end of the plan; a request that is
  // paused moves out.
  const std::size_t rows = RowsOf(options_, table_.size());
  steps_.MakeRoom(2 * rows, draft_.last);  // rows that give way leave gaps
  MakeRoomForNotices(table_.size() + 1, 2 * rows + reviews_.size());
  MakeRoom(notices_.preempted, 2 * rows);
  running_.MakeRoom(rows);
  if (lanes_reserved_ < running_.capacity()) ReserveLanes(running_.capacity());
  return true;
}

// For the result of this step.
template <RankPolicy Policy, PausePolicy Pause>
void BasicScheduler<Policy, Pause>::MakeRoomFor(const internal::Step& step) {
  const std::span<const PlanEntry> run = step.plan.run;
  MakeRoomForNotices(run.size(), run.size());
  if (kv_.ledger.holdings() != nullptr) {
    std::size_t chunks = 0;
    for (const PlanEntry& entry : run) {
      if (!entry.prefill()) continue;
      chunks += table_[running_.Stored(entry.lane).slot].state.request.prefix.hashes.size();
    }
    kv_.ledger.MakeRoom(chunks);
  }
}

template <RankPolicy Policy, PausePolicy Pause>
bool BasicScheduler<Policy, Pause>::Ended() {
  Blame(&Stats::calls_after_end, {.kind = FaultKind::kEnded});
  return false;
}

}  // namespace takt

#endif  // TAKT_SCHEDULER_MEMORY_H_
