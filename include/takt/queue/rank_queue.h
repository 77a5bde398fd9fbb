// The waiting requests of a scheduler, ranked by a policy.
#ifndef TAKT_QUEUE_RANK_QUEUE_H_
#define TAKT_QUEUE_RANK_QUEUE_H_

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "takt/queue/aging.h"
#include "takt/base/full_key.h"
#include "takt/queue/group_heap.h"
#include "takt/base/indexed_heap.h"
#include "takt/base/slot_table.h"
#include "takt/base/time_heap.h"
#include "takt/policy/rank_policy.h"

namespace takt::internal {

// The owner identifies requests by slots, which are small numbers. An event costs O(log n). A plan costs nothing per
// waiting request, unless keys move with time. Thread-compatible.
//
// Promoted requests are first, by time of promotion. Other requests are ordered by group key, if the policy has groups,
// and within a group by (key, arrival, id).
template <RankPolicy P>
class RankQueue {
 public:
  explicit RankQueue(P policy) : policy_(std::move(policy)), hooks_(HooksOf(policy_)) { EmptyLine(policy_, hooks_); }

  // Keeps an order of requests that have never run, so that WorstNeverRun needs no search. Call before any request
  // waits.
  void TrackWorst() { tracks_worst_ = true; }
  // Ranks waiting requests that have run before others with an equal key, instead of by arrival. Call this first.
  void PutBegunFirst() { begun_first_ = true; }

  // Reserves memory for slots 0 .. n - 1, as far as the policy's own tables allow. Has no effect if an allocation
  // fails.
  void Reserve(std::size_t slots) {
    if (reserved_ == 0) first_reserved_ = slots;
    ReserveFor(policy_, hooks_, slots);
    reserved_ = std::max(reserved_, slots);
  }

  // Sets the hash seed of groups and of the tables of policies. The order does not depend on it.
  void KeyHashes(std::uint64_t seed) {
    hash_seed_ = seed;
    groups_.KeyHashes(seed), worst_.KeyHashes(seed), aside_.KeyHashes(seed);
    if constexpr (HashingPolicy<P>) policy_.KeyHashes(seed);
  }

  std::size_t size() const { return heap_.size() + groups_.size() + aging_.promoted().size(); }
  bool empty() const { return size() == 0; }
  bool contains(Slot slot) const {
    return heap_.contains(slot) || (kMayGroup && groups_.contains(slot)) ||
           (kMayAge && aging_.promoted().contains(slot));
  }

  // Adds a request. `steps_run`: steps that ran it since it was last picked; 0 at arrival.
  void Push(Slot slot, const RequestState& state, TimePoint now, std::int64_t steps_run = 0) {
    Enter(state, now);
    WatchChange(slot, state, now);
    if (const AgingOptions* options = aging()) {
      aging_.Ran(slot, steps_run);
      if (aging_.Join(slot, Counts(*options, state))) return;
    }
    Insert(slot, state, now);
  }

  // Reports a request to the policy, because its facts changed or because the policy is new.
  void Enter(const RequestState& state, TimePoint now) {
    if constexpr (EnterPolicy<P>) {
      if (hooks_.enters) policy_.Enters(state, now);
    }
  }

  // Records the steps that ran this request since it was picked. The request leaves its row but does not wait.
  void Ran(Slot slot, std::int64_t steps_run) {
    if (kMayAge) aging_.Ran(slot, steps_run);
  }

  // Removes a request, picked or not. The queue remembers how long it has waited. `goes`: it is admitted or placed.
  void Erase(Slot slot, bool goes = false) {
    if (kMayChange) changes_.Erase(slot);
    if (kMayAge && aging_.promoted().contains(slot)) return aging_.Pick(slot);
    if (kMayAge) aging_.Delist(slot);
    Remove(slot, goes);
  }

