// The front of one or several engines: requests in, and to which instance each goes out.
//
//   auto router = *Router::Create({}, Fcfs{}, LeastLoaded{});
//   router.On(InstanceUp{{.id = {1}}}, now);
//   router.On(Arrived{request}, now);
//   for (const Placement& p : router.Place(now)) { ... }   // hand p.request to p.instance
//   router.On(RequestEnded{request.id, instance}, now);     // finished or failed there
//   router.On(InstanceReported{instance, counts}, now);     // say every 100 ms
//   router.On(RequestServed{request.id, instance, tokens}, now);  // with it, where policies go by service
//
// Workflows may be declared: their calls then wait until the stages before theirs have ended, and have deadlines by the
// time that is left (docs/howto/workflows.md).
//
// Call Place after events, and at wake_at(). A request that fits nowhere now waits here, under the router's policy.
// After InstanceDown the host forgets what that instance held: Place names those requests again, each once.
#ifndef TAKT_ROUTER_H_
#define TAKT_ROUTER_H_

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "takt/base/faults.h"
#include "takt/base/owner.h"
#include "takt/base/time_heap.h"
#include "takt/model/fault.h"
#include "takt/model/instance.h"
#include "takt/model/stage_times.h"
#include "takt/model/step.h"
#include "takt/model/workflow.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/books/call_costs.h"
#include "takt/placement/placement_policy.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/rank_policy.h"
#include "takt/queue/rank_queue.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_table.h"
#include "takt/state/revise.h"
#include "takt/workflow/slo_budget.h"
#include "takt/workflow/workflow_table.h"

namespace takt {

struct RouterOptions {
  std::int64_t max_outstanding = Instance::kUnbounded;  // requests per instance at once, beside its own capacity
  std::int32_t window = 16;  // waiting requests looked at past the first one that must wait
  bool fail_unfit = false;  // fail what is too large for every instance that is up, instead of setting it
                            // aside until a larger one comes
  std::int64_t reserve_requests = 1024;  // storage made ready at creation; up to here On and Place allocate nothing
  // How calls of declared workflows share the time that is left: sets Request::deadline when a call may be made and
  // again when it is sent, and Request::compute. None: requests stay as told.
  std::optional<BudgetOptions> budgets = {};
  std::shared_ptr<const StageTimes> stage_times = {};  // for budgets: measured; null: by the instances' cost models
  WorkflowTableOptions workflows = {};
  std::uint64_t hash_seed = 0;  // keys the hashes of ids and workflows, as SchedulerOptions::hash_seed does

  template <class Self, class List>
  static constexpr auto ListOptions(Self& self, List&& list) {
    return list(Option("max_outstanding", self.max_outstanding, {.least = 1}), Option("window", self.window),
                Option("fail_unfit", self.fail_unfit), Option("reserve_requests", self.reserve_requests),
                Option("hash_seed", self.hash_seed));
  }

  // InvalidArgument names every field at fault, with its value.
  absl::Status Validate() const {
    Faults faults;
    faults.ExpectOptions(*this);
    return faults.ToStatus();
  }
};

struct Placement {
  RequestId request;
  InstanceId instance;  // that computes it
  std::uint64_t life = 0;  // of `instance`; events about this placement name it

  friend constexpr bool operator==(const Placement&, const Placement&) = default;
};

// X(name, what one unit of it is)
#define TAKT_ROUTER_STATS(X)                                                                              \
  X(arrived, "requests accepted")                                                                         \
  X(placed, "placements, repeated ones included")                                                         \
  X(ended, "requests that ended on their instance")                                                       \
  X(cancelled, "requests cancelled while alive")                                                          \
  X(failed_invalid, "requests refused: no id, or nothing to compute")                                     \
  X(failed_id_in_use, "requests refused because another of their id is alive")                            \
  X(failed_expired, "requests that waited here past expires_at")                                          \
  X(failed_unfit, "requests too large for every instance that was up, with fail_unfit")                   \
  X(returned, "requests that came back because their instance went down")                                 \
  X(held, "calls made before the stages ahead of theirs had ended")                                       \
  X(dropped, "requests that failed because their workflow was over")                                      \
  X(workflows_declared, "workflows that began")                                                           \
  X(workflows_ended, "workflows that completed, were cancelled, or failed by silence")                    \
  X(workflow_faults, "what was said of workflows and cannot be")                                          \
  X(instances_lost, "instances that went down")                                                           \
  X(told_late, "messages of a request's former place, of an earlier life, or out of date; ignored")       \
  X(events_unknown, "events that name no living request, or no instance that is up")                      \
  X(events_invalid, "instances with no id, one role, unknown profile; negative counts; as_of beyond now") \
  X(clock_stepped_back, "calls whose time lay before an earlier one's, taken as that")                    \
  X(calls_after_end, "calls of a router that an exception had ended; ignored")

struct RouterStats {
#define TAKT_ROUTER_STATS_FIELD(name, text) std::uint64_t name = 0;
  TAKT_ROUTER_STATS(TAKT_ROUTER_STATS_FIELD)
#undef TAKT_ROUTER_STATS_FIELD

  // All that the host said and cannot be, in one number (model/fault.h): 0 is as it should be.
  constexpr std::uint64_t faults() const {
    return failed_invalid + failed_id_in_use + workflow_faults + events_unknown + events_invalid + clock_stepped_back +
           calls_after_end;
  }

