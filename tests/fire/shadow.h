// A second model of a scheduler. It knows requests as a host does, from events, plans and results alone, and checks
// each plan. It never looks inside the scheduler.
#ifndef TAKT_TESTS_FIRE_SHADOW_H_
#define TAKT_TESTS_FIRE_SHADOW_H_

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host_kv.h"
#include "prefixes.h"
#include "setup.h"
#include "takt/scheduler.h"
#include "watched_pause.h"

namespace takt::fire {

enum class Is : std::uint8_t { kNowhere, kWaiting, kRunning, kPaused, kBlocked, kEnded };

// One request from its arrival until a plan names it as released.
struct Life {
  RequestState state = {};
  Is is = Is::kNowhere;
  std::optional<FailReason> must_fail = {};  // the next plan must name this reason

  // Tokens of all sequences together, except `generated`.
  std::int32_t base = 0, generated = 0, known = 0, computed = 0, scheduled = 0, expected = 0;
  std::int32_t row_sequences = 1;  // fixed while it has a lane; state.request.sequences: as reported
  std::int32_t drafts = 0;         // offered, not yet planned
  std::int32_t offered = 0;        // offered before the last plan
  std::int32_t in_flight = 0;      // number of steps
  std::int32_t steps = 0;          // number since its admission
  std::uint64_t void_through = 0;  // results of steps up to this one are void
  std::uint64_t planned_in = 0;    // last step that names it
  std::uint64_t admitted_in = 0;   // plan that admitted it, with an entry or a move
  std::uint64_t picked_in = 0;     // plan that took it from the queue, with an entry
  std::uint64_t joined_in = 0;     // plan after which, or in which, it joined the queue
  std::uint64_t admission = 0;     // number of its admission
  std::uint32_t lane = 0;
  bool in_lane = false;  // it runs, or has left with steps or a move in flight
  bool prefilling = false;
  bool was_prefill = false, started = false;  // its last entry was a prefill; so was the one before

  // KV.
  enum class Leave : std::uint8_t { kKeep, kDrop, kOut } leave = Leave::kDrop;
  bool moving_in = false, moving_out = false;
  bool copied = false;            // its KV, or the head of it, is in the host's memory
  std::int32_t cpu_blocks = 0;    // blocks in the host's memory, or on their way there
  bool part = false;              // cpu_blocks are not all that it held
  bool sure = true;               // false: its KV may have been reclaimed
  MoveId move = {};               // as the plan named it
  bool fetching = false;          // the beginning of its prompt is being loaded from the host's memory
  std::int32_t fetched = 0;       // tokens after that load
  std::int32_t pinned_chunks = 0;  // chunks of its prompt that stay in the host's memory during the load
  bool went_on = false;           // it was admitted to KV that it held
  std::int32_t tokens_held = 0;   // least number of tokens that have room
  std::int32_t most_blocks = 0;   // most blocks that it may have been given
  std::int32_t spare_blocks = 0;  // blocks left over if the remaining sequences share unevenly
  std::int32_t shared_chunks = 0;  // chunks of its prefix to which it refers

  bool accepted = false;            // on arrival
  bool left_out = false;          // not ready for the next plan
  std::int32_t arrived = 0;       // tokens whose KV came from elsewhere
  bool pinned = false;            // a reader uses its KV
  bool kept = false;              // it has ended, and its KV stays for the reader
  std::uint16_t code = 0;         // the host's code with which its row failed

  // Its tool call.
  ToolCalled call = {};           // after sanitizing
  TimePoint called_at{}, review_at = kNever;

  // Numbers of requests admitted before it: while it waited for its adapter; for memory or room; for one of these.
  int overtaken = 0, passed = 0, overtaken_or_passed = 0;

  // Aging.
  std::int64_t waited = 0, quantum = 0;
  bool counting = false;
  bool declined = false;  // perhaps declined by the policy
  bool awaits_prefix = false;   // perhaps a row computes that prefix, as of the last plan
  bool perhaps_prefix = false;  // the plan shed it, and the reason for its wait is unknown
  bool refused = false;  // by the oracle, at its last wait; no KV has been freed since
  std::uint64_t counted_from = 0;  // order in which the counting began
  std::uint64_t promotion = 0;     // number of its promotion