  // Takes a request out of the order although the request still waits. PutBack restores the request's place. LetGo
  // removes the request like Erase. BeginPlan requires that no request is set aside.
  void SetAside(Slot slot) {
    if (kMayAge && aging_.promoted().contains(slot)) return aging_.Pick(slot);
    if (worst_.contains(slot)) worst_.Erase(slot);
    if (!grouped()) {
      Leaves(slot, true);
      return heap_.Erase(slot);
    }
    const std::uint64_t group = groups_.GroupOf(slot);
    Slot at = aside_.Find(group);
    if (at == kNoSlot) at = aside_.Insert(group, {group});
    if (slot >= aside_at_.size()) aside_at_.resize(std::size_t{slot} + 1);
    aside_at_[slot] = at;
    ++aside_[at].members;
    groups_.Erase(slot);
  }
  void PutBack(Slot slot, const RequestState& state, TimePoint now) {
    if (kMayAge && aging_.PromotedWith(slot, 0)) return static_cast<void>(aging_.Join(slot, false));
    if constexpr (kMayGroup) {
      if (hooks_.groups) {
        const std::uint64_t group = TakeAside(slot), now_in = policy_.Group(state);
        if (now_in == group) return PushInGroup(slot, group, KeyOf(state, now), !state.has_run);
        ReportLeft(group);
      }
    }
    Insert(slot, state, now, true);
  }
  // `goes`: as in Erase.
  void LetGo(Slot slot, bool goes = false) {
    if (kMayChange) changes_.Erase(slot);
    if (kMayAge && aging_.PromotedWith(slot, 0)) return;
    if (kMayAge) aging_.Delist(slot);
    if (grouped()) ReportLeft(TakeAside(slot));
    if constexpr (ChoosingPolicy<P>) {
      if (hooks_.chooses && !goes) policy_.Returns(slot), policy_.Leaves(slot, false);
    }
  }

  // Forgets a request that has ended and does not wait, so that its slot can be reused.
  void Forget(Slot slot, const RequestState& state, TimePoint now) {
    if (kMayAge) aging_.Reset(slot);
    if constexpr (EndPolicy<P>) {
      if (hooks_.ends) policy_.Ends(state, now);
    }
  }

  // Reports tokens that `steps` steps computed for a request that does not wait. Returns true if its key has changed.
  bool Scheduled(const RequestState& state, Tokens prefill, Tokens output, std::int64_t steps = 1) {
    return ReportStep(policy_, state, prefill, output, steps);
  }

  // declines() returns true if the policy may decline requests. Admits() returns true if it admits this request now.
  bool declines() const { return DecliningPolicy<P> && hooks_.declines; }
  bool Admits([[maybe_unused]] const RequestState& state, [[maybe_unused]] TimePoint now) const {
    if constexpr (DecliningPolicy<P>) return !hooks_.declines || policy_.Admits(state, now);
    return true;
  }
  // Reports to the policy that the request got a row.
  void Admitted([[maybe_unused]] const RequestState& state, [[maybe_unused]] TimePoint now) {
    if constexpr (DecliningPolicy<P>) {
      if (hooks_.declines) policy_.Admitted(state, now);
    }
  }

  // Reports an Event, one of its alternatives, or an Epoch to the policy.
  template <class E>
  void Observe([[maybe_unused]] const E& event, [[maybe_unused]] TimePoint now) {
    using As = std::conditional_t<std::same_as<E, Epoch>, Epoch, Event>;
    if constexpr (ObservingPolicy<P, As>) policy_.Observe(static_cast<const As&>(event), now);
  }

  const PolicyHooks& hooks() const { return hooks_; }
  bool goes_by_service() const { return hooks_.scheduled; }
  // Returns true if scheduled tokens change the order of other requests.
  bool charges_groups() const { return grouped() && hooks_.scheduled; }
  // Applies the charges since the beginning of this plan to the order of groups.
  void ReadGroupsAgain() {
    if (charges_groups()) TakeInGroupKeys();
  }

  // Records a tool call of the request, which leaves the queue if it waits.
  void ToolCalled(Slot slot) {
    const AgingOptions* options = aging();
    if (options == nullptr || options->at_tool_call == AgingOptions::AtToolCall::kKeep) return;
    if (options->at_tool_call == AgingOptions::AtToolCall::kReset) return aging_.Reset(slot);
    aging_.ResetCount(slot);
  }

  // Updates the key and group of a waiting request.
  void Update(Slot slot, const RequestState& state, TimePoint now) {
    Enter(state, now);
    WatchChange(slot, state, now);
    ReadKeyAgain(slot, state, now);
  }