  friend constexpr bool operator==(const RouterStats&, const RouterStats&) = default;
};

// Thread-compatible: one loop owns it. Nothing here throws, blocks, reads a clock or, after warm-up, allocates. Where
// the host's operator new throws, and the host catches it, the call was not made, or the router has ended(). A decision
// costs O(instances) and O(log waiting); a change of the instances O(requests alive).
template <RankPolicy Policy, PlacementPolicy Placer>
class BasicRouter {
 public:
  // InvalidArgument names every option at fault.
  static absl::StatusOr<BasicRouter> Create(RouterOptions options, Policy policy, Placer placer) {
    if (absl::Status status = options.Validate(); !status.ok()) return status;
    return BasicRouter(options, std::move(policy), std::move(placer));
  }

  // What instances may name from here on; told twice, it is the same. It stays for as long as the router does.
  ProfileId AddProfile(InstanceProfile profile) {
    auto at = std::ranges::find(profiles_, profile);
    if (at == profiles_.end()) at = profiles_.insert(at, std::move(profile));
    return {static_cast<std::uint64_t>(at - profiles_.begin()) + 1};
  }

  // What it could not believe of the event is ignored, and returned.
  Ignored On(const RouterEvent& event, TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    fault_log_.Begin();
    if (Ended()) return fault_log_.Said(0);
    MakeRoomFor(event);
    inside_ = true;
    Clock(now);
    std::visit([this, &event](const auto& e) { this->Act(e, event); }, event);
    inside_ = false;
    return fault_log_.Said(0);
  }

  // Tables that placements, and policies by agent, go by.
  Ignored On(const Epoch& epoch, TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    fault_log_.Begin();
    if (Ended()) return fault_log_.Said(0);
    inside_ = true;
    Clock(now);
    if constexpr (EpochPlacement<Placer>) placer_.Observe(epoch, now_);
    if constexpr (EpochPolicy<Policy>) queue_.policy().Observe(epoch, now_);
    inside_ = false;
    return fault_log_.Said(0);
  }

  // The last thing that the host said and cannot be, of stats().faults().
  const Fault& last_fault() const { return fault_log_.last(); }
  // Hears of each from here on.
  void HandleFaults(FaultHandler handler) { fault_log_.Handle(handler); }

  // Whether the policy goes by what requests were served, so that RequestServed makes a difference.
  bool goes_by_service() const { return queue_.goes_by_service(); }

  // Sends what can be sent, in rank order. Valid until the next call; so is failed().
  std::span<const Placement> Place(TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    fault_log_.Begin();
    if (Ended()) return {};
    MakeRoomForPlacements();
    inside_ = true;
    Clock(now);
    placed_.clear();
    failed_.clear();
    ended_workflows_.clear();
    faults_.clear();
    workflows_.Advance(now_);
    Follow(FailReason::kExpired);
    Expire();
    failed_.swap(refused_);
    ended_workflows_.swap(ending_workflows_);
    faults_.swap(new_faults_);
    queue_.BeginPlan(now_, StateOf());
    PlaceFromTop();
    while (PlacePastTop()) PlaceFromTop();
    queue_.EndPlan(!placed_.empty());
    TellPressure();
    inside_ = false;
    return placed_;
  }

  // For hosts that filter and pick themselves: what the placement gives each of these instances for a request, larger
  // is better; NaN: not there now, or the instance is not up, has no room, or is too small. A request that is alive
  // here is scored as it was revised, another as it is told, and stays unknown. Places nothing. `scores` has room for
  // all; the number of them that are not NaN. O(candidates log instances); O(candidates) where they come in the order
  // of the call before.
  std::size_t Score(const Request& request, std::span<const InstanceId> candidates, TimePoint now,
                    std::span<double> scores) {
    if (Ended()) return 0;
    inside_ = true;
    Clock(now);
    const Slot known = table_.Find(request.id);
    if (known == kNoSlot) {
      stranger_ = {.request = request, .enqueued = now_, .slot = kNoSlot};
      internal::Believe(stranger_.request, now_);
    }
    const RequestState& state = known == kNoSlot ? stranger_ : table_[known].state;
    if constexpr (PreparingPlacement<Placer>) placer_.Prepare(state, now_);
    std::size_t possible = 0;
    for (std::size_t c = 0; c < std::min(candidates.size(), scores.size()); ++c) {
      const InstanceState* i = Candidate(c, candidates[c]);
      const bool may = i != nullptr && Fits(state.request, i->instance) && HasRoom(*i);
      const double score = may ? placer_.Score(state, *i, now_) : std::numeric_limits<double>::quiet_NaN();
      // As Place reads it: what is not above -infinity is no place.
      scores[c] = score > -std::numeric_limits<double>::infinity() ? score : std::numeric_limits<double>::quiet_NaN();
      possible += std::isnan(scores[c]) ? 0u : 1u;
    }
    inside_ = false;
    return possible;
  }

  // The host has picked: a request that waits here goes to this instance, whatever the placement says, though it fits
  // none. False, and nothing changes, where it does not wait here or the instance is not up. What expires or fails is
  // told by the next Place.
  bool PlaceAt(RequestId request, InstanceId instance, TimePoint now) {
    if (Ended()) return false;
    MakeRoomForPlacements();
    inside_ = true;
    Clock(now);
    const Slot slot = table_.Find(request);
    InstanceState* at = Known(instance);
    const RequestStatus status = slot != kNoSlot ? table_[slot].status : RequestStatus::kUnknown;
    const bool waits = status == RequestStatus::kWaiting || status == RequestStatus::kBlocked;
    const bool may = waits && at != nullptr;
    if (may) {
      if constexpr (PreparingPlacement<Placer>) placer_.Prepare(table_[slot].state, now_);
      if (status == RequestStatus::kWaiting) {
        queue_.Erase(slot);
      } else {
        Unlist(slot, first_set_aside_);
        --set_aside_;
      }
      Assign(slot, *at);
      placed_.pop_back();  // the host knows
    }
    inside_ = false;
    return may;
  }

