// One engine's end of takt: events in, a plan for the next iteration out, results back in.
#ifndef TAKT_BASIC_SCHEDULER_H_
#define TAKT_BASIC_SCHEDULER_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/owner.h"
#include "takt/base/indexed_heap.h"
#include "takt/base/time_heap.h"
#include "takt/config.h"
#include "takt/fwd.h"
#include "takt/turns/gates/any_gate.h"
#include "takt/turns/gates/price.h"
#include "takt/turns/return_times.h"
#include "takt/turns/turn_hints.h"
#include "takt/model/event.h"
#include "takt/model/fault.h"
#include "takt/model/step.h"
#include "takt/pause/pause_policy.h"
#include "takt/policy/rank_policy.h"
#include "takt/queue/rank_queue.h"
#include "takt/scheduler/adapter_set.h"
#include "takt/scheduler/kept_kv.h"
#include "takt/scheduler/move_list.h"
#include "takt/scheduler/oracle_round.h"
#include "takt/scheduler/prefix_leaders.h"
#include "takt/scheduler/review_list.h"
#include "takt/scheduler/step_budget.h"
#include "takt/scheduler/step_ring.h"
#include "takt/turns/retention/hold_value.h"
#include "takt/scheduler_options.h"
#include "takt/kv/kv_ledger.h"
#include "takt/kv/kv_oracle.h"
#include "takt/state/request_table.h"
#include "takt/state/revise.h"
#include "takt/state/running_set.h"
#include "takt/state/stats.h"

namespace takt {

// Where a request stands, and why. For people: found by looking, at O(waiting), and not kept.
struct Explanation {
  RequestStatus status = RequestStatus::kUnknown;
  WaitsFor waits_for = WaitsFor::kNothing;
  RankKey key;              // smaller is sooner; of equal ones, what arrived first
  KeyParts key_parts = {};  // what its key came from, where the policy tells
  bool promoted = false;    // by aging: before all that are not
  std::int64_t ahead = 0;   // waiting requests before it
  Tokens known{0}, computed{0}, in_flight{0}, generated{0};  // of its context: in all, computed, in flight; output
  Blocks kv_blocks{0}, cpu_blocks{0};                        // that it holds, on the GPU and in the host's memory
  std::int32_t passed = 0;  // requests let in before it while it lacked memory, or room in a step
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
  static constexpr int kMaxStepsInFlight = internal::StepRing::kMostInFlight;