  // Starts a plan: promotes requests and applies changed keys. Call it before asking for candidates. A moving policy
  // reads all keys again, O(n). `state_of(slot)` returns the state of a waiting request.
  template <class StateOf>
  void BeginPlan(TimePoint now, StateOf&& state_of) {
    if (const AgingOptions* options = aging()) {
      for (Slot slot; (slot = aging_.Overdue(options->threshold)) != kNoSlot;) {
        Remove(slot);
        aging_.Promote(slot, options->quantum);
      }
    }
    if (timed()) MakeChanges(now, state_of);
    if (moving()) ReadKeysAgain(now, state_of);
    if constexpr (PlanBeginPolicy<P>) {
      if (hooks_.begins) policy_.PlanBegins(now);
    }
    if (grouped()) TakeInGroupKeys();
  }

  // Ends a plan. Waiting is counted in plans in which something ran.
  void EndPlan(bool something_ran) {
    if (kMayAge) aging_.PlanEnds(something_ran);
  }

  void ReportPressure(const QueuePressure& pressure, TimePoint now) {
    if constexpr (PressurePolicy<P>) {
      if (hooks_.pressure) policy_.PlanEnds(pressure, now);
    }
  }

  // Returns the first request in order; kNoSlot if none waits.
  Slot Top() const {
    if (kMayAge && !aging_.promoted().empty()) return aging_.promoted().Top();
    if constexpr (ChoosingPolicy<P>) {
      if (hooks_.chooses) return policy_.First();
    }
    return grouped() ? groups_.Top() : heap_.Top();
  }

  // Calls f(slot, id) for each request that may become first when the first is taken. Does nothing with groups,
  // promoted requests or a policy that chooses.
  template <class F>
  void VisitNext(F&& f) const {
    if (grouped() || hooks_.chooses || heap_.empty()) return;
    heap_.VisitChildren(heap_.kRoot, [&](std::uint32_t at) { f(heap_.SlotAt(at), RequestId{heap_.KeyAt(at).id}); });
  }

  // Returns the last request in the current order that has never run and is not promoted; kNoSlot if there is none. If
  // group keys are equal, the group with more such requests counts as last, unless the policy moves. Requires
  // TrackWorst. O(1), except for groups whose keys have changed; O(n) if the policy moves with time.
  template <class StateOf>
  Slot WorstNeverRun(TimePoint now, StateOf&& state_of) {
    if (grouped()) TakeInGroupKeys();
    if (!moving()) return worst_.Top();
    Slot worst = kNoSlot;
    internal::FullRank worst_rank;
    for (Slot slot = 0; slot < std::max(heap_.slots(), groups_.slots()); ++slot) {
      if ((!heap_.contains(slot) && !groups_.contains(slot)) || state_of(slot).has_run) continue;
      const internal::FullRank rank = RankOf(state_of(slot), now);
      if (worst == kNoSlot || worst_rank < rank) worst = slot, worst_rank = rank;
    }
    return worst;
  }

  // Returns true if waiting request a comes before waiting request b.
  bool IsBefore(Slot a, Slot b) const {
    const IndexedHeap& promoted = aging_.promoted();
    if (kMayAge && (promoted.contains(a) || promoted.contains(b))) {
      return promoted.contains(a) && (!promoted.contains(b) || promoted.KeyOf(a) < promoted.KeyOf(b));
    }
    return grouped() ? groups_.IsBefore(a, b) : heap_.KeyOf(a) < heap_.KeyOf(b);
  }

  // Calls f(slot) in order until it returns false. f must not change the queue. k visits cost O(k log k).
  template <class F>
  void ForEachInOrder(F&& f) const {
    bool more = true;
    const auto visit = [&](Slot slot) { return more = f(slot); };
    if (kMayAge) aging_.promoted().VisitInOrder(visit);
    if (more && kMayGroup) groups_.VisitInOrder(visit);
    if constexpr (ChoosingPolicy<P>) {
      if (hooks_.chooses) return more ? VisitChoices(visit) : void();
    }
    if (more) heap_.VisitInOrder(visit);
  }

  // Calls f(slot) for the first k in order.
  template <class F>
  void TopK(std::size_t k, F&& f) const {
    if (k == 0) return;
    ForEachInOrder([&](Slot slot) {
      f(slot);
      return --k > 0;
    });
  }

  // Returns true if the request is promoted and has quantum left, even if it does not wait.
  bool promoted(Slot slot) const { return PromotedWith(slot, 0); }
  // Returns true if the request will still be promoted after `steps_run` more steps.
  bool PromotedWith(Slot slot, std::int64_t steps_run) const { return kMayAge && aging_.PromotedWith(slot, steps_run); }

