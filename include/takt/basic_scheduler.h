// One engine's end of takt: events in, a plan for the next iteration out, results back in.
#ifndef TAKT_BASIC_SCHEDULER_H_
#define TAKT_BASIC_SCHEDULER_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/config.h"
#include "takt/fwd.h"
#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/pause/pause_policy.h"
#include "takt/base/indexed_heap.h"
#include "takt/policy/rank_policy.h"
#include "takt/queue/rank_queue.h"
#include "takt/scheduler_options.h"
#include "takt/kv/kv_ledger.h"
#include "takt/kv/kv_oracle.h"
#include "takt/state/request_table.h"
#include "takt/state/running_set.h"
#include "takt/state/stats.h"

namespace takt {

// So that no sum of a request's counts overflows: of a prompt, of an answer, of a block for each of its sequences; and
// of the context of all its sequences together, after which it ends.
inline constexpr std::int32_t kMostRequestTokens = 1 << 28, kMostContext = 1 << 30;

// Where a request stands, and why. For people: found by looking, at O(waiting), and not kept.
struct Explanation {
  RequestStatus status = RequestStatus::kUnknown;
  WaitsFor waits_for = WaitsFor::kNothing;
  FullKey key = {};               // its rank; smaller is sooner
  KeyParts key_parts = {};        // what its key came from, where the policy tells
  bool promoted = false;     // by aging: before all that are not
  std::int64_t ahead = 0;    // waiting requests before it
  Tokens known{0}, computed{0}, in_flight{0}, generated{0};
  Blocks kv_blocks{0}, cpu_blocks{0};
};

// The policy of a scheduler that is given none. That of one which chooses it at run time is in scheduler.h.
template <RankPolicy Policy>
struct DefaultPolicy {
  static Policy Make() { return {}; }
};

// Decides, at every iteration of one engine replica, what runs. Thread-compatible: the step loop owns it.
//
// Events may come at any time and in any order; what names no living request is counted and ignored. Each plan
// stays valid until its own Commit, an empty one until the next Plan. Up to three plans may be outstanding; a plan
// with an empty `run` needs no Commit. Time never runs backwards in here: an earlier `now` is taken as the latest.
//
// It moves and does not copy. Plans that the host holds stay valid, and then belong to the one that it was moved to.
//
// No call throws, blocks or reads a clock. After warm-up (storage as reserved in the options) none allocates. Where the
// host's operator new throws, and the host catches it, the call was not made, or the scheduler has ended(): it has not
// been made wherever memory was for the scheduler itself, or for a policy of takt's. No hook, and no oracle, may call
// the scheduler that calls it.
template <RankPolicy Policy, PausePolicy Pause = KeepAll>
class BasicScheduler {
 public:
  static constexpr int kMaxStepsInFlight = 3;

  // InvalidArgument names every option at fault. kOracle needs an oracle, which must outlive the scheduler.
  static absl::StatusOr<BasicScheduler> Create(SchedulerOptions options, Policy policy = DefaultPolicy<Policy>::Make(),
                                               Pause pause = {}, KvOracle* oracle = nullptr) {
    if (absl::Status status = options.Validate(); !status.ok()) return status;
    if ((options.kv == KvMode::kOracle) != (oracle != nullptr)) {
      return absl::InvalidArgumentError("kv: an oracle is needed for kOracle, and for nothing else");
    }
    BasicScheduler scheduler(options, std::move(policy), std::move(pause), oracle);
    if (const std::int32_t tokens = scheduler.block_tokens_; oracle != nullptr && (tokens < 1 || tokens > 1 << 20)) {
      return absl::InvalidArgumentError("oracle: block_tokens() is " + std::to_string(tokens) +
                                        ": must be 1 to 1048576");
    }
    return scheduler;
  }

  BasicScheduler(const BasicScheduler&) = delete;
  BasicScheduler& operator=(const BasicScheduler&) = delete;
  BasicScheduler(BasicScheduler&&) noexcept = default;
  BasicScheduler& operator=(BasicScheduler&&) noexcept = default;
  ~BasicScheduler() = default;