  // InvalidArgument names every option at fault. kOracle needs an oracle, which must outlive the scheduler.
  static absl::StatusOr<BasicScheduler> Create(SchedulerOptions options, Policy policy = DefaultPolicy<Policy>::Make(),
                                               Pause pause = {}, KvOracle* oracle = nullptr) {
    if (absl::Status status = options.Validate(); !status.ok()) return status;
    if ((options.kv == KvMode::kOracle) != (oracle != nullptr)) {
      return absl::InvalidArgumentError("kv: an oracle is needed for kOracle, and for nothing else");
    }
    BasicScheduler scheduler(options, std::move(policy), std::move(pause), oracle);
    if (const std::int32_t tokens = scheduler.kv_.block_tokens; oracle != nullptr && (tokens < 1 || tokens > 1 << 20)) {
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

  // What it could not believe of the event is ignored, and returned.
  Ignored On(const Event& event, TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    faults_.Begin();
    std::visit(
        [&](const auto& e) {
          if (!MayBegin(e)) return;
          inside_ = true;
          const TimePoint at = Clock(now);
          if constexpr (ObservingPolicy<Policy>) queue_.policy().Observe(event, at);
          Handle(e, at);
          inside_ = false;
        },
        event);
    return faults_.Said(0);
  }

  // The same without the detour over a variant.
  template <class E>
    requires std::constructible_from<Event, const E&> && (!std::same_as<E, Event>)
  Ignored On(const E& event, TimePoint now) {
    if constexpr (ObservingPolicy<Policy>) {
      return On(Event(event), now);
    } else {
      const internal::Owner::Inside one_thread(owner_);
      faults_.Begin();
      if (!MayBegin(event)) return faults_.Said(0);
      inside_ = true;
      Handle(event, Clock(now));
      inside_ = false;
      return faults_.Said(0);
    }
  }

  // Tables that policies by agent go by.
  Ignored On(const Epoch& epoch, TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    faults_.Begin();
    if (inside_) return Ended(), faults_.Said(0);
    inside_ = true;
    [[maybe_unused]] const TimePoint at = Clock(now);
    if constexpr (EpochPolicy<Policy>) queue_.policy().Observe(epoch, at);
    inside_ = false;
    return faults_.Said(0);
  }

  // Another order from here on: all that waits is ranked anew, O(waiting), and no policy keeps what it had learnt. Only
  // where the policy is chosen at run time.
  void ChangePolicy(const Policy& policy, TimePoint now)
    requires std::same_as<Policy, AnyPolicy>;

  // From here on what turns of workflows leave in the prefix cache is held by this policy, told by TurnEnded and
  // WorkflowEnded, and what would take it asks this gate. What was learnt of turns is forgotten. A host that never
  // calls it has HoldValue and the gate Price from the first TurnEnded or WorkflowEnded on, and until then, and for
  // what has no workflow, what was used least recently goes first, without a gate. InvalidArgument: without kLedger
  // and prefix_cache, where those events change nothing.
  absl::Status SetRetention(const AnyRetention& retention, const AnyGate& gate = {},
                            const ReturnTimesOptions& times = {});
  // kOracle: plans bear hints for the host's cache from here on, by these values; nothing else changes. A host that
  // never calls it has those of HoldValue from the first TurnEnded or WorkflowEnded on.
  void SetHints(const HoldValue& value = {}, const ReturnTimesOptions& times = {});
  // What it has learnt of how long workflows stay away; null without retention.
  const ReturnTimes* return_times() const { return held_.times.get(); }

  const StepPlan& Plan(TimePoint now, const StepLimits& limits);

  // What it could not believe of the result is ignored, and returned.
  Ignored Commit(const StepResult& result, TimePoint now);

  Explanation Explain(RequestId id) const;
  // What a workflow's branch holds in the prefix cache, and what would go before it. For people: O(what could go).
  HeldExplanation ExplainHeld(WorkflowId workflow, std::uint64_t branch = 0);

  const Stats& stats() const {
    stats_.promoted = queue_.promotions();
    stats_.keys_not_a_number = queue_.nan_keys();
    if (Holds()) {
      stats_.pins_broken = kv_.ledger.holdings()->pins_broken();
      stats_.pins_refused = kv_.ledger.holdings()->pins_refused();
      stats_.holdings_crowded_out = kv_.ledger.holdings()->crowded_out();
      stats_.pins_crowded_out = kv_.ledger.holdings()->pins_crowded_out();
    }
    return stats_;
  }

  // The last thing that the host said and cannot be, of stats().faults().
  const Fault& last_fault() const { return faults_.last(); }
  // Hears of each from here on.
  void HandleFaults(FaultHandler handler) { faults_.Handle(handler); }

  KvUse kv() const {
    if (kv_.oracle == nullptr) return kv_.ledger.use();
    const KvSnapshot now = kv_.oracle->Snapshot();
    return {now.total,
            now.total - now.free,
            now.free,
            {0},
            now.pending,
            {options_.cpu_blocks},
            options_.cpu_blocks - Blocks{kv_.ledger.cpu_free()}};
  }

  // An exception has left a call half-way, from a policy or an oracle of the host's, say. Events and results are
  // ignored from then on, and counted; plans are empty, and say Idle::kEnded. It answers for no request: the host fails
  // them, or gives them to another scheduler.
  bool ended() const { return inside_; }

  std::int64_t alive() const { return static_cast<std::int64_t>(table_.size() - ended_.size()); }
  std::int64_t waiting() const { return static_cast<std::int64_t>(queue_.size()); }
  std::int64_t running() const { return counts_.rows; }
  std::int64_t paused() const { return counts_.paused; }
  std::int64_t blocked() const { return counts_.blocked; }
  bool draining() const { return draining_; }
  const SchedulerOptions& options() const { return options_; }
  const Policy& policy() const { return queue_.policy(); }

  // Checks every redundant count against a recount; for tests, O(all). Empty where they agree.
  const char* Inconsistency() const;

 private:
  using Record = internal::Record;
  using Transit = internal::Transit;
  using Row = internal::Row;
  using RowState = internal::RowState;

  friend struct SchedulerCounters;  // of tests: years of planning in no time

  enum class Fit : std::uint8_t { kAdmitted, kGone, kSkip, kStop };

  // Where KV comes from.
  struct KvSource {
    internal::KvLedger ledger;
    KvOracle* oracle = nullptr;
    std::int32_t block_tokens = 0;  // of the ledger or the oracle; 0: KV is not accounted for
    std::int32_t watermark = 0;  // blocks
    mutable KvSnapshot snapshot = {};  // of the oracle, within a call
    mutable bool counted = false;  // the snapshot holds
    std::uint64_t changes = 0;  // times at which the oracle may have come to answer otherwise
    std::uint64_t freed_at = 0;  // plans so far when the host last freed KV
  };

  // Requests that have never run: they expire, and are shed.
  struct Fresh {
    TimeHeap expiries;  // of those that wait, and of those that are blocked
    IndexedHeap newest;  // Shed::kNewest and bounded waiting: of those that wait, the last to arrive first
    std::int64_t waiting = 0;
  };

  struct Tally {
    std::int64_t paused = 0, blocked = 0;
    std::int32_t rows = 0, seqs = 0;  // that run
    std::int64_t leaving_blocks = 0;  // of rows that drain or move out, and of what is pinned: free soon
    std::int64_t pinned = 0;  // have ended
    std::int64_t context = 0;  // tokens of all that run, counted after the plan of this number
    std::uint64_t context_of = UINT64_MAX;
    Slot refresh_next = 0;  // whose score is to be brought up to date next
  };

  // A place of the standing part whose row does not stand.
  struct Gap {
    std::size_t place = 0;
    bool gone = false;
  };
  static constexpr std::size_t kMostGaps = 16;  // with more of them, rows are looked at one by one

  // A started prompt of the plan that is being built; and the tokens that are set aside for it.
  struct Prompt {
    std::uint32_t lane = 0;
    std::int32_t aside = 0;
  };
  // Drafts of a row that is planned: all, and those for which there is memory.
  struct Offer {
    std::size_t entry = 0;
    std::uint32_t lane = 0;
    std::int32_t all = 0, tokens = 0;
  };
  // Crowded plans in a row, after which the next plan computes prompts before rows decode.
  static constexpr std::int32_t kMostCrowdedPlans = 4;

  // The plan that is being built, and of the last one what the next depends on.
  struct Draft {
    StepPlan* plan = nullptr;
    PlanEntry* entries = nullptr;
    internal::Step* of = nullptr;  // whose plan it is
    const PlanEntry* last = nullptr;  // entries of the last plan that was built
    std::uint16_t step = 0;  // its bits in Row::in_flight
    std::array<Gap, kMostGaps> gaps;
    std::size_t n_gaps = 0;
    std::size_t planned = 0;  // entries so far
    std::size_t indexed = 0;  // of these, so many are found by entry_of_lane
    // As far as `indexed`, and of the result that is being read: index + 1; 0 elsewhere.
    std::vector<std::uint32_t> entry_of_lane;
    std::vector<Prompt> prompts;  // that are yet to be planned
    std::vector<Offer> offers;
    // By lane: when it last got as much as any row, in a plan that had too little for all drafts, or was admitted.
    std::vector<std::uint64_t> served;
    std::uint64_t turn = 0;  // of the last of them
    bool short_of_kv = false;
    bool refused = false, row_refused = false;  // by the oracle: anything; something for a row that runs
    bool kept_out = false;  // by the oracle: somebody that waits, perhaps in an earlier build of the same plan
    bool displaced = false;  // a row gave up its place, or its share of the step
    bool crowded = false;  // a prompt had too little room for its next chunk, and an empty step has enough
    bool prompts_first = false;  // prompts are computed before rows decode, for such a prompt
    std::int32_t crowded_plans = 0;  // crowded plans in a row since the last with prompts first
    WaitsFor top_waits_for = WaitsFor::kItsTurn;  // what keeps out the first that is not passed over
    Slot head = kNoSlot;  // which is this one; kNoSlot: the first of all, or none
  };

  // A search through all that wait found none that fits, and would again, as long as it holds.
  struct VainSearch {
    StepLimits limits = {};
    std::int32_t free = 0;  // blocks that are not enough for anybody
    std::int32_t rows = 0, seqs = 0;
    std::uint64_t adapters = 0, host_changes = 0, prefixes = 0;
    bool by_memory = false;  // requests that need more than what was free were not tried
    bool passed_over = false;  // some did not need more
    bool holds = false;
  };
  struct Search {
    VainSearch vain;
    std::vector<Slot> joined;  // while that holds: those that have joined the queue, or may be looked at, since
    std::vector<Slot> slots;  // that are looked at
    std::vector<Slot> passed;  // of these, that lack memory or room, and that others pass
    std::int64_t passing = 0, most_passing = 0;  // admissions of this search, and how many it allows
    WaitsFor stopped_for = WaitsFor::kNothing;  // of the first of `passed`
    std::size_t from = 0;  // of those that seem to fit, so many were asked for in vain in plans before
    std::int32_t asks_left = 0;  // of an oracle, in searches for any that fits
  };

  // KV that is held for workflows which will come back, and who is let in beside it.
  struct HeldKv {
    std::unique_ptr<ReturnTimes> times;  // null: no retention was set, and no turn told of
    std::unique_ptr<TurnHints> hints;  // of an oracle's host; null: no turn was told of
    AnyGate gate;
    GateDoor door;
    TimePoint next_door = kUnset;  // not before then is anything let in by the door's share
    TimePoint oldest = kNever;  // nothing that waits arrived before
    TimeHeap by_arrival;  // of those that wait, if the door has a share
    Slot elder = kNoSlot;  // that is let in by the door's share right now
    bool pins = false;  // the host has pinned something once
    std::uint64_t changes = 0;  // times at which the gate may have come to answer otherwise
    std::optional<double> sum, copies_sum;  // of HeldOrder, as of
    std::uint64_t sums_changes = 0;
    // Of the last search: it found none that the gate lets in, and has looked at all, or at a part.
    bool in_vain = false, partly = false;
    std::uint64_t whole_at = 0;  // the plan, by count, in which all may be looked at again
    std::vector<Slot> joined;  // those that have joined the queue since, of more than kMostLooks the first
    std::uint64_t vain_changes = 0;
    TimePoint vain_at = {};
    TimePoint ask_at = kNever;  // when the gate may let in one of them
    bool stuck = false;  // GateAsk::stuck
    // For a gate that is told how the engine fares: what it has answered, when it is told again, and since then.
    double state = 0;
    TimePoint tell_at = {};
    double prompt_tokens = 0, cached_tokens = 0;  // of requests that began to run
    double hits = 1;  // share, as it was told last
    // Of this plan: what lacks, and needs, at least so much is refused unless it has waited for `until_s`.
    std::int32_t lack = 0, need = 0, copies_lack = 0, copies_need = 0;
    double until_s = 0;
    bool refused = false;
    // When what waits was last looked up in the cache.
    TimePoint looked_up = {};
    std::size_t to_look_up = 0;  // slots that remain
    std::uint64_t lost = 0;  // Holdings::awaited_lost then
  };

  // A row that runs, in the order in which rows give way.
  struct Victim {
    bool preemptible = true;
    internal::VictimRank rank = {};

    friend bool operator<(const Victim& a, const Victim& b) {
      return a.preemptible != b.preemptible ? a.preemptible : b.rank < a.rank;
    }
  };
  struct Victims {
    std::vector<internal::FullKey> keys;  // by lane: rank as a victim, within its group
    IndexedHeapOf<Victim> heap;  // rows that run, by lane, once the plan has needed one
    bool gathered = false;
    Slot way_for = kNoSlot;  // the last for which others were to make way; and the blocks of those left of them
    std::int64_t way_blocks = 0;
  };

  BasicScheduler(const SchedulerOptions& options, Policy policy, Pause pause, KvOracle* oracle);

  // ---- scheduler/memory.h
  // Maximum rows for this number of requests.
  static std::size_t RowsOf(const SchedulerOptions& options, std::size_t requests) {
    return std::min(static_cast<std::size_t>(options.max_running), requests);
  }
  void ReserveSlots(std::size_t slots);
  void ReserveLanes(std::size_t lanes);
  bool Reviews() const;
  template <class T>
  static void MakeRoom(std::vector<T>& list, std::size_t n);
  void MakeRoomForNotices(std::size_t ends, std::size_t moves);
  template <class E>
  bool MayBegin(const E& event);
  bool MayPlan();
  void MakeRoomFor(const internal::Step& step);
  bool Ended();

  // ---- scheduler/events.h
  TimePoint Clock(TimePoint now);
  void Blame(std::uint64_t Stats::* counter, Fault fault);
  void UnknownRequest(RequestId id);
  void OutOfPlace(RequestId id);
  void Absurd(RequestId id, int predictions);
  Slot Living(RequestId id);
  void Handle(const Arrived& e, TimePoint now);
  void Handle(const Revised& e, TimePoint now);
  void Handle(const Blocked& e, TimePoint now);
  void Handle(const Unblocked& e, TimePoint now);
  void Handle(const ToolCalled& e, TimePoint now);
  void Handle(const ToolReturned& e, TimePoint now);
  void Handle(const Cancelled& e, TimePoint);
  void Handle(const MoveDone& e, TimePoint now);
  void Handle(const KvFreed& e, TimePoint now);
  void Handle(const Drain&, TimePoint) { draining_ = true; }
  void Handle(const NotReady& e, TimePoint now);
  void Handle(const KvArrived& e, TimePoint now);
  void Handle(const KvLost& e, TimePoint now);
  void Handle(const KvPinned& e, TimePoint now);
  void Handle(const TurnEnded& e, TimePoint now);
  void Handle(const TurnExpected& e, TimePoint now);
  void Handle(const WorkflowEnded& e, TimePoint now);
  void LoseKv(Slot slot, std::int32_t from);
  void Fetched(Slot slot, bool failed);

  // ---- scheduler/lives.h
  void Join(Slot slot);
  void Enqueue(Slot slot, std::int64_t steps_run);
  void NoteJoined(Slot slot);
  void LeaveQueue(Slot slot);
  void WatchExpiry(Slot slot);
  void Shelve(Slot slot, RequestStatus status, KvAction action, std::int32_t out = 0);
  void Depart(std::uint32_t lane, KvAction action, RequestStatus status, std::int32_t out = 0);
  void DropAtSettling(Record& record);
  void Settle(Slot slot);
  void MoveOut(Slot slot);
  void End(Slot slot);
  void EndAtCap(Slot slot);
  void EndedAt(Slot slot);
  void Fail(Slot slot, FailReason reason, std::uint16_t code = 0);
  void Refuse(RequestId id, FailReason reason);
  void SayFailed(RequestId id, FailReason reason, std::uint16_t code = 0);
  std::uint64_t& Failures(FailReason reason);
  void Release(Slot slot);
  void ShedDownTo(std::int64_t bound);
  void Expire(TimePoint now);
  void EndPins();
  void Hint(const std::optional<CacheHint>& hint);

  // ---- scheduler/ranks.h
  void Score(Record& record);
  void Rank(Slot slot);
  RequestState& StateOfRow(const Row& row);
  void RankRow(std::uint32_t lane);
  void RefreshScores();
  void TellPressure();
  bool TellsOfSteps() const;
  void TellScheduled(const PlanEntry& entry, std::int32_t prefill, std::int32_t output);

  // ---- scheduler/pauses.h
  struct Kept {
    std::int32_t computed = 0, blocks = 0;
  };
  Kept KeptOf(const Record& record) const;
  std::int64_t RunningTokens();
  PauseView ViewOf(const Record& record);
  std::int32_t BlocksOut(const Record& record, const PauseDecision& decision, const PauseView& view) const;
  void LetGo(Slot slot, std::int32_t out);
  void ReviewAt(Slot slot, TimePoint at, const internal::PausedCall& call);
  void Review();

  // ---- scheduler/kv.h
  bool Counts() const { return options_.kv == KvMode::kLedger; }
  std::int32_t BlocksFor(const Record& record) const;
  std::int32_t CapacityOf(const Record& record, std::int32_t blocks) const;
  const KvSnapshot& HostsKv() const;
  std::int32_t TotalBlocks() const;
  std::int32_t FreeBlocks() const;
  std::int64_t Pending() const;
  std::int32_t ChunkBlocks(const Record& record) const;
  std::span<const std::uint64_t> Hashes(const Record& record, std::int32_t first, std::int32_t last) const;
  bool HasOwnKv(const Record& record, std::int32_t blocks, std::int32_t computed) const;
  void FreeKv(Record& record, KvAction action = KvAction::kDrop);
  void AllocateCpu(Record& record, std::int32_t blocks);
  void FreeCpu(Record& record);
  void NoteKept(Slot slot);
  void RankHolders();
  bool Reclaim(Slot spared, bool waiting);
  void PublishPrefix(const Row& row, Record& record);
  void LeadPrefix(const Record& record);
  bool Grow(Row& row);
  bool SpareRoom(std::uint32_t lane, std::int32_t want);
  bool Room(std::uint32_t lane, std::int32_t want);
  void WithdrawBlocks(Row& row, const KvReservation& wish);

  // ---- scheduler/plan.h
  void Build();

  // ---- scheduler/rows.h
  enum class Disturbed : std::uint8_t { kGone, kQuiet, kToPlan };  // quiet: it yields no entry, and touches nothing
  static constexpr std::int32_t kMostBlockTokens = 1 << 16;  // of standing rows: a count is kept for each
  bool MayStand() const;
  Disturbed WhatBecameOf(const Row& row) const;
  bool FindGaps();
  std::size_t PlanStanding();
  void PlanRunning();
  void PlanPrefills();
  void PlanDecodes();
  void PlanRow(std::uint32_t lane);
  // The limit has fallen: not all may run.
  bool Crowds(const Row& row) const { return row.sequences > budget_.seqs && counts_.seqs > budget_.limits.max_seqs; }
  bool PlanPrompt(std::uint32_t lane);
  void PlanPrompts();
  void PlanLongPrompts();
  void PlanDrafts();
  void AddDrafts(PlanEntry& entry, std::int32_t n);
  void Emit(std::uint32_t lane, std::int32_t tokens, std::uint16_t flags);
  PlanEntry* EntryOf(std::uint32_t lane);
  bool Unplan(std::uint32_t lane);
  void CloseGaps();
  std::uint32_t AddRow(Slot slot, std::int32_t start, RowState state);
  void Refresh(Row& row, const Record& record);
  std::int32_t OutputCap(const Record& record) const;
  void Void(Row& row);
  void Shrink(Row& row, Record& record);
  bool Runs(const Row& row) const { return row.state == RowState::kSteady || row.state == RowState::kUnsteady; }
  std::int32_t Sequences(const Record& record) const { return record.state.request.sequences; }

  // ---- scheduler/admission.h
  void AdmitWaiting();
  bool AdmitKept();
  bool AwaitsPrefix(Record& record, std::int32_t found);
  bool AwaitedPrefix(const Record& record) const {
    return record.prefix_seen_at > 0 && record.prefix_seen_at + 1 >= stats_.plans;
  }
  bool MayBePassed(Slot slot) const;
  bool LetPass(Slot slot);
  void BeginPassing();
  void EndPassing();
  bool AdmitPastTop(bool pass);
  WaitsFor PassedOverFor(const Record& record) const;
  bool NeedsLargerStep(const Record& record) const;
  // A prefix is worth waiting for if it is this part of what a request must compute, or more.
  static constexpr std::int64_t kLeastShare = 8;
  // Requests that wait for a prefix, and are looked past in one plan without a place in the window.
  static constexpr std::int64_t kMostFollowers = 64;
  // Chunks of its prompt that it may find elsewhere: the last token is always computed, to sample from.
  static std::int32_t UsableChunks(const Request& r) {
    return std::min(static_cast<std::int32_t>(r.prefix.hashes.size()),
                    (r.prompt_tokens.value - 1) / r.prefix.block_tokens.value);
  }
  internal::PrefixHit HitOf(const Record& record) const;
  std::int32_t CopiesOf(const Record& record) const;
  std::int32_t CachedTokensOf(const Record& record) const;
  std::int32_t SharedBlocks(const Record& record, const internal::PrefixHit& hit) const;
  std::int32_t BlocksNeeded(const Record& record, const internal::PrefixHit& hit) const;
  std::int32_t ArrivedOf(const Record& record) const;
  Fit TryAdmit(Slot slot, std::span<const Slot> next = {});
  Fit TrySwapIn(Slot slot);
  void SwapIn(Slot slot, std::int32_t blocks);
  bool Outgrows(std::int32_t blocks) const;
  std::int32_t Spared(Slot slot, std::int32_t need, std::int32_t free);
  std::uint64_t& HitsOf(const Record& record) {
    return record.recovers ? stats_.tokens_recovered : stats_.tokens_cached;
  }
  void CountHits(Record& record, std::int32_t cached, std::int32_t there);
  bool MayMoveIn(std::int32_t blocks) const;
  void Fetch(Slot slot, std::int32_t start, std::int32_t chunks);
  void Admit(Slot slot, std::int32_t start, std::int32_t tokens);

  // ---- scheduler/holding.h
  static constexpr double kMostWait = 1e9;  // [s]
  bool Holds() const { return held_.times != nullptr; }
  void Hold(const AnyRetention& retention, const AnyGate& gate, const ReturnTimesOptions& times);
  BranchName NameOf(WorkflowId workflow, std::uint64_t branch);
  HeldTurn TurnOf(const Record& record) const;
  void TurnBegins(const Record& record);
  void TurnNotAwaited(const Record& record);
  void TurnReleased(const Record& record);
  void LookUpHits();
  GateAsk AskFor(const Record& record, std::int32_t need, std::int32_t start) const;
  GateAsk AskForCopies(const Record& record, const GateAsk& of_gpu) const;
  bool LetsIn(Record& record, std::int32_t need, std::int32_t start);
  void NoteAtDoor(Slot slot);
  Slot Elder();
  bool MayStandAtDoor(const Record& record) const;
  // Waiting requests that one plan looks at without admitting them, or whose prompts it looks up.
  static constexpr std::size_t kMostLooks = 128;
  void AdmitThroughGate();
  void AdmitJoined();
  void TellGate();
  TimePoint AskGateAt() const;

  // ---- scheduler/oracle.h
  std::int32_t CachedOf(Slot slot, std::span<const Slot> next);
  bool LeaveDrafts(std::uint32_t lane, const KvReservation& wish);
  void Wish(Slot slot, const internal::Candidate& candidate, std::int32_t blocks);
  void AskOracle();

  // ---- scheduler/displacing.h
  void Preempt(std::uint32_t lane, bool by_rank);
  std::int64_t StepsBefore(const Row& row) const;
  Victim RankOfRow(std::uint32_t lane);
  std::uint32_t Worst(bool preemptible_only);
  bool Outranks(Slot slot, std::uint32_t lane);
  bool MakeWayFor(Slot slot);

  // ---- scheduler/idle.h
  bool Unstick();
  Slot Head() const { return draft_.head != kNoSlot ? draft_.head : queue_.Top(); }
  bool ReclaimForHead();
  bool SearchHolds() const;
  bool AdmitWhoeverFits();
  Idle WhyIdle() const;

  // ---- scheduler/results.h
  std::size_t CommitInOrder(const internal::Step& step, std::span<const RowResult> rows, std::uint64_t& output);
  static constexpr std::size_t kMostSearched = 16;  // of exceptions, without an index of entries
  void CommitExceptions(const internal::Step& step, std::span<const RowResult> rows, std::uint64_t& output);
  void UnknownRow(const internal::Step& step, const RowResult& row);
  void Decoded(const PlanEntry& entry, std::uint16_t step, std::uint64_t& output);
  void CommitScattered(const internal::Step& step, std::span<const RowResult> rows, std::size_t first);
  void Apply(const PlanEntry& entry, const RowResult& result, std::uint16_t step);
  void Absent(const PlanEntry& entry, std::uint16_t step);
  bool Voided(const PlanEntry& entry, std::uint16_t step);

  auto StateOf() const {
    return [this](Slot slot) -> const RequestState& { return table_[slot].state; };
  }

  SchedulerOptions options_;
  internal::RankQueue<Policy> queue_;
  Pause pause_;
  KvSource kv_;
  HeldKv held_;
  internal::Owner owner_;
  internal::FaultLog faults_;
  StepId result_of_ = {};  // whose result was read last
  internal::RequestTable table_;
  internal::RunningSet running_;
  Fresh fresh_;
  internal::ReviewList reviews_;
  internal::AdapterSet adapters_;
  internal::MoveList moves_;
  internal::KeptKv kept_;
  internal::OracleRound round_;
  internal::PrefixLeaders leaders_;
  internal::StepRing steps_;
  internal::StepBudget budget_;
  Draft draft_;
  Search search_;
  Victims victims_;
  Tally counts_;
  internal::Notices notices_;  // of the next plan
  std::vector<Slot> ended_;  // of the released: erased by the plan that names them
  std::vector<std::uint32_t> left_out_;  // lanes that the next plan leaves out
  mutable Stats stats_;
  TimePoint now_ = kUnset;
  bool draining_ = false;
  bool inside_ = false;  // a call; between calls: one was left half-way
  std::size_t slots_reserved_ = 0, lanes_reserved_ = 0;
};

}  // namespace takt

#include "takt/scheduler/admission.h"
#include "takt/scheduler/displacing.h"
#include "takt/scheduler/events.h"
#include "takt/scheduler/explain.h"
#include "takt/scheduler/holding.h"
#include "takt/scheduler/idle.h"
#include "takt/scheduler/kv.h"
#include "takt/scheduler/lives.h"
#include "takt/scheduler/memory.h"
#include "takt/scheduler/oracle.h"
#include "takt/scheduler/pauses.h"
#include "takt/scheduler/plan.h"
#include "takt/scheduler/ranks.h"
#include "takt/scheduler/results.h"
#include "takt/scheduler/rows.h"

#endif  // TAKT_BASIC_SCHEDULER_H_