  // Returns the rank among the unpromoted requests of its group.
  internal::FullKey KeyOf(const RequestState& r, TimePoint now) {
    return {Number(PolicyKey(r, now)), TieOf(r), r.request.id};
  }
  // Same as KeyOf, but does not count NaN keys.
  internal::FullKey PeekKey(const RequestState& r, TimePoint now) const {
    return {Finite(PolicyKey(r, now)), TieOf(r), r.request.id};
  }
  // Returns how many requests come before a waiting one. O(slots); O(k log k) for k requests before it, if the policy
  // chooses.
  std::int64_t Ahead(Slot slot) const {
    if (kMayAge && aging_.promoted().contains(slot)) return aging_.promoted().Ahead(slot);
    if constexpr (ChoosingPolicy<P>) {
      if (hooks_.chooses) {
        std::int64_t before = 0;
        ForEachInOrder([&](Slot other) { return other != slot && ++before > 0; });
        return before;
      }
    }
    const auto promoted = static_cast<std::int64_t>(aging_.promoted().size());
    return promoted + (grouped() ? groups_.Ahead(slot) : heap_.Ahead(slot));
  }
  // Returns the rank among all unpromoted requests.
  internal::FullRank RankOf(const RequestState& r, TimePoint now) { return {GroupBitsOf(r), KeyOf(r, now)}; }
  // Returns true if a may preempt b: the key of a is better by more than `margin`, and the group of a is not worse. A
  // better group does not suffice: group keys change as requests run, so two requests would preempt each other in turn.
  bool Outranks(const RequestState& a, const RequestState& b, double margin, TimePoint now) {
    if (GroupBitsOf(a) > GroupBitsOf(b)) return false;
    return KeyOf(a, now).key + margin < KeyOf(b, now).key;
  }
  // Returns the rank as a victim; the largest is preempted first. A policy with VictimPolicy defines the victim rank;
  // otherwise the victim rank is the rank.
  internal::FullRank VictimRankOf(const RequestState& r, TimePoint now) {
    return {VictimGroupOf(r), VictimKeyOf(r, now)};
  }
  // These functions return the two parts of the victim rank. The key changes only with the request's state, unless the
  // policy moves with time. The group's key may change at any time.
  internal::FullKey VictimKeyOf(const RequestState& r, TimePoint now) {
    if constexpr (VictimPolicy<P>) {
      if (hooks_.victims) return Complete(policy_.VictimKey(r), r);
    }
    return Complete(PolicyKey(r, now), r);
  }
  std::uint64_t VictimGroupOf(const RequestState& r) { return VictimPolicy<P> && hooks_.victims ? 0 : GroupBitsOf(r); }
  bool moving() const { return MovingPolicy<P> && hooks_.moving; }

  // Returns the parts of the key, if the policy reports them.
  KeyParts PartsOf(const RequestState& r) const {
    if constexpr (ExplainPolicy<P>) return policy_.Explain(r);
    else return {};
  }

  std::uint64_t nan_keys() const { return nan_keys_; }  // number of NaN keys, each replaced by +infinity
  std::uint64_t promotions() const { return aging_.promotions(); }
  bool ages() const { return aging() != nullptr; }
  P& policy() { return policy_; }
  const P& policy() const { return policy_; }

  // Ranks all waiting requests by another policy. O(n), or O(n log n) if it groups. Waiting counts and promotions stay
  // if both policies age requests. If only the new policy ages, counting starts now.
  template <class StateOf>
  void ChangePolicy(P policy, TimePoint now, StateOf&& state_of) {
    PrepareChange(std::move(policy));
    ChangePolicy(now, state_of);
  }