  // Requests that the host must fail towards their clients, as of the last Place; with kIdInUse, the newcomer, and not
  // the one that has the id.
  std::span<const Failure> failed() const { return failed_; }
  // Workflows that are over, and what was said of workflows that cannot be; likewise.
  std::span<const WorkflowEnd> ended_workflows() const { return ended_workflows_; }
  std::span<const WorkflowFault> workflow_faults() const { return faults_; }

  // Without an event before, Place again then: a request expires, or a workflow has been silent for too long.
  TimePoint wake_at() const { return std::min(expiries_.next(), workflows_.wake_at()); }

  // An exception has left a call half-way, from a placement or a policy of the host's, say: as BasicScheduler::ended().
  // Events are ignored from then on, and counted, and nothing is placed.
  bool ended() const { return inside_; }

  // Where a living request was placed; none: it waits here, or is not alive.
  InstanceId InstanceOf(RequestId request) const {
    const std::uint32_t slot = table_.Find(request);
    return slot == kNoSlot ? InstanceId{} : place_of_[slot];
  }

  // The description of a living request, as revised; null where there is none. Valid, with what its spans see, until
  // the next On.
  const RequestState* Find(RequestId request) const {
    const std::uint32_t slot = table_.Find(request);
    return slot == kNoSlot ? nullptr : &table_[slot].state;
  }

  std::int64_t alive() const { return static_cast<std::int64_t>(table_.size()); }
  std::int64_t waiting() const { return alive() - outstanding_; }  // in the router's own queue, or held
  std::int64_t set_aside() const { return set_aside_; }  // of these, too large for every instance that is up
  std::span<const InstanceState> instances() const { return instances_; }  // those that are up, by id
  const WorkflowTable& workflows() const { return workflows_; }
  const Policy& policy() const { return queue_.policy(); }
  const RouterStats& stats() const { return stats_; }

 private:
  using Record = internal::Record;

  BasicRouter(const RouterOptions& options, Policy policy, Placer placer)
      : options_(options),
        queue_(std::move(policy)),
        placer_(std::move(placer)),
        workflows_(options.workflows),
        costs_(options.stage_times) {
    const auto n = static_cast<std::size_t>(options.reserve_requests);
    table_.KeyHashes(options.hash_seed);
    queue_.KeyHashes(options.hash_seed);
    workflows_.KeyHashes(options.hash_seed);
    if constexpr (HashingPlacement<Placer>) placer_.KeyHashes(options.hash_seed);
    ReserveSlots(n);
    placed_.reserve(n), failed_.reserve(n), refused_.reserve(n);
    window_.reserve(static_cast<std::size_t>(options.window) + 1);
  }

  // ---- memory -------------------------------------------------------------------------------------------------
  //
  // As in the scheduler: each call first makes room for what it may have to store, so that nothing has changed where
  // memory fails. What workflows and placements keep beyond what was reserved for them may fail in the middle, and ends
  // the router.

  bool Ended() {
    if (inside_) Blame(&RouterStats::calls_after_end, {.kind = FaultKind::kEnded});
    return inside_;
  }

  void ReserveSlots(std::size_t slots) {
    table_.Reserve(slots);
    queue_.Reserve(slots);
    expiries_.Reserve(slots);
    place_of_.resize(slots), charged_.resize(slots), unseen_.resize(slots), links_.resize(slots);
    slots_reserved_ = slots;
  }

  // Room for n more; grows by doubling.
  template <class T>
  static void MakeRoom(std::vector<T>& list, std::size_t n) {
    if (list.capacity() - list.size() < n) list.reserve(std::max(list.size() + n, 2 * list.capacity()));
  }

  void MakeRoomFor(const RouterEvent& event) {
    if (const auto* arrived = std::get_if<Arrived>(&event)) {
      if (!table_.HasSlot() && table_.slots() >= slots_reserved_) {
        ReserveSlots(std::max<std::size_t>(2 * slots_reserved_, 16));
      }
      table_.MakeRoomFor(arrived->request);
    }
    MakeRoom(refused_, table_.size() + 1);  // all of a workflow may go
    if (std::holds_alternative<InstanceUp>(event) || std::holds_alternative<InstanceDown>(event)) {
      window_.clear();
      MakeRoom(window_, table_.size());
    }
    MakeRoom(ending_workflows_, workflows_.size() + 1);
    MakeRoom(new_faults_, 1);
    MakeRoom(instances_, 1), MakeRoom(candidate_at_, 1), MakeRoom(free_slots_, 1), MakeRoom(seen_, 1);
  }
  void MakeRoomForPlacements() {
    // No request ends, or is placed, twice. What the host still has of the last call makes room, too.
    MakeRoom(refused_, table_.size()), MakeRoom(failed_, table_.size()), MakeRoom(placed_, table_.size());
    MakeRoom(ending_workflows_, workflows_.size()), MakeRoom(ended_workflows_, workflows_.size());
  }

  // ---- events -------------------------------------------------------------------------------------------------

  // The host said what cannot be.
  void Blame(std::uint64_t RouterStats::* counter, Fault fault) {
    ++(stats_.*counter);
    fault.at = now_;
    fault_log_.Add(fault);
  }
  void Invalid(InstanceId instance) {
    Blame(&RouterStats::events_invalid,
          {.kind = FaultKind::kInvalidEvent, .said = static_cast<std::int64_t>(instance.value)});
  }