  void On(const Event& event, TimePoint now) {
    std::visit(
        [&](const auto& e) {
          if (!MayBegin(e)) return;
          inside_ = true;
          const TimePoint at = Clock(now);
          Tell(event, at);
          Handle(e, at);
          inside_ = false;
        },
        event);
  }

  // The same without the detour over a variant.
  template <class E>
    requires std::constructible_from<Event, const E&> && (!std::same_as<E, Event>)
  void On(const E& event, TimePoint now) {
    if constexpr (ObservingPolicy<Policy>) {
      On(Event(event), now);
    } else {
      if (!MayBegin(event)) return;
      inside_ = true;
      Handle(event, Clock(now));
      inside_ = false;
    }
  }

  const StepPlan& Plan(TimePoint now, const StepLimits& limits);

  void Commit(const StepResult& result, TimePoint now);

  Explanation Explain(RequestId id) const;

  const Stats& stats() const {
    stats_.promoted = queue_.promotions();
    stats_.keys_not_a_number = queue_.nan_keys();
    return stats_;
  }

  KvUse kv() const {
    if (oracle_ == nullptr) return ledger_.use();
    const Blocks total = oracle_->total_blocks(), free = oracle_->free_blocks();
    return {total,
            total - free,
            free,
            {0},
            oracle_->pending_blocks(),
            {options_.cpu_blocks},
            options_.cpu_blocks - Blocks{ledger_.cpu_free()}};
  }

  // An exception has left a call half-way, from a policy or an oracle of the host's, say. Events and results are
  // ignored from then on, and counted; plans are empty, and say Idle::kEnded. Its requests are nobody's: the host fails
  // them, or gives them to another scheduler.
  bool ended() const { return inside_; }

  std::int64_t alive() const { return static_cast<std::int64_t>(table_.size() - forgotten_.size()); }
  std::int64_t waiting() const { return static_cast<std::int64_t>(queue_.size()); }
  std::int64_t running() const { return running_rows_; }
  std::int64_t paused() const { return paused_; }
  std::int64_t blocked() const { return blocked_; }
  bool draining() const { return draining_; }
  const SchedulerOptions& options() const { return options_; }
  const Policy& policy() const { return queue_.policy(); }

  // Checks every redundant count against a recount; for tests, O(all). Empty where they agree.
  const char* Inconsistency() const;

 private:
  friend struct SchedulerCounters;  // of tests: years of planning in no time

  enum class Fit : std::uint8_t { kAdmitted, kGone, kSkip, kStop };

  struct Buffer {
    StepPlan plan;
    std::vector<PlanEntry> entries;  // storage of plan.run, which the first so many of them are
    bool in_flight = false;
    std::uint16_t bits = 0;  // of its step in Row::in_flight
  };

  struct Move {
    MoveId id;
    std::uint32_t slot = 0;
    KvAction action = KvAction::kOut;
  };

  // One that holds KV without a lane. Those that wait give it up before those that are paused or blocked.
  struct Holder {
    bool waits = false;
    FullRank rank = {};  // as a victim
    Slot slot = 0;
    std::int32_t blocks = 0;

    bool operator<(const Holder& o) const { return std::pair(waits, rank) < std::pair(o.waits, o.rank); }
  };

  // What a plan will say besides its entries.
  struct Notices {
    std::vector<KvMove> moves;
    std::vector<Preemption> preempted;
    std::vector<Failure> failed;
    std::vector<RequestId> released;
  };

  struct AdapterUse {
    AdapterId id;
    std::int32_t requests = 0;
  };

  // A search through all that wait found nobody who fits, and would again, as long as it holds.
  struct Searched {
    StepLimits limits = {};
    std::int32_t free = 0;  // blocks that are not enough for anybody
    std::int32_t rows = 0, seqs = 0;
    std::uint64_t adapters = 0, host_changes = 0, prefixes = 0;
    bool by_memory = false;  // whoever needs more than what was free was not tried
    bool tried = false;  // others were
    bool holds = false;
  };

  // An admission that waits for the oracle's answer; no tokens: it is swapped in.
  struct Candidate {
    Slot slot = 0;
    std::int32_t start = 0, tokens = 0;
    bool prefill = false;
  };