  // Two halves of SetPolicy. PrepareChange allocates all memory and changes nothing else.
  void PrepareChange(P policy) {
    const std::size_t slots = std::max({heap_.slots(), groups_.slots(), aging_.promoted().slots(), reserved_});
    if constexpr (HashingPolicy<P>) policy.KeyHashes(hash_seed_);
    // Reserve as for a new queue, because a policy may depend on the first number of reserved slots.
    if constexpr (ReservePolicy<P>) policy.Reserve(first_reserved_);
    EmptyLine(policy, HooksOf(policy));
    ReserveFor(policy, HooksOf(policy), slots);
    changing_.clear();
    changing_.reserve(size());
    next_policy_ = std::move(policy);
  }
  template <class StateOf>
  void ChangePolicy(TimePoint now, StateOf&& state_of) {
    const std::size_t slots = std::max({heap_.slots(), groups_.slots(), aging_.promoted().slots()});
    const bool aged = aging() != nullptr;
    policy_ = *std::move(next_policy_);
    next_policy_.reset();
    hooks_ = HooksOf(policy_);
    const bool ages = aging() != nullptr;
    for (Slot slot = 0; slot < slots; ++slot) {
      if (contains(slot)) changing_.push_back(slot);
    }
    heap_.Clear();
    groups_.Clear();
    worst_.Clear();
    waited_last_.reset();
    changes_.Clear();
    if (aged && !ages) aging_.ResetAll();
    for (Slot slot : changing_) {
      Enter(state_of(slot), now);
      WatchChange(slot, state_of(slot), now);
    }
    if (hooks_.chooses) std::ranges::sort(changing_, {}, [&](Slot slot) { return PeekKey(state_of(slot), now); });
    for (Slot slot : changing_) {
      if (ages && aging_.promoted().contains(slot)) continue;
      if (ages) Recount(slot, Counts(*aging(), state_of(slot)));
      Insert(slot, state_of(slot), now);
    }
  }

 private:
  static constexpr bool kMayAge = AgingPolicy<P>;
  static constexpr bool kMayGroup = GroupPolicy<P>;
  static constexpr bool kMayChange = TimedPolicy<P>;

  const AgingOptions* aging() const { return AgingOf(policy_); }

  void ReserveFor([[maybe_unused]] P& policy, const PolicyHooks& hooks, std::size_t slots) {
    if (kMayGroup && hooks.groups) {
      groups_.Reserve(slots);
      aside_.Reserve(slots);
      aside_at_.reserve(slots);
    } else {
      heap_.Reserve(slots);
    }
    if (hooks.chooses) chosen_.reserve(slots);
    if (AgingOf(policy) != nullptr) aging_.Reserve(slots);
    if (kMayChange && hooks.timed) changes_.Reserve(slots);
    if (tracks_worst_ && !(MovingPolicy<P> && hooks.moving)) worst_.Reserve(slots);
    if constexpr (ReservePolicy<P>) policy.Reserve(slots);
  }
  bool grouped() const { return kMayGroup && hooks_.groups; }
  bool timed() const { return kMayChange && hooks_.timed; }
  bool mirrors() const { return tracks_worst_ && !moving(); }

  static bool Counts(const AgingOptions& options, const RequestState& state) {
    return options.count_from == AgingOptions::CountFrom::kArrival || state.has_run;
  }

  void Recount(Slot slot, bool counts) {
    if (counts) {
      aging_.Join(slot, true);
    } else {
      aging_.Delist(slot);
    }
  }

  RankKey PolicyKey(const RequestState& r, [[maybe_unused]] TimePoint now) const {
    if constexpr (MovingPolicy<P>) {
      if (hooks_.moving) return policy_.KeyAt(r, now);
    }
    return policy_.Key(r);
  }
  static double Finite(RankKey key) { return std::isnan(key.key) ? std::numeric_limits<double>::infinity() : key.key; }
  double Number(RankKey key) {
    if (std::isnan(key.key)) ++nan_keys_;
    return Finite(key);
  }
  // Returns the time that decides between equal keys in the queue.
  TimePoint TieOf(const RequestState& r) const { return begun_first_ && r.has_run ? kUnset : r.request.arrival; }
  internal::FullKey Complete(RankKey key, const RequestState& r) {
    return {Number(key), r.request.arrival, r.request.id};
  }

  void ReadKeyAgain(Slot slot, const RequestState& state, TimePoint now) {
    if (kMayAge && aging_.promoted().contains(slot)) return;
    if constexpr (kMayGroup) {
      if (hooks_.groups) {
        if (groups_.GroupOf(slot) != policy_.Group(state)) {
          Remove(slot);
          return Insert(slot, state, now);
        }
        const internal::PackedKey key = KeyOf(state, now);
        groups_.Update(slot, key);
        if (worst_.contains(slot)) worst_.Update(slot, key.Reversed());
        return;
      }
    }
    const internal::PackedKey key = KeyOf(state, now);
    heap_.Update(slot, key);
    if (worst_.contains(slot)) worst_.Update(slot, key.Reversed());
  }