  void Unknown(InstanceId instance) {
    Blame(&RouterStats::events_unknown,
          {.kind = FaultKind::kUnknownInstance, .said = static_cast<std::int64_t>(instance.value)});
  }

  void Clock(TimePoint now) {
    if (now < now_) {
      Blame(&RouterStats::clock_stepped_back, {.kind = FaultKind::kClockBack,
                                               .said = now.time_since_epoch().count(),
                                               .expected = now_.time_since_epoch().count()});
    }
    now_ = std::max(now_, now);
  }

  template <class E>
  void Act(const E& e, const RouterEvent& event) {
    if (!Heeds(e)) return;
    if constexpr (std::same_as<E, InstanceUp>) {
      const InstanceState* at = Known(e.instance.id);
      if (at != nullptr && e.instance.life > at->instance.life) {
        const InstanceDown down{e.instance.id};
        Act(down, down);
      }
    }
    if constexpr (ObservingPlacement<Placer>) placer_.Observe(event, now_);
    Tell(e);
    Handle(e);
  }

  // False, and counted, if an instance or what it reports is invalid, unknown or late.
  template <class E>
  bool Heeds(const E&) {
    return true;
  }
  bool Heeds(const InstanceUp& e) {
    if (!e.instance.id || e.instance.role != InstanceRole::kBoth || e.instance.profile.value > profiles_.size()) {
      Invalid(e.instance.id);
      return false;
    }
    const InstanceState* at = Known(e.instance.id);
    return at == nullptr || e.instance.life > at->instance.life || Lives(e.instance.id, e.instance.life);
  }
  bool Heeds(const InstanceDown& e) { return Lives(e.instance, e.life) && Up(e.instance) != nullptr; }
  bool Heeds(const InstanceReported& e) {
    if (!Lives(e.instance, e.life)) return false;
    const InstanceState* instance = Up(e.instance);
    if (instance == nullptr) return false;
    const InstanceReport& r = e.report;
    if (r.waiting < 0 || r.running < 0 || r.preempted < 0 || r.kv_used < Tokens{0}) {
      Invalid(e.instance);
      return false;
    }
    const bool late = r.as_of != kUnset && r.as_of < seen_[instance->slot].as_of;
    stats_.told_late += late ? 1 : 0;
    return !late;
  }
  bool Heeds(const RequestStarted& e) { return Lives(e.instance, e.life); }
  bool Heeds(const RequestServed& e) { return Lives(e.instance, e.life); }
  bool Heeds(const RequestEnded& e) { return Lives(e.instance, e.life); }

  // False, and counted, if the instance is not in this life: the message is late, or names a life that has not begun.
  bool Lives(InstanceId id, std::uint64_t life) {
    if (!id || life == 0) return true;
    const InstanceState* at = Known(id);
    if (at != nullptr && at->instance.life == life) return true;
    if (at != nullptr ? life < at->instance.life : life <= newest_life_) {
      ++stats_.told_late;
    } else {
      Unknown(id);
    }
    return false;
  }

  // Whether a message about a living request comes from a place that it has left.
  bool Left(Slot slot, InstanceId instance, std::uint64_t life) {
    const InstanceId place = place_of_[slot];
    if (instance && instance != place) return true;
    return life != 0 && (!place || Known(place)->instance.life != life);
  }

  // A policy that observes is told what the router shares with a scheduler.
  template <class E>
  void Tell([[maybe_unused]] const E& event) {
    if constexpr (ObservingPolicy<Policy> && std::constructible_from<Event, const E&>) {
      queue_.policy().Observe(event, now_);
    }
  }

  // The slot of a living request; kNoSlot, and counted, where there is none.
  Slot Living(RequestId id) {
    const Slot slot = table_.Find(id);
    if (slot == kNoSlot) Blame(&RouterStats::events_unknown, {.kind = FaultKind::kUnknownRequest, .request = id});
    return slot;
  }

  void Handle(const Arrived& e) {
    const Request& r = e.request;
    if (r.id && table_.Find(r.id) != kNoSlot) {
      Blame(&RouterStats::failed_id_in_use, {.kind = FaultKind::kIdInUse, .request = r.id});
      refused_.push_back({r.id, FailReason::kIdInUse});
      return;
    }
    if (!r.id || r.prompt_tokens.value < 1 || r.sequences < 1) {
      const bool prompt = r.prompt_tokens.value < 1;
      Blame(&RouterStats::failed_invalid, {.kind = !r.id    ? FaultKind::kNoId
                                                   : prompt ? FaultKind::kPromptTokens
                                                            : FaultKind::kSequences,
                                           .request = r.id,
                                           .said = prompt ? r.prompt_tokens.value : r.sequences});
      refused_.push_back({r.id, FailReason::kInvalid});
      return;
    }
    ++stats_.arrived;
    const Slot slot = table_.Insert(r);
    Request& kept = table_[slot].state.request;
    internal::Believe(kept, now_);
    place_of_[slot] = {};
    charged_[slot] = {};
    if (JoinsWorkflow(slot)) {
      Enqueue(slot);
    } else {
      ++stats_.held;
      table_[slot].status = RequestStatus::kPaused;
    }
    ExpectExpiry(slot);
  }

  void Handle(const Revised& e) {
    const Slot slot = Living(e.request);
    if (slot == kNoSlot) return;
    RequestState& state = table_[slot].state;
    Request& r = state.request;
    internal::Revise(r, e);
    if (table_[slot].status == RequestStatus::kWaiting) queue_.Update(slot, state, now_);
    if (table_[slot].status == RequestStatus::kRunning) queue_.Enter(state, now_);
    if (!e.expires_at) return;
    expiries_.Erase(slot);
    if (table_[slot].status != RequestStatus::kRunning) ExpectExpiry(slot);
  }