  // A row that runs, in the order in which rows give way.
  struct Victim {
    bool preemptible = true;
    VictimRank rank = {};

    friend bool operator<(const Victim& a, const Victim& b) {
      return a.preemptible != b.preemptible ? a.preemptible : b.rank < a.rank;
    }
  };

  BasicScheduler(const SchedulerOptions& options, Policy policy, Pause pause, KvOracle* oracle)
      : options_(options),
        queue_(std::move(policy)),
        pause_(std::move(pause)),
        oracle_(oracle),
        ledger_(options.kv_blocks, options.kv_block_tokens, options.cpu_blocks, options.prefix_cache) {
    const auto requests = static_cast<std::size_t>(options.reserve_requests);
    const auto rows = static_cast<std::size_t>(options.max_running);
    table_.KeyHashes(options.hash_seed);
    queue_.KeyHashes(options.hash_seed);
    ledger_.KeyHashes(options.hash_seed);
    if (options.shed == Shed::kWorst && options.max_waiting < INT64_MAX) queue_.TrackWorst();
    ReserveLanes(3 * rows + 64);  // of those that run, may come, and leave
    adapters_.reserve(rows);
    if (oracle != nullptr) wishes_.reserve(2 * rows), wish_lanes_.reserve(2 * rows), candidates_.reserve(rows);
    const auto reserve_lists = [rows, requests](auto& lists) {
      lists.moves.reserve(2 * rows + requests), lists.preempted.reserve(2 * rows);
      lists.failed.reserve(2 * rows + requests), lists.released.reserve(2 * rows + requests);
    };
    last_step_ = options.first_step.value - 1;
    buffers_->back().plan.idle = Idle::kEnded;
    for (std::size_t i = 0; i + 1 < buffers_->size(); ++i) {
      Buffer& b = (*buffers_)[i];
      b.bits = Row::Bits(static_cast<int>(i));
      b.entries.resize(2 * rows);  // rows that give way within a plan leave gaps until it is built
      reserve_lists(b.plan);
    }
    reserve_lists(notices_);
    moves_.reserve(2 * rows + requests);
    ReserveSlots(requests);
    if (options.prefix_cache && Counts()) {  // chunks are mostly of so many tokens, or more; smaller ones grow
      const std::int64_t chunks = std::int64_t{options.kv_blocks.value} * options.kv_block_tokens.value / 512;
      ledger_.MakeRoom(static_cast<std::size_t>(std::clamp<std::int64_t>(chunks, 64, 1 << 20)));
    }
    if (Counts()) {
      block_tokens_ = options.kv_block_tokens.value;
      watermark_ = static_cast<std::int32_t>(options.kv_watermark * options.kv_blocks.value);
    }
    if (oracle_ != nullptr) block_tokens_ = oracle_->block_tokens().value;
  }

  // ---- memory -------------------------------------------------------------------------------------------------
  //
  // Each call first makes room for all that it may have to store; where memory fails then, nothing has changed. From
  // then on nothing of the scheduler's own allocates. A call that an exception of the host's leaves all the same (from
  // a policy, an oracle) has stopped half-way: `inside_` stays set, and the scheduler has ended.

  // Room for requests in slots 0..n-1, wherever they are. No list holds a slot twice.
  void ReserveSlots(std::size_t slots) {
    table_.Reserve(slots);
    queue_.Reserve(slots);
    expiries_.Reserve(slots);
    if (options_.shed == Shed::kNewest && options_.max_waiting < INT64_MAX) newest_waiting_.Reserve(slots);
    for (std::vector<Slot>* list : {&forgotten_, &holders_, &came_back_, &scratch_}) list->reserve(slots);
    joined_.reserve(slots + 1), droppable_.reserve(slots);
    if (Reviews()) reviews_.Reserve(slots), calls_.reserve(slots);
    slots_reserved_ = slots;
  }

  void ReserveLanes(std::size_t lanes) {
    running_.Reserve(lanes);
    row_keys_.reserve(lanes);
    entry_of_lane_.reserve(lanes), wish_of_lane_.reserve(lanes);
    victims_.Reserve(lanes);
    lanes_reserved_ = running_.capacity();
  }