  internal::FullKey key = {}, victim_key = {};
  double group_key = 0;            // as of the last plan

  // Drafts.
  std::int32_t held_without = 0;  // tokens_held without the drafts of its last entry
  std::int32_t most_before = 0;   // most_blocks before the last plan
  // First and last possible plan of its last turn. At a turn, a row gets as many drafts as any other although tokens
  // are short. An admission also counts as a turn.
  std::uint64_t turn_from = 0, turn_to = 0;

  bool living() const { return is != Is::kNowhere && is != Is::kEnded; }
  bool in_transit() const { return in_lane || moving_out; }
  bool promoted() const { return quantum > 0; }
  // Bounds and time limits.
  std::uint64_t joined_no = 0;  // order of joining the queue
  std::int32_t class_priority = 0;  // priority when it joined the queue, which decides its class
  TimePoint parked_until = kNever;  // limit of its present wait

  bool may_park() const { return (is == Is::kWaiting && state.has_run) || is == Is::kBlocked || is == Is::kPaused; }
  bool may_expire() const { return (is == Is::kWaiting || is == Is::kBlocked) && !state.has_run; }
};

class Shadow {
 public:
  // `asked`: questions to the scheduler's pause policy. The shadow removes them.
  Shadow(const Setup& setup, const HostKv* host_kv, WatchedPause::List asked);

  // Call this after the scheduler has handled the event.
  void Handled(const Event& event, TimePoint now, const Scheduler& scheduler);
  // after the oracle's total changed
  void Resized(const Scheduler& scheduler) { free_before_ = FreeBlocks(scheduler); }
  void ChangePolicy(const AnyPolicy& policy, TimePoint now, const Scheduler& scheduler);
  // The setup has new options.
  void OptionsChanged(const SchedulerOptions& before, TimePoint now);
  void Planned(const StepPlan& plan, const StepLimits& limits, TimePoint now, const Scheduler& scheduler);
  void Committed(const StepResult& result, TimePoint now, const Scheduler& scheduler);

  // Recounts everything. This is slow, so call it rarely.
  void Compare(const Scheduler& scheduler, std::uint64_t bits);
  // Call this after all requests have ended. Nothing may be left.
  void CheckEmpty(const Scheduler& scheduler);

  // Returns the first violation; empty if there is none.
  const std::string& violation() const { return violation_; }
  void Violate(const std::string& text) {
    if (violation_.empty()) violation_ = text;
  }

  struct Step {
    StepId id;
    std::vector<PlanEntry> entries;
  };
  struct Move {
    MoveId id;
    RequestId request;
    KvAction action;
  };

  const Life& life(RequestId id) const {
    const std::uint64_t name = setup_.ids.NameOf(id);
    return name < lives_.size() ? lives_[name] : nobody_;
  }
  const std::vector<RequestId>& unreleased() const { return unreleased_; }
  const std::vector<Step>& steps() const { return steps_; }  // in flight, oldest first
  const std::vector<Move>& moves() const { return moves_; }  // in flight
  std::uint64_t moves_named() const { return ours_.moves_out + ours_.moves_in; }
  bool draining() const { return draining_; }
  std::int32_t BlocksOf(const Life& life, std::int32_t tokens) const;

 private:
  Life& At(RequestId id);
  // Returns a request whose name is known.
  Life& Of(RequestId id) { return lives_[setup_.ids.NameOf(id)]; }
  const Life& Of(RequestId id) const { return lives_[setup_.ids.NameOf(id)]; }
  Life* Living(RequestId id);