  void Handle(const Cancelled& e) {
    const Slot slot = Living(e.request);
    if (slot == kNoSlot) return;
    ++stats_.cancelled;
    End(slot, false);
  }

  void Handle(const RequestEnded& e) {
    const Slot slot = Living(e.request);
    if (slot == kNoSlot) return;
    if (Left(slot, e.instance, e.life)) {
      ++stats_.told_late;
      return;
    }
    ++stats_.ended;
    const bool told = e.served && !e.served->absurd();
    if (e.served && !told) Invalid(e.instance);
    if (table_[slot].status == RequestStatus::kRunning) {
      if (told) {
        Serve(slot, *e.served);
      } else if (!charged_[slot].told && !e.failed) {
        ChargeExpected(slot);
      }
    }
    End(slot, !e.failed);
  }

  void Handle(const RequestServed& e) {
    const Slot slot = Living(e.request);
    if (slot == kNoSlot) return;
    if (table_[slot].status != RequestStatus::kRunning || Left(slot, e.instance, e.life)) {
      ++stats_.told_late;
    } else if (e.served.absurd()) {
      Invalid(e.instance);
    } else {
      Serve(slot, e.served);
    }
  }

  void Handle(const RequestStarted& e) {
    const Slot slot = Living(e.request);
    if (slot == kNoSlot) return;
    if (table_[slot].status != RequestStatus::kRunning || e.instance != place_of_[slot]) {
      ++stats_.told_late;
      return;
    }
    if constexpr (StartingPlacement<Placer>) placer_.Started(table_[slot].state, *Up(e.instance), now_);
  }

  void Handle(const WorkflowDeclared& e) {
    if (Note(workflows_.Declare(e.workflow, now_))) ++stats_.workflows_declared;
  }
  void Handle(const WorkflowGrown& e) { Note(workflows_.Grow(e.workflow, e.stage, e.before, now_)); }
  void Handle(const StageEnded& e) {
    Note(workflows_.EndStage(e.workflow, e.stage, now_));
    Follow(FailReason::kHost);
  }
  void Handle(const WorkflowEnded& e) {
    Note(workflows_.End(e.workflow, e.cancelled, now_));
    Follow(FailReason::kHost);
  }

  void Handle(const InstanceUp& e) {
    const ProfileId named = e.instance.profile;
    const InstanceProfile* profile = named ? &profiles_[named.value - 1] : nullptr;
    auto at = std::ranges::lower_bound(instances_, e.instance.id, {}, IdOf);
    if (at != instances_.end() && IdOf(*at) == e.instance.id) {
      const std::uint64_t life = at->instance.life;
      at->instance = e.instance, at->profile = profile;
      at->instance.life = life;
    } else {
      if (free_slots_.empty()) free_slots_.push_back(static_cast<std::uint32_t>(instances_.size()));
      at = instances_.insert(at, {.instance = e.instance, .profile = profile, .slot = free_slots_.back()});
      free_slots_.pop_back();
      if (at->instance.life == 0) at->instance.life = newest_life_ + (newest_life_ < UINT64_MAX ? 1 : 0);
      newest_life_ = std::max(newest_life_, at->instance.life);
      if (at->slot >= seen_.size()) seen_.resize(at->slot + std::size_t{1});
      seen_[at->slot] = {.as_of = now_};
      if (candidate_at_.size() < instances_.size()) candidate_at_.push_back(0);
    }
    if constexpr (InstancePlacement<Placer>) placer_.Up(*at, now_);
    costs_.Up(*at);
    // What fitted no instance may fit this one.
    for (const Slot slot : TakeList(first_set_aside_)) Enqueue(slot);
    set_aside_ = 0;
  }

  void Handle(const InstanceDown& e) {
    InstanceState* lost = Known(e.instance);
    ++stats_.instances_lost;
    const InstanceState gone = std::move(*lost);
    free_slots_.push_back(gone.slot);
    instances_.erase(instances_.begin() + (lost - instances_.data()));
    for (const Slot slot : TakeList(seen_[gone.slot].first)) {
      ++stats_.returned;
      --outstanding_;
      if constexpr (AccountingPlacement<Placer>) placer_.Released(table_[slot].state, gone, now_);
      table_[slot].state.generated = {};  // it begins anew
      charged_[slot].told = false;
      unseen_[slot].is_listed = false;
      Enqueue(slot);
      ExpectExpiry(slot);
    }
  }

  void Handle(const InstanceReported& e) {
    InstanceState& instance = *Known(e.instance);
    InstanceReport& report = instance.report;
    report = e.report;
    report.waiting = std::min(report.waiting, kMostCount), report.running = std::min(report.running, kMostCount);
    instance.reported = true;
    if (report.as_of > now_) {
      Invalid(e.instance);
      report.as_of = kUnset;
    }
    Seen& seen = seen_[instance.slot];
    seen.as_of = std::max(seen.as_of, report.as_of);
    const std::int64_t missing = instance.outstanding - report.waiting - report.running;
    const auto includes = [&](Slot slot) {
      return report.as_of == kUnset ? seen.unseen > missing : unseen_[slot].placed <= report.as_of;
    };
    while (seen.oldest != kNoSlot && includes(seen.oldest)) See(seen.oldest, seen);
    instance.since_report = seen.unseen;
    instance.tokens_since_report = seen.tokens;
  }