  bool Reviews() const {
    if constexpr (!ReviewingPause<Pause>) return false;
    if constexpr (requires { pause_.reviews(); }) return pause_.reviews();
    return true;
  }

  // Room for n more; grows by doubling.
  template <class T>
  static void MakeRoom(std::vector<T>& list, std::size_t n) {
    if (list.capacity() - list.size() < n) [[unlikely]]
      list.reserve(std::max(list.size() + n, 2 * list.capacity()));
  }
  void MakeRoomForNotices(std::size_t ends, std::size_t moves) {
    MakeRoom(notices_.failed, ends), MakeRoom(notices_.released, ends);
    MakeRoom(notices_.moves, moves), MakeRoom(moves_, moves);
  }

  // True where a call may go on: there is room for it, and no call before it has stopped half-way.
  template <class E>
  bool MayBegin(const E& event) {
    if (inside_) return Ended();
    MakeRoomForNotices(2, 1);
    if constexpr (std::same_as<E, Arrived>) {
      if (!table_.HasSlot() && table_.slots() >= slots_reserved_)
        ReserveSlots(std::max<std::size_t>(2 * slots_reserved_, 16));
    }
    if constexpr (std::same_as<E, PolicyChanged> && std::same_as<Policy, AnyPolicy>) {
      if (event.policy != nullptr) queue_.PrepareChange(*event.policy);
    }
    return true;
  }
  bool MayPlan() {
    if (inside_) return Ended();
    // No request ends twice. A row moves in or out, and all may be others at the end of the plan; who is paused moves
    // out.
    const auto rows = static_cast<std::size_t>(options_.max_running);
    MakeRoomForNotices(table_.size() + 1, 2 * rows + reviews_.size());
    MakeRoom(notices_.preempted, 2 * rows);
    running_.MakeRoom(rows);
    if (lanes_reserved_ < running_.capacity()) ReserveLanes(running_.capacity());
    return true;
  }
  void MakeRoomFor(const Buffer& buffer) {
    const std::span<const PlanEntry> run = buffer.plan.run;
    MakeRoomForNotices(run.size(), run.size());
    if (options_.prefix_cache && Counts()) {
      std::size_t chunks = 0;
      for (const PlanEntry& entry : run) {
        if (!entry.prefill()) continue;
        const Request& r = table_[running_[entry.lane].slot].state.request;
        if (r.prefix != nullptr) chunks += r.prefix->hashes.size();
      }
      ledger_.MakeRoom(chunks);
    }
  }
  bool Ended() {
    ++stats_.calls_after_end;
    return false;
  }

  // ---- events -------------------------------------------------------------------------------------------------

  TimePoint Clock(TimePoint now) {
    if (now < now_) ++stats_.clock_stepped_back;
    now_ = std::max(now, now_);
    return now_;
  }

  void Tell(const Event& event, TimePoint now) {
    if constexpr (ObservingPolicy<Policy>) queue_.policy().Observe(event, now);
  }

  // The slot of a request that has not ended; kNoSlot, and counted, where there is none.
  Slot Living(RequestId id) {
    const Slot slot = table_.Find(id);
    if (slot != IdMap::kAbsent && table_[slot].status != RequestStatus::kDead) return slot;
    ++stats_.events_unknown;
    return kNoSlot;
  }

  NextCall Believed(const NextCall& told);
  WorkAfter Believed(const WorkAfter& told);

  void Handle(const Arrived& e, TimePoint now);
  void Handle(const Revised& e, TimePoint now);
  void Handle(const Blocked& e, TimePoint now);
  void Handle(const Unblocked& e, TimePoint now);
  void Handle(const ToolCalled& e, TimePoint now);
  void Handle(const ToolReturned& e, TimePoint now);
  void Handle(const Cancelled& e, TimePoint);
  void Handle(const MoveDone& e, TimePoint now);
  void Handle(const KvFreed&, TimePoint) { kv_freed_at_ = stats_.plans, ++host_changes_; }
  void Handle(const PolicyChanged& e, TimePoint now);
  void Handle(const Epoch&, TimePoint) {}  // for policies that observe
  void Handle(const Drain&, TimePoint) { draining_ = true; }