  // Schedules the next change of the request's key. A time in the past is ignored.
  void WatchChange([[maybe_unused]] Slot slot, [[maybe_unused]] const RequestState& state,
                   [[maybe_unused]] TimePoint now) {
    if constexpr (kMayChange) {
      if (!hooks_.timed) return;
      const TimePoint at = policy_.ChangesAt(state);
      changes_.Erase(slot);
      if (at == kNever || at <= now) return;
      changes_.Push(slot, at, {}, state.request.id);
    }
  }

  template <class StateOf>
  void MakeChanges([[maybe_unused]] TimePoint now, [[maybe_unused]] StateOf&& state_of) {
    if constexpr (kMayChange) {
      while (!changes_.empty()) {
        const Slot slot = changes_.Top();
        const RequestState& state = state_of(slot);
        if (policy_.ChangesAt(state) > now) return;
        policy_.Change(state, now);
        WatchChange(slot, state, now);
        ReadKeyAgain(slot, state, now);
      }
    }
  }

  // Calls f(slot) for each choice, as if all earlier ones had gone, until it returns false.
  template <class F>
  void VisitChoices(F&& f) const {
    chosen_.clear();
    for (Slot slot; (slot = policy_.First()) != kNoSlot && f(slot);) {
      policy_.Leaves(slot, true);
      chosen_.push_back(slot);
    }
    for (; !chosen_.empty(); chosen_.pop_back()) policy_.Returns(chosen_.back());
  }

  // The policy may be a copy of one that chose for another queue.
  static void EmptyLine([[maybe_unused]] P& policy, [[maybe_unused]] const PolicyHooks& hooks) {
    if constexpr (ChoosingPolicy<P>) {
      for (Slot slot; hooks.chooses && (slot = policy.First()) != kNoSlot;) policy.Leaves(slot, false);
    }
  }

  void Leaves([[maybe_unused]] Slot slot, [[maybe_unused]] bool goes) {
    if constexpr (ChoosingPolicy<P>) {
      if (hooks_.chooses) policy_.Leaves(slot, goes);
    }
  }

  // `returns`: undoes SetAside.
  void Insert(Slot slot, const RequestState& state, TimePoint now, [[maybe_unused]] bool returns = false) {
    if constexpr (kMayGroup) {
      if (hooks_.groups) return InsertInGroup(slot, policy_.Group(state), KeyOf(state, now), !state.has_run);
    }
    const internal::FullKey key = KeyOf(state, now);
    if (mirrors() && !state.has_run) worst_.Push(slot, 0, internal::PackedKey(key).Reversed(), 0);
    heap_.Push(slot, key);
    if constexpr (ChoosingPolicy<P>) {
      if (hooks_.chooses && returns) policy_.Returns(slot);
      else if (hooks_.chooses) policy_.Joins(state, now);
    }
  }

  void InsertInGroup(Slot slot, std::uint64_t group, const internal::FullKey& key, bool never_ran) {
    ReportJoins(group);
    PushInGroup(slot, group, key, never_ran);
  }
  void PushInGroup(Slot slot, std::uint64_t group, const internal::FullKey& key, bool never_ran) {
    const std::uint64_t bits = GroupBits(group);
    groups_.Push(slot, group, key, bits);
    if (mirrors() && never_ran) worst_.Push(slot, group, internal::PackedKey(key).Reversed(), ~bits);
  }

  void ReportJoins([[maybe_unused]] std::uint64_t group) {
    if constexpr (GroupWatchPolicy<P>) {
      if (!hooks_.group_watch) return;
      std::optional<RankKey> least;
      const bool any = !groups_.empty() || !NoneAside() || waited_last_;
      if (any && !groups_.waits(group) && !IsAside(group)) {
        TakeInGroupKeys();
        least = policy_.GroupKey(FirstGroup());
      }
      policy_.GroupSized(group, MembersOf(group) + 1, least);
    }
  }

  // Returns the group with the smallest key among those with members waiting or set aside. If there is none, returns
  // the group that waited last.
  std::uint64_t FirstGroup() {
    if (NoneAside()) return groups_.empty() ? *waited_last_ : groups_.TopGroup();
    const Aside* first = nullptr;
    for (const Aside& a : aside_.records()) {
      if (a.members > 0 && (first == nullptr || GroupBits(a.group) < GroupBits(first->group))) first = &a;
    }
    if (groups_.empty() || GroupBits(first->group) < GroupBits(groups_.TopGroup())) return first->group;
    return groups_.TopGroup();
  }