  // ---- placements that no report includes yet: a list for each instance, oldest first --------------------------

  struct Unseen {
    TimePoint placed{};
    Slot before = kNoSlot, after = kNoSlot;
    bool is_listed = false;
  };
  struct Seen {
    TimePoint as_of = kUnset;  // up to which an instance's reports are complete
    Slot oldest = kNoSlot, newest = kNoSlot;  // living requests in no report of it
    std::int64_t unseen = 0, tokens = 0;  // number of them, and tokens of their prompts
    Slot first = kNoSlot;  // of all that are placed there
  };
  static constexpr std::int64_t kMostCount = std::int64_t{1} << 48;  // of a report: no sum of counts overflows

  void ListUnseen(Slot slot, Seen& seen) {
    unseen_[slot] = {.placed = now_, .before = seen.newest, .is_listed = true};
    (seen.newest == kNoSlot ? seen.oldest : unseen_[seen.newest].after) = slot;
    seen.newest = slot;
    ++seen.unseen;
    seen.tokens += table_[slot].state.request.prompt_tokens.value;
  }
  void See(Slot slot, Seen& seen) {
    Unseen& one = unseen_[slot];
    (one.before == kNoSlot ? seen.oldest : unseen_[one.before].after) = one.after;
    (one.after == kNoSlot ? seen.newest : unseen_[one.after].before) = one.before;
    one.is_listed = false;
    --seen.unseen;
    seen.tokens -= table_[slot].state.request.prompt_tokens.value;
  }

  // ---- requests on an instance, and those that are set aside: lists in no order -----------------------------

  struct Link {
    Slot before = kNoSlot, after = kNoSlot;
  };

  void List(Slot slot, Slot& first) {
    links_[slot] = {.after = first};
    if (first != kNoSlot) links_[first].before = slot;
    first = slot;
  }
  void Unlist(Slot slot, Slot& first) {
    const Link link = links_[slot];
    (link.before == kNoSlot ? first : links_[link.before].after) = link.after;
    if (link.after != kNoSlot) links_[link.after].before = link.before;
  }
  // All of a list, which is empty then, by slot.
  std::span<const Slot> TakeList(Slot& first) {
    window_.clear();
    for (Slot slot = std::exchange(first, kNoSlot); slot != kNoSlot; slot = links_[slot].after) window_.push_back(slot);
    std::ranges::sort(window_);
    return window_;
  }

  // ---- requests -----------------------------------------------------------------------------------------------
  // Status here: kWaiting in the ranked queue; kBlocked: fits no instance that is up; kRunning: placed; kPaused: held,
  // since stages of its workflow come before.

  void Enqueue(Slot slot) {
    Record& record = table_[slot];
    record.status = RequestStatus::kWaiting;
    record.state.enqueued = now_;
    place_of_[slot] = {};
    Budget(slot);
    queue_.Push(slot, record.state, now_);
  }

  // What a placed request has come to.
  void Serve(Slot slot, const TokensServed& served) {
    RequestState& state = table_[slot].state;
    state.generated = std::max(state.generated, Tokens{served.output.value / state.request.sequences});
    state.has_run |= served.prefill > Tokens{0} || served.output > Tokens{0};
    charged_[slot].told = true;
    Charge(slot, served);
  }

  // Nobody has told what a request that has finished came to: what was expected.
  void ChargeExpected(Slot slot) {
    const Request& r = table_[slot].state.request;
    if (!r.output_tokens.known()) return;
    constexpr double kMost = 1e9;
    const double cap = r.max_output_tokens.value > 0 ? r.max_output_tokens.value : kMost;
    const double output = std::min(std::min(r.output_tokens.mean, cap) * r.sequences, kMost);
    Charge(slot, {{}, {static_cast<std::int32_t>(output)}});
  }

  // Tells the policy of what goes beyond the most that it has been told: what comes twice, or is computed again since
  // an instance was lost, is charged once.
  void Charge(Slot slot, const TokensServed& served) {
    const RequestState& state = table_[slot].state;
    TokensServed& charged = charged_[slot].served;
    const Tokens prefill{served.prefill.value - charged.prefill.value};
    const Tokens output{served.output.value - charged.output.value};
    const bool first = charged.output.value == 0;
    if (prefill > Tokens{0}) {
      charged.prefill = served.prefill;
      queue_.Scheduled(state, prefill, {});
    }
    if (output > Tokens{0}) {
      charged.output = served.output;
      // A token per sequence and step, the first with the last of the prompt.
      const std::int64_t steps = (std::int64_t{output.value} + state.request.sequences - 1) / state.request.sequences;
      queue_.Scheduled(state, {}, output, steps - (first ? 1 : 0));
    }
  }

  void ExpectExpiry(Slot slot) {
    const Request& r = table_[slot].state.request;
    if (r.expires_at == kNever) return;
    expiries_.Push(slot, r.expires_at, {}, r.id);
  }

  // Forgets a living request, wherever it is. `well`: its stage need not have it again.
  void End(Slot slot, bool well) {
    if (table_[slot].status == RequestStatus::kRunning) {
      InstanceState& instance = *Up(place_of_[slot]);
      --instance.outstanding;
      --outstanding_;
      if (unseen_[slot].is_listed) See(slot, seen_[instance.slot]);
      Unlist(slot, seen_[instance.slot].first);
      if constexpr (AccountingPlacement<Placer>) placer_.Released(table_[slot].state, instance, now_);
    }
    if (table_[slot].status == RequestStatus::kWaiting) queue_.Erase(slot);
    if (table_[slot].status == RequestStatus::kBlocked) Unlist(slot, first_set_aside_), --set_aside_;
    expiries_.Erase(slot);
    table_[slot].state.cut = !well;
    queue_.Forget(slot, table_[slot].state, now_);
    table_.Erase(slot);
    if (!workflows_.contains(slot)) return;
    if (well) {
      workflows_.Ended(slot, now_);
    } else {
      workflows_.Lost(slot, now_);
    }
    Follow(FailReason::kHost);
  }