  void On(const Arrived& e, const Scheduler& scheduler);
  void On(const Revised& e);
  void On(const Blocked& e);
  void On(const Unblocked& e, const Scheduler& scheduler);
  void On(const ToolCalled& e, const Scheduler& scheduler);
  void On(const ToolReturned& e, const Scheduler& scheduler);
  void On(const Cancelled& e);
  void On(const MoveDone& e);
  void On(const KvFreed& e);
  void On(const NotReady& e);
  void On(const KvArrived& e);
  void On(const KvLost& e);
  void On(const KvPinned& e);
  void On(const TurnExpected& e) { ours_.events_out_of_place += e.workflow ? 0U : 1U; }
  void On(const TurnEnded& e) { ours_.events_out_of_place += e.workflow ? 0U : 1U; }  // no retention is set
  void On(const WorkflowEnded& e) { ours_.events_out_of_place += e.workflow ? 0U : 1U; }
  void Lose(Life& life, std::int32_t from);
  static std::int32_t ArrivedOf(const Life& life);
  bool AnyLeftOut() const;
  void CheckDropped(const StepPlan& plan);
  void CheckCopies(const StepPlan& plan, const Scheduler& scheduler);
  void CheckFetch(const KvMove& move, Life& life);
  void On(const Drain&) { draining_ = true; }
  void Looked(const Scheduler& scheduler);

  void Enqueue(Life& life);
  static void ResetAtAdmission(Life& life) {
    life.overtaken = life.passed = life.overtaken_or_passed = life.arrived = 0;
  }
  void Depart(Life& life, Life::Leave leave, Is is);
  void Settle(Life& life);
  void End(Life& life);
  void FailWith(Life& life, FailReason reason);
  void Due(Life& life);
  void Release(Life& life);
  void Finish(Life& life);
  bool AtCap(const Life& life) const;
  bool EndsAtCap(const Life& life) const;
  void DropKv(Life& life);
  void Void(Life& life);
  void Shrink(Life& life);
  void Ran(Life& life);
  static bool MayBeShed(const Life& life) { return life.is == Is::kWaiting && !life.state.has_run; }
  std::int64_t MayBeShed() const;
  void FindShed(Life& joined, const Scheduler& scheduler);
  bool HasCeilings() const;
  // Limits of a class; null: none.
  const ClassLimits* ClassOf(std::int32_t priority) const;
  // Time at which a request that has never run expires.
  TimePoint WaitEnds(const Life& life) const;
  void ParkFor(Life& life, double seconds) const;
  // Waiting requests that have never run, and their prompt tokens: of the tenant, of the class, or all.
  enum class Scope : std::uint8_t { kAll, kClass, kTenant };
  struct Crowd {
    std::int64_t requests = 0, tokens = 0;
    std::uint64_t last = 0;  // number of the last to join
  };
  Crowd CrowdOf(const Life& life, Scope scope) const;
  bool Exceeds(const Life& life, Scope scope, const Crowd& crowd) const;
  void CheckShed(const Life& shed, bool built_again);
  void CheckAllShed(const StepPlan& plan);
  bool NeedsMore(const Life& life, const StepLimits& limits) const;
  // Adapters used at any time within the last plan, and those used all the time.
  struct Adapters {
    std::vector<AdapterId> any, always;
    bool left = false;  // others may have been used for a part of the plan
  };
  Adapters AdaptersOf(const StepPlan& plan) const;
  static std::optional<bool> LackedAdapter(const Life& life, const Adapters& used, const StepLimits& limits);
  void PassBy(Life& passed, const Life& by, std::optional<bool> lacked, const StepLimits& limits);
  bool PromptsFirst(const StepPlan& plan) const;
  bool MayComputePromptsFirst(const StepLimits& limits) const;
  static std::int32_t LargestChunk(const StepLimits& limits);
  static bool FitsNoChunk(const Life& life, std::int32_t start, const StepLimits& limits);