  // ---- lives --------------------------------------------------------------------------------------------------

  void NoteKept(Slot slot);
  void Join(Slot slot);
  void Enqueue(Slot slot, std::int64_t steps_run);
  void LeaveQueue(Slot slot);
  void WatchExpiry(Slot slot);
  void Score(Record& record);
  void Rank(Slot slot);
  RequestState& StateOfRow(const Row& row);
  void RankRow(std::uint32_t lane);
  void RefreshScores();
  void Shelve(Slot slot, RequestStatus status, KvAction action, std::int32_t out = 0);
  void Depart(std::uint32_t lane, KvAction action, RequestStatus status, std::int32_t out = 0);
  void DropAtSettling(Record& record);
  void Settle(Slot slot);
  void MoveOut(Slot slot);
  void End(Slot slot);
  void EndAtCap(Slot slot);
  void Fail(Slot slot, FailReason reason);
  void Refuse(RequestId id, FailReason reason);
  void Fault(RequestId id, FailReason reason);
  void Release(Slot slot);
  void Void(Row& row);
  void Shrink(Row& row, Record& record);
  void ShedDownTo(std::int64_t bound);
  void Expire(TimePoint now);
  std::uint64_t& Failures(FailReason reason);

  // ---- paused requests ----------------------------------------------------------------------------------------

  // A tool call that the pause policy wants to be asked about again.
  struct PausedCall {
    ToolCalled call;
    TimePoint since{}, review_at{};
  };
  struct Kept {
    std::int32_t computed = 0, blocks = 0;
  };
  Kept KeptOf(const Record& record) const;
  std::int64_t RunningTokens();
  PauseView ViewOf(const Record& record);
  std::int32_t BlocksOut(const Record& record, const PauseDecision& decision, const PauseView& view) const;
  void LetGo(Slot slot, std::int32_t out);
  void ReviewAt(Slot slot, TimePoint at, const PausedCall& call);
  void EndReviews(Slot slot);
  void Review();

  // ---- KV -----------------------------------------------------------------------------------------------------

  std::int32_t BlocksFor(const Record& record) const;
  std::int32_t CapacityOf(const Record& record, std::int32_t blocks) const;
  std::int32_t TotalBlocks() const;
  bool Counts() const { return options_.kv == KvMode::kLedger; }
  std::int32_t ChunkBlocks(const Record& record) const {
    return ledger_.ChunkBlocks(record.state.request.prefix.get());
  }
  std::span<const std::uint64_t> Hashes(const Record& record, std::int32_t first, std::int32_t last) const {
    const auto& hashes = record.state.request.prefix->hashes;
    return std::span(hashes).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  }
  void FreeKv(Record& record, KvAction action = KvAction::kDrop);
  void AllocateCpu(Record& record, std::int32_t blocks);
  void FreeCpu(Record& record);
  bool HasOwnKv(const Record& record, std::int32_t blocks, std::int32_t computed) const;
  bool HasOwnKv(const Row& row) const { return HasOwnKv(table_[row.slot], row.blocks, row.computed); }
  bool Grow(Row& row);
  bool SpareRoom(std::uint32_t lane, std::int32_t want);
  bool Room(std::uint32_t lane, std::int32_t want);
  void RankHolders();
  bool Reclaim(Slot spared, bool waiting);
  void PublishPrefix(const Row& row, Record& record);
  std::int64_t Pending() const { return leaving_blocks_ + (oracle_ != nullptr ? oracle_->pending_blocks().value : 0); }

  // ---- planning -----------------------------------------------------------------------------------------------