  void Expire() {
    while (!expiries_.empty() && expiries_.next() <= now_) {
      const Slot slot = expiries_.Top();
      ++stats_.failed_expired;
      refused_.push_back({table_[slot].state.request.id, FailReason::kExpired});
      End(slot, false);
    }
  }

  // ---- workflows ----------------------------------------------------------------------------------------------

  // True where there is no fault.
  bool Note(const WorkflowFault& fault) {
    if (!fault) return true;
    Blame(&RouterStats::workflow_faults,
          {.kind = FaultKind::kWorkflow, .said = static_cast<std::int64_t>(fault.workflow.value)});
    new_faults_.push_back(fault);
    return false;
  }

  // False where it must be held. Of a workflow that is not alive, a request is on its own.
  bool JoinsWorkflow(Slot slot) {
    const Request& r = table_[slot].state.request;
    if (!r.workflow || !workflows_.alive(r.workflow)) return true;
    const auto made = workflows_.Make(slot, r.workflow, r.stage, MeanCost(slot), now_);
    return !Note(made.fault) || made.ready;
  }

  // Equation 6 of HexGen-Flow [s]; 0 where no policy asks.
  double MeanCost(Slot slot) {
    if (!options_.budgets || instances_.empty()) return 0;
    costs_.Prepare(table_[slot].state);
    double sum = 0;
    for (const InstanceState& i : instances_) sum += ToSeconds(costs_.On(i));
    return sum / static_cast<double>(instances_.size());
  }

  // The deadline of a call as of now.
  void Budget(Slot slot) {
    if (!options_.budgets || !workflows_.contains(slot)) return;
    const TimePoint deadline = workflows_.DeadlineOf(slot, MeanCost(slot), now_, *options_.budgets);
    if (deadline != kNever) table_[slot].state.request.deadline = deadline;
  }

  // What follows from a change of the workflows; `reason`: for calls of one that is over.
  void Follow(FailReason reason) {
    for (const Slot slot : workflows_.released()) Enqueue(slot);
    workflows_.released().clear();
    for (const Slot slot : workflows_.dropped()) {
      ++stats_.dropped;
      refused_.push_back({table_[slot].state.request.id, reason});
      End(slot, false);  // the table does not know it any more: nothing follows
    }
    workflows_.dropped().clear();
    stats_.workflows_ended += workflows_.ended().size();
    ending_workflows_.insert(ending_workflows_.end(), workflows_.ended().begin(), workflows_.ended().end());
    workflows_.ended().clear();
  }

  auto StateOf() const {
    return [this](Slot slot) -> const RequestState& { return table_[slot].state; };
  }

  // ---- placing ------------------------------------------------------------------------------------------------

  static InstanceId IdOf(const InstanceState& i) { return i.instance.id; }

  // Null where the instance is not up.
  InstanceState* Known(InstanceId id) {
    const auto at = std::ranges::lower_bound(instances_, id, {}, IdOf);
    return at != instances_.end() && IdOf(*at) == id ? &*at : nullptr;
  }

  // Null, and counted, where it is not.
  InstanceState* Up(InstanceId id) {
    InstanceState* at = Known(id);
    if (at == nullptr) Unknown(id);
    return at;
  }

  // The c-th one that Score is asked for; null where it is not up.
  const InstanceState* Candidate(std::size_t c, InstanceId id) {
    if (c >= candidate_at_.size()) return Known(id);
    std::uint32_t& at = candidate_at_[c];
    if (at < instances_.size() && IdOf(instances_[at]) == id) return &instances_[at];
    const InstanceState* found = Known(id);
    if (found != nullptr) at = static_cast<std::uint32_t>(found - instances_.data());
    return found;
  }

  bool HasRoom(const InstanceState& i) const {
    return i.outstanding < std::min(i.instance.capacity, options_.max_outstanding);
  }

  bool AnyRoom() const {
    return std::ranges::any_of(instances_, [this](const InstanceState& i) { return HasRoom(i); });
  }

  // The prompt and one token more.
  static bool Fits(const Request& r, const Instance& i) {
    return i.kv_tokens.value == 0 || r.prompt_tokens < i.kv_tokens;
  }

  void PlaceFromTop() {
    while (!queue_.empty() && AnyRoom() && TryPlace(queue_.Top())) {
    }
  }

  // Looks past a first request that must wait, in rank order. True where that placed anything.
  bool PlacePastTop() {
    if (queue_.empty() || !AnyRoom()) return false;
    window_.clear();
    queue_.ForEachInOrder([this](Slot slot) {
      if (std::cmp_greater(window_.size(), options_.window)) return false;
      window_.push_back(slot);
      return true;
    });
    bool moved = false;
    for (std::size_t i = 1; i < window_.size() && !(moved && queue_.charges_groups()); ++i) {
      moved |= TryPlace(window_[i]);
    }
    return moved;
  }