  void Promote();
  void ReadKeys();
  void JoinGroup(const Life& life);
  void LeaveQueue(const Life& life);
  double GroupKeyOf(const Life& life) const;
  using Rank = std::pair<double, internal::FullKey>;
  Rank VictimRankOf(const Life& life) const;
  void ReadVictimKey(Life& life);
  void CheckReclaimed(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler);
  void CheckEvictions(const StepPlan& plan, const Scheduler& scheduler);
  std::int64_t CpuUsed() const;
  std::int64_t CpuFree() const;
  void CountPinned();
  static bool Keeps(const PauseDecision& decision);
  void CheckAsked(const Life& life, const Asked& asked);
  void CheckMovedOut(Life& life, const Asked& asked, const Scheduler& scheduler);
  void CheckReviews(const Scheduler& scheduler);
  void CheckPredictions(bool settled);
  void LetGo(Life& life, bool out);
  void CheckCpu(const Scheduler& scheduler);
  void CheckPreempted(const StepPlan& plan, const Scheduler& scheduler);
  void FinishAtCap();
  void CheckFailed(const StepPlan& plan, const StepLimits& limits);
  void CheckNeeded(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler);
  std::int64_t FreeBlocks(const Scheduler& scheduler) const;
  void CheckWorst(const Life& victim, const StepPlan& plan);
  void CheckMoves(const StepPlan& plan, const StepLimits& limits);
  void CheckEntries(const StepPlan& plan, const StepLimits& limits);
  void CheckEntry(const PlanEntry& entry, StepId step, const StepLimits& limits);
  void Admitted(Life& life, const PlanEntry& entry, const StepLimits& limits);
  void CheckReleased(const StepPlan& plan);
  void CheckOrder(const StepPlan& plan, const StepLimits& limits);
  void CheckIdle(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler);
  void CheckMemory(const Scheduler& scheduler);
  void CheckWatermark(const StepPlan& plan, const Scheduler& scheduler);
  static std::int32_t CachedTokens(const Request& r);
  bool StartFits(const Life& life, std::int32_t start) const;
  bool Before(const Life& a, const Life& b) const;

  // Checks of which requests run are in shadow_who.cc.

  // Resources that a plan leaves unused.
  struct Left {
    std::int32_t tokens = 0, prefill = 0, swap_in = 0;
    std::int32_t whole = 0;  // as `prefill`, for a prompt that is computed whole and alone, which ignores the pace
    std::int32_t paced = INT32_MAX;  // prompt tokens that the pace allows
    std::int64_t rows = 0, sequences = 0, blocks = 0;
    // Tokens and blocks that drafts have taken.
    std::int32_t drafts = 0;
    std::int64_t draft_blocks = 0;
    // Fewest missing tokens of a started prompt that does not end in this step and leaves room to others.
    std::int32_t shortest = INT32_MAX;
    std::int32_t perhaps = 0;  // further tokens for admissions, if long prompts got theirs later
    bool swapped_in = false;  // a request was swapped in, in this step
    std::vector<AdapterId> adapters = {};
  };
  // Reason that keeps a request waiting; the first that applies.
  enum class Bar : std::uint8_t {
    kNone,
    kTransit,
    kRows,
    kAdapter,
    kMemory,
    kSwap,
    kBudget,
    kLong,
    kTooLarge,
    kPrefix,
    kDeclined,
    kUnknown
  };
  Left LeftOf(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler) const;
  static bool LacksAdapter(const Life& life, const Left& left, const StepLimits& limits);
  Bar BarOf(const Life& life, const Left& left, const StepLimits& limits) const;
  static std::int32_t Aligned(std::int32_t start, std::int32_t n, std::int32_t left, const StepLimits& limits);
  bool BudgetAllows(const Life& life, std::int32_t start, const Left& left, const StepLimits& limits) const;
  bool Pending() const;
  std::int64_t BlocksWithoutDrafts(const Life& life) const;
  void CheckWho(const StepPlan& plan, const StepLimits& limits, const Scheduler& scheduler);
  void CheckRows(const StepPlan& plan, const Left& left, const StepLimits& limits);
  void CheckHead(const StepPlan& plan, const Left& left, const StepLimits& limits, const Scheduler& scheduler);
  void CheckKept(const Left& left, const StepLimits& limits);
  void CheckDisplaces(const Life& head, Bar bar, const Left& left, const StepLimits& limits);
  void CheckDrafts(const StepPlan& plan, const Left& left, bool sure);
  static bool Shares(const StepLimits& limits) { return limits.chunk_tokens == Tokens::Max(); }
  bool IsWhole(const PlanEntry& entry) const;
  bool IsLong(const PlanEntry& entry) const;
  std::int32_t ShortestOf(const StepPlan& plan, const StepLimits& limits) const;
  void CheckShares(const StepPlan& plan, const StepLimits& limits, bool whole_waits, Left& left);
  static bool PassedOver(Bar bar) {
    return bar == Bar::kTransit || bar == Bar::kAdapter || bar == Bar::kLong || bar == Bar::kTooLarge ||
           bar == Bar::kPrefix || bar == Bar::kDeclined;
  }
  void Admitted(const Life& life);
  void ReadDeclined(const StepPlan& plan, const Scheduler& scheduler);
  void ReadPrefixes(const StepPlan& plan, const Scheduler& scheduler);
  bool MayAwaitPrefix(const Life& life) const;
  bool CouldRun(const Life& life, const Left& left, const StepLimits& limits) const;
  std::int32_t ChunkBlocks(const Life& life) const;