  void TellPressure();
  void Build();
  void PlanRunning();
  void PlanPrefills();
  void PlanDecodes();
  void PlanRow(std::uint32_t lane);
  std::int32_t Chunk(const Request& r, std::int32_t start, std::int32_t left) const;
  void Emit(std::uint32_t lane, std::int32_t tokens, std::int32_t drafts, std::uint16_t flags);
  bool Unplan(std::uint32_t lane);
  void CloseGaps();
  void WithdrawBlocks(Row& row, const KvReservation& wish);
  void AdmitWaiting();
  bool AdmitKept();
  void AdmitPastTop();
  WaitsFor PassedOverFor(const Record& record) const;
  bool NeedsLargerStep(const Record& record) const;
  Fit TryAdmit(Slot slot);
  Fit TrySwapIn(Slot slot);
  void SwapIn(Slot slot, std::int32_t blocks);
  PrefixCache::Hit HitOf(const Record& record) const;
  std::int32_t BlocksNeeded(const Record& record, const PrefixCache::Hit& hit) const;
  void Wish(Slot slot, const Candidate& candidate, std::int32_t blocks);
  void Admit(Slot slot, std::int32_t start, std::int32_t tokens);
  std::uint32_t AddRow(Slot slot, std::int32_t start, RowState state);
  void AskOracle();
  std::int32_t FreeBlocks() const;
  void ClearWishes();
  bool AdapterFits(AdapterId id) const;
  void UseAdapter(AdapterId id, std::int32_t change);
  void Preempt(std::uint32_t lane, bool by_rank);
  std::uint32_t Worst(bool preemptible_only);
  Victim RankOfRow(std::uint32_t lane);
  bool Outranks(Slot slot, std::uint32_t lane);
  bool MakeWayFor(Slot slot);
  bool Unstick();
  Slot Head() const { return head_ != kNoSlot ? head_ : queue_.Top(); }
  bool ReclaimForHead();
  bool SearchHolds() const;
  bool AdmitWhoeverFits();
  void NoteJoined(Slot slot);
  // Differs wherever other adapters are in use.
  std::uint64_t LoadedAdapters() const { return adapters_.empty() ? 0 : adapter_changes_; }
  Idle WhyIdle() const;
  bool Runs(const Row& row) const { return row.state == RowState::kSteady || row.state == RowState::kUnsteady; }
  std::int32_t OutputCap(const Record& record) const;
  void Refresh(Row& row, const Record& record);
  std::int32_t Sequences(const Record& record) const { return record.state.request.sequences; }

  // ---- results ------------------------------------------------------------------------------------------------

  void Apply(const PlanEntry& entry, const RowResult& result, std::uint16_t step);
  void Absent(const PlanEntry& entry, std::uint16_t step);
  bool Voided(const PlanEntry& entry, std::uint16_t step);
  void CommitScattered(const Buffer& buffer, std::span<const RowResult> rows, std::size_t first);
  void TellScheduled(const PlanEntry& entry, std::int32_t prefill, std::int32_t output);

  auto StateOf() const {
    return [this](Slot slot) -> const RequestState& { return table_[slot].state; };
  }

  SchedulerOptions options_;
  RankQueue<Policy> queue_;
  Pause pause_;
  KvOracle* oracle_ = nullptr;
  KvLedger ledger_;
  RequestTable table_;
  RunningSet running_;
  std::vector<FullKey> row_keys_;  // by lane: rank as a victim, within its group
  IndexedHeap expiries_;  // waiting requests by expires_at
  IndexedHeap newest_waiting_;  // Shed::kNewest and bounded waiting: those that have never run, the last first
  IndexedHeap reviews_;  // paused requests by when to ask about them again
  std::vector<PausedCall> calls_;  // by slot; grows with the first review
  std::vector<AdapterUse> adapters_;
  std::vector<Move> moves_;
  std::vector<Slot> came_back_;  // those that wait with KV of theirs, as they joined the queue, and some others
  std::int32_t came_back_least_ = 0;  // blocks: none of them needs fewer beyond its own
  std::vector<Slot> holders_;  // those that were left KV when they lost their lanes, and some that have it no more
  std::vector<Holder> droppable_;  // a heap of those whose KV a plan may drop, the worst on top
  std::uint64_t droppable_of_ = 0;  // which plan
  std::int64_t held_by_waiting_ = 0;  // blocks of those of them that wait
  Notices notices_;
  std::vector<Slot> forgotten_;  // named as released by the next plan, and erased by it
  mutable Stats stats_;