  bool NoneAside() const { return aside_.size() == 0; }
  bool IsAside(std::uint64_t group) const { return !NoneAside() && aside_.Find(group) != kNoSlot; }
  std::int64_t MembersOf(std::uint64_t group) const {
    const Aside* aside = NoneAside() ? nullptr : aside_.Get(group);
    return groups_.SizeOf(group) + (aside == nullptr ? 0 : aside->members);
  }
  // Returns the request's group.
  std::uint64_t TakeAside(Slot slot) {
    const Slot at = aside_at_[slot];
    const std::uint64_t group = aside_[at].group;
    if (--aside_[at].members == 0) aside_.Erase(at, group);
    return group;
  }
  void ReportLeft(std::uint64_t group) {
    if (groups_.empty() && NoneAside()) waited_last_ = group;
    if constexpr (GroupWatchPolicy<P>) {
      if (hooks_.group_watch) policy_.GroupSized(group, MembersOf(group), {});
    }
  }

  std::uint64_t GroupBits(std::uint64_t group) {
    if constexpr (kMayGroup) {
      return internal::OrderedBits(Number(policy_.GroupKey(group)));
    } else {
      return 0;
    }
  }

  // Returns the key bits of the request's group; 0 if the policy does not group.
  std::uint64_t GroupBitsOf([[maybe_unused]] const RequestState& r) {
    if constexpr (kMayGroup) {
      if (hooks_.groups) return GroupBits(policy_.Group(r));
    }
    return 0;
  }

  void TakeInGroupKeys() {
    if constexpr (GroupLogPolicy<P>) {
      if (hooks_.group_log) {
        std::vector<std::uint64_t>& moved = policy_.moved_groups();
        const bool all = std::ranges::find(moved, kAllGroups) != moved.end();
        for (std::uint64_t group : moved) {
          if (all) break;
          const std::uint64_t bits = GroupBits(group);
          groups_.SetGroupKey(group, bits);
          worst_.SetGroupKey(group, ~bits);
        }
        moved.clear();
        if (!all) return;
      }
    }
    groups_.SetGroupKeys([this](std::uint64_t group) { return GroupBits(group); });
    worst_.SetGroupKeys([this](std::uint64_t group) { return ~GroupBits(group); });
  }

  // Removes a request that is not promoted from its heap.
  void Remove(Slot slot, bool goes = false) {
    if (worst_.contains(slot)) worst_.Erase(slot);
    if (grouped()) {
      const std::uint64_t group = groups_.GroupOf(slot);
      groups_.Erase(slot);
      ReportLeft(group);
    } else {
      Leaves(slot, goes);
      heap_.Erase(slot);
    }
  }

  template <class StateOf>
  void ReadKeysAgain(TimePoint now, StateOf&& state_of) {
    if (grouped()) {
      groups_.UpdateAll([&](Slot slot) { return internal::PackedKey(KeyOf(state_of(slot), now)); });
    } else {
      heap_.UpdateAll([&](Slot slot) { return internal::PackedKey(KeyOf(state_of(slot), now)); });
    }
  }

  mutable P policy_;  // VisitChoices changes it, and undoes that
  PolicyHooks hooks_;
  IndexedHeap heap_;  // unpromoted requests, if the policy does not group
  internal::GroupHeap groups_;  // unpromoted requests, if the policy groups
  internal::GroupHeap worst_{
      true};  // TrackWorst: the reverse order of requests that have never run, unless the policy moves
  struct Aside {
    std::uint64_t group = 0;
    std::int64_t members = 0;
  };
  IdTable<std::uint64_t, Aside> aside_;  // groups with members set aside
  std::vector<Slot> aside_at_;  // index in aside_, by slot of a member that is set aside
  std::optional<std::uint64_t> waited_last_;  // group of the last member of groups_ before groups_ became empty
  TimeHeap changes_;  // waiting requests by the next change of their keys
  internal::Aging aging_;
  std::size_t reserved_ = 0, first_reserved_ = 0;
  std::optional<P> next_policy_ = {};  // policy that PrepareChange received
  std::vector<Slot> changing_;  // requests that wait while the policy changes
  mutable std::vector<Slot> chosen_;  // for VisitChoices
  bool tracks_worst_ = false, begun_first_ = false;
  std::uint64_t hash_seed_ = 0;
  std::uint64_t nan_keys_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_QUEUE_RANK_QUEUE_H_