  void Apply(Life& life, const PlanEntry& entry, const RowResult* row, StepId step);

  internal::FullKey KeyOf(const Life& life) const;
  internal::FullKey VictimKeyOf(const Life& life) const;
  bool Counts() const { return setup_.options.kv == KvMode::kLedger; }
  std::int32_t TotalBlocks() const;
  std::span<const std::uint64_t> HashesOf(const Life& life) const;

  const Setup& setup_;
  const HostKv* host_kv_;
  WatchedPause::List asked_;
  AnyPolicy policy_;
  bool static_order_ = false;  // the policy's keys depend on the request alone
  bool known_order_ = false;  // or on the policy's inputs
  std::vector<Life> lives_;  // by name
  Life nobody_, scapegoat_;
  std::uint64_t joins_ = 0;  // requests that joined the queue
  // Ends of soft ceilings, by class.
  std::vector<TimePoint> soft_until_ = std::vector<TimePoint>(kMostClasses, kUnset);
  std::vector<RequestId> unreleased_;
  std::vector<Failure> turned_away_;  // arrivals without an id or with an id in use, since the last plan
  std::vector<Step> steps_;
  std::vector<Move> moves_;
  std::vector<bool> seen_;  // prefix chunks that were ever computed, by hash
  Prefixes prefixes_;
  std::set<std::pair<std::uint64_t, std::int32_t>> copies_;  // chunks in the host's memory: hash and blocks
  std::int64_t copied_blocks_ = 0;
  std::set<std::pair<std::uint64_t, std::int32_t>> pinned_;  // copies that are being loaded
  std::vector<std::uint64_t> waited_last_;  // groups, one of which was the last to wait and left the queue empty
  std::int64_t due_ = 0;  // ended requests with nothing in flight, which the next plan must release
  std::int64_t must_fail_ = 0;
  TimePoint now_ = kUnset;
  std::uint64_t last_step_ = 0;
  std::int64_t swap_out_limit_ = Blocks::Max().value;  // of the last plan
  std::int64_t swap_out_left_ = Blocks::Max().value;  // blocks that may still move out
  bool draining_ = false;
  bool built_ = false;  // the last plan considered any request
  std::int64_t free_before_ = 0;  // blocks before the current plan
  bool finished_ = false;  // a request ended at its output cap, in the last plan
  bool fails_ = false;  // a request failed while the last plan was built
  bool shed_kv_ = false;  // a request's KV was dropped by shedding, at the end of the plan
  bool shrunk_ = false;  // a row dropped ended sequences, in the last plan
  bool stalled_ = false;  // a row lacked KV, in the last plan
  bool was_stalled_ = false;  // a row lacked KV, in the plan before
  std::uint64_t admissions_ = 0, promotions_ = 0, counted_ = 0;
  std::vector<const Life*> scratch_;
  std::vector<bool> reported_;
  bool joined_others_ = false;  // the last plan admitted a request without KV while others ran
  Stats before_;  // as of the last plan
  Stats ours_;
  std::string violation_;
};

}  // namespace takt::fire

#endif  // TAKT_TESTS_FIRE_SHADOW_H_