  // True where the request has left the ranked queue: placed, or set aside or failed because it fits no instance that
  // is up.
  bool TryPlace(Slot slot) {
    Record& record = table_[slot];
    InstanceState* best = nullptr;
    double best_score = -std::numeric_limits<double>::infinity();
    bool fits = false;
    if constexpr (PreparingPlacement<Placer>) placer_.Prepare(record.state, now_);
    for (InstanceState& i : instances_) {
      if (!Fits(record.state.request, i.instance)) continue;
      fits = true;
      if (!HasRoom(i)) continue;
      const double score = placer_.Score(record.state, i, now_);
      if (score > best_score) best = &i, best_score = score;
    }
    if (fits && best == nullptr) return false;
    if (!fits && options_.fail_unfit && !instances_.empty()) {
      ++stats_.failed_unfit;
      failed_.push_back({record.state.request.id, FailReason::kNeverFits});
      End(slot, false);
      return true;
    }
    queue_.Erase(slot);
    if (best != nullptr) {
      Assign(slot, *best);
    } else {
      record.status = RequestStatus::kBlocked;
      List(slot, first_set_aside_);
      ++set_aside_;
    }
    return true;
  }

  void Assign(Slot slot, InstanceState& instance) {
    Record& record = table_[slot];
    record.status = RequestStatus::kRunning;
    record.state.taken = true;
    place_of_[slot] = IdOf(instance);
    expiries_.Erase(slot);
    ++instance.outstanding;
    ++outstanding_;
    ++instance.since_report;
    instance.tokens_since_report += record.state.request.prompt_tokens.value;
    ListUnseen(slot, seen_[instance.slot]);
    List(slot, seen_[instance.slot].first);
    instance.last_placed = ++stats_.placed;
    placed_.push_back({record.state.request.id, IdOf(instance), instance.instance.life});
    if (options_.budgets) {
      Budget(slot);
      costs_.Prepare(record.state);
      record.state.request.compute = costs_.On(instance);
    }
    if constexpr (AccountingPlacement<Placer>) placer_.Placed(record.state, instance, now_);
    // Nobody has told of it yet, but one Place must not give a group all that there is.
    Charge(slot, {record.state.request.prompt_tokens, {}});
    queue_.ReadGroupsAgain();
  }

  // A policy that prices resources hears why the first of the queue is still here. It waits for places (kSequences)
  // where the instances that are large enough hold as many requests as they may, and for memory (kKv) where the
  // placement wants none of them now. Sizes are means over the instances that take requests and tell them.
  void TellPressure() {
    if constexpr (PressurePolicy<Policy>) {
      QueuePressure pressure;
      std::int32_t engines = 0, sized = 0;
      double kv_tokens = 0, places = 0;
      bool declined = false;
      for (const InstanceState& i : instances_) {
        const std::int64_t most = std::min(i.instance.capacity, options_.max_outstanding);
        if (most <= 0) continue;
        ++engines;
        places += static_cast<double>(most);
        sized += i.instance.kv_tokens.value > 0 ? 1 : 0;
        kv_tokens += std::max(i.instance.kv_tokens.value, 0);
        declined |= !queue_.empty() && HasRoom(i) && Fits(table_[queue_.Top()].state.request, i.instance);
      }
      if (!queue_.empty()) pressure.head = declined ? WaitsFor::kKv : WaitsFor::kSequences;
      if (sized > 0) pressure.kv_tokens = {static_cast<std::int32_t>(kv_tokens / sized)};
      if (engines > 0 && places < 1e9) pressure.limits.max_seqs = static_cast<std::int32_t>(places / engines);
      pressure.engines = std::max(engines, 1);
      queue_.TellPressure(pressure, now_);
    }
  }

  // What the policy has been told of a request, wherever it ran.
  struct Charged {
    TokensServed served = {};
    bool told = false;  // by a host, since it was placed
  };

  RouterOptions options_;
  internal::RankQueue<Policy> queue_;
  Placer placer_;
  internal::Owner owner_;
  std::deque<InstanceProfile> profiles_;  // by id less one, each at an address that stays
  internal::FaultLog fault_log_;
  internal::RequestTable table_;
  WorkflowTable workflows_;  // its calls by slot
  CallCosts costs_;
  TimeHeap expiries_;  // of requests that wait here
  std::vector<InstanceId> place_of_;  // by slot
  std::vector<Charged> charged_;  // by slot
  std::vector<Unseen> unseen_;  // by slot
  std::vector<Link> links_;  // by slot
  std::vector<Seen> seen_;  // by slot of the instance
  std::uint64_t newest_life_ = 0;  // the greatest of any instance
  std::vector<InstanceState> instances_;  // by id
  std::vector<std::uint32_t> candidate_at_;  // index in it of the c-th candidate that Score was asked for last
  std::vector<std::uint32_t> free_slots_;  // of instances that went down
  std::vector<Placement> placed_;
  std::vector<Failure> failed_;
  std::vector<Failure> refused_;  // since the last Place
  std::vector<WorkflowEnd> ended_workflows_, ending_workflows_;  // likewise
  std::vector<WorkflowFault> faults_, new_faults_;
  std::vector<Slot> window_;
  RequestState stranger_;  // of Score
  bool inside_ = false;  // a call; between calls: one was left half-way
  std::size_t slots_reserved_ = 0;
  std::int64_t outstanding_ = 0;  // requests on instances
  std::int64_t set_aside_ = 0;
  Slot first_set_aside_ = kNoSlot;
  TimePoint now_ = kUnset;
  RouterStats stats_;
};

// The router with policies chosen at run time.
using Router = BasicRouter<AnyPolicy, AnyPlacement>;

#ifdef TAKT_COMPILED  // by linking takt::takt, which has it
extern template class BasicRouter<AnyPolicy, AnyPlacement>;
#endif

}  // namespace takt

#endif  // TAKT_ROUTER_H_