  TimePoint now_ = kUnset;
  // At an address that stays when the scheduler is moved: the host holds plans, and plans look into their buffers. The
  // last is for when it has ended.
  using Buffers = std::array<Buffer, kMaxStepsInFlight + 2>;
  std::unique_ptr<Buffers> buffers_ = std::make_unique<Buffers>();
  std::uint64_t last_step_ = 0;
  std::uint64_t last_move_ = 0;
  int steps_in_flight_ = 0;
  bool draining_ = false;
  bool inside_ = false;  // a call; between calls: one was left half-way
  std::size_t slots_reserved_ = 0, lanes_reserved_ = 0;

  std::int64_t paused_ = 0, blocked_ = 0;
  std::int64_t never_run_ = 0;  // of those that wait
  std::int64_t running_tokens_ = 0;
  std::uint64_t running_tokens_at_ = UINT64_MAX;  // the plan that it was counted after
  Slot refresh_next_ = 0;
  std::int32_t running_rows_ = 0;
  std::int32_t running_seqs_ = 0;
  std::int64_t leaving_blocks_ = 0;  // of rows that drain or move out: free soon
  std::int32_t block_tokens_ = 0;  // of the ledger or the oracle; 0: KV is not accounted for
  std::int32_t watermark_ = 0;

  // Of the plan being built.
  StepPlan* plan_ = nullptr;
  PlanEntry* entries_ = nullptr;
  std::uint16_t step_ = 0;  // its bits in Row::in_flight
  std::size_t planned_ = 0;  // entries so far
  std::size_t indexed_ = 0;  // of these, so many are found by entry_of_lane_
  StepLimits limits_;
  std::int32_t budget_ = 0, prefill_left_ = 0, seqs_left_ = 0, swap_in_left_ = 0, candidate_seqs_ = 0;
  std::int32_t swap_out_left_ = Blocks::Max().value;  // between plans: what is left of the next one's, as far as known
  bool short_of_kv_ = false;
  bool refused_ = false, row_refused_ = false;  // the oracle refused somebody; a row that runs
  bool displaced_ = false;  // a row gave up its place, or its share of the step, while the plan was built
  std::uint64_t kv_freed_at_ = 0;  // plans so far when the host last freed KV
  std::size_t search_from_ = 0;  // of those that seem to fit, so many were asked for in vain in plans before
  std::int32_t asks_left_ = 0;  // of an oracle, in searches for anyone who fits
  std::int32_t wished_blocks_ = 0;  // of all wishes
  Searched searched_;
  std::vector<Slot> joined_;  // while the search holds: those that have joined the queue, or may be looked at, since
  std::uint64_t adapter_changes_ = 0;  // adapters that came into use or went out of it
  std::uint64_t host_changes_ = 0;  // times at which a host's oracle may have come to answer otherwise
  WaitsFor top_waits_for_ = WaitsFor::kItsTurn;  // what keeps out the first that is not passed over
  Slot head_ = kNoSlot;  // which is this one; kNoSlot: the first of all, or nobody
  std::vector<KvReservation> wishes_;
  std::vector<std::uint32_t> wish_lanes_;  // of rows that run and were not yet answered
  std::vector<std::uint32_t> wish_of_lane_;  // back again: index + 1; 0: none
  std::vector<Candidate> candidates_;
  std::vector<Slot> scratch_;
  // Of the plan being built, as far as indexed_, and of the result being read: index + 1; 0 elsewhere.
  std::vector<std::uint32_t> entry_of_lane_;
  IndexedHeapOf<Victim> victims_;  // rows that run, by lane, once the plan has needed one
  bool gathered_ = false;
  Slot way_for_ = kNoSlot;  // the last for which others were to make way; and the blocks of those left of them
  std::int64_t way_blocks_ = 0;
};

}  // namespace takt

#include "takt/scheduler/events.h"
#include "takt/scheduler/plan.h"
#include "takt/scheduler/commit.h"

#endif  // TAKT_BASIC_SCHEDULER_H_
