// The router of one or several engines, which decides which instance runs each request.
//
//   auto router = *Router::Create({}, Fcfs{}, LeastLoaded{});
//   router.On(InstanceUp{{.id = {1}}}, now);
//   router.On(Arrived{request}, now);
//   for (const Placement& p : router.Place(now)) { ... }   // send p.request to p.instance
//   router.On(PrefillEnded{request.id, instance}, now);     // with instances for prefill and decode (InstanceRole)
//   router.On(RequestEnded{request.id, instance}, now);     // finished or failed there
//   router.On(InstanceReported{instance, counts}, now);     // for example every 100 ms
//   router.On(RequestServed{request.id, instance, tokens}, now);  // likewise, if the policy ranks by service
//
// The calls of a declared workflow wait until the preceding stages have ended. Their deadlines follow from the time
// that remains (docs/howto/workflows.md).
//
// Call Place after events, and at wake_at(). If no instance has room for a request, it waits here in rank order. After
// InstanceDown, Place returns the requests of that instance again, each once.
#ifndef TAKT_ROUTER_H_
#define TAKT_ROUTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/base/owner.h"
#include "takt/model/fault.h"
#include "takt/model/instance.h"
#include "takt/model/step.h"
#include "takt/model/workflow.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/placement_policy.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/rank_policy.h"
#include "takt/router/events.h"
#include "takt/router/explanation.h"
#include "takt/router/options.h"
#include "takt/router/placing.h"
#include "takt/router/requests.h"
#include "takt/router/stats.h"
#include "takt/state/instance_state.h"
#include "takt/state/revise.h"
#include "takt/state/transition.h"
#include "takt/workflow/workflow_table.h"

namespace takt {

// Thread-compatible: one loop owns it. No call throws, blocks, reads a clock or, after warm-up, allocates. If operator
// new throws and the host catches it, the call has no effect or ended() returns true. A placement costs O(instances +
// log waiting requests). A change of the instances costs O(living requests).
template <RankPolicy Policy, PlacementPolicy Placer>
class BasicRouter {
 public:
  // Creates a router. InvalidArgument lists all invalid options.
  static absl::StatusOr<BasicRouter> Create(RouterOptions options, Policy policy, Placer placer) {
    Placer decode_placer = placer;
    return Create(std::move(options), std::move(policy), std::move(placer), std::move(decode_placer));
  }
  // `decode_placer` chooses among the instances of InstanceRole::kDecode, and `placer` among all others.
  static absl::StatusOr<BasicRouter> Create(RouterOptions options, Policy policy, Placer placer, Placer decode_placer) {
    if (absl::Status status = options.Validate(); !status.ok()) return status;
    return BasicRouter(options, std::move(policy), std::move(placer), std::move(decode_placer));
  }

  // Adds a profile. Returns the profile's id, which is valid as long as the router. Equal profiles get the same id.
  ProfileId AddProfile(InstanceProfile profile) { return r_.instances.AddProfile(std::move(profile)); }

  // Applies an event. Returns its faults, which the router ignores.
  Ignored On(const RouterEvent& event, TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    r_.desk.Begin();
    if (!r_.MayEnter()) return r_.desk.Summary();
    r_.MakeRoomFor(event);
    r_.Enter(now);
    internal::RouterActs(r_).Act(event);
    r_.desk.Leave();
    return r_.desk.Summary();
  }

  // Sets new tables for placements, and for policies that rank by agent.
  Ignored On(const Epoch& epoch, TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    r_.desk.Begin();
    if (!r_.MayEnter()) return r_.desk.Summary();
    r_.Enter(now);
    r_.placer.Observe(epoch, r_.now());
    r_.decode_placer.Observe(epoch, r_.now());
    r_.queue.Observe(epoch, r_.now());
    r_.desk.Leave();
    return r_.desk.Summary();
  }

  // Changes options while requests wait or run. The next Place uses them. InvalidArgument, without effect, lists the
  // options that are invalid or cannot change; `budgets`, `stage_times` and `workflows` stay as they are.
  absl::Status SetOptions(const RouterOptions& to, TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    if (absl::Status status = options().ValidateChange(to); !status.ok()) return status;
    r_.desk.Begin();
    if (!r_.MayEnter()) return absl::FailedPreconditionError("the router has ended");
    RouterOptions next = to;
    next.budgets = options().budgets, next.stage_times = options().stage_times, next.workflows = options().workflows;
    r_.MakeRoomFor(next);
    r_.Enter(now);
    std::swap(r_.options, next);
    r_.OptionsChanged(next);
    r_.desk.Leave();
    return absl::OkStatus();
  }
  const RouterOptions& options() const { return r_.options; }

  // Returns the most recent fault; stats().faults() counts them.
  const Fault& last_fault() const { return r_.desk.log().last(); }
  // Calls the handler for each later fault.
  void HandleFaults(FaultHandler handler) { r_.desk.log().Handle(handler); }
  // Passes each later transition of a request to the observer, which must outlive the router or be replaced by {}.
  void Watch(Observer observer) { r_.observer = observer; }

  // Returns true if the policy or the placement uses the tokens that requests received. The host must then send
  // RequestServed.
  bool goes_by_service() const {
    return r_.queue.goes_by_service() || r_.placer.goes_by_service() || r_.decode_placer.goes_by_service();
  }

  // Places requests on instances, in rank order. The result and the lists below are valid until the next call. With
  // instances for prefill and for decode, the host first applies withdrawn(), then the result, then decodes().
  std::span<const Placement> Place(TimePoint now) {
    const internal::Owner::Inside one_thread(owner_);
    r_.desk.Begin();
    if (!r_.MayEnter()) return {};
    r_.MakeRoomToPlace();
    r_.Enter(now);
    r_.notices.Clear();
    r_.calls.table().Advance(r_.now());
    r_.Follow(FailReason::kExpired);
    internal::Placing placing(r_);
    placing.ReplaceDecodes();
    r_.Expire();
    r_.notices.TakeGathered();
    placing.Run();
    r_.FailWithoutInstance();
    r_.Shed();
    r_.desk.Leave();
    return r_.notices.placed;
  }

  // For hosts that choose instances themselves: sets each candidate's score for a request. Larger is better. NaN: the
  // placement rejects the candidate now, or the candidate is down, full or too small. A request in this router is
  // scored with its revisions. Any other request is scored as given and stays unknown. Places no request. `scores` must
  // have one element per candidate. Returns the number of scores that are not NaN. O(candidates log instances);
  // O(candidates) in the order of the previous call.
  std::size_t Score(const Request& request, std::span<const InstanceId> candidates, TimePoint now,
                    std::span<double> scores) {
    if (!r_.MayEnter()) return 0;
    r_.Enter(now);
    const std::size_t possible = internal::Placing(r_).Score(StateOf(request), candidates, scores);
    r_.desk.Leave();
    return possible;
  }

  // Returns the state of a request and the scores of all instances for the request at this moment. A request that
  // is not in this router is explained as given. Writes one candidate per instance that is up, by ascending id, as far
  // as `candidates` has elements. Places no request. O(instances + w) for w waiting requests, or
  // O(instances + w log w) if the policy chooses.
  RouteExplanation Explain(const Request& request, TimePoint now, std::span<Candidate> candidates = {}) {
    RouteExplanation why;
    if (!r_.MayEnter()) return why;
    r_.Enter(now);
    if (const Slot slot = r_.table.Find(request.id); slot != kNoSlot) {
      why.status = r_.StatusOf(r_.table[slot].status);
      why.chosen = r_.table[slot].place, why.decode = r_.table[slot].decode;
      if (why.status == RequestStatus::kWaiting) why.ahead = r_.queue.Ahead(slot);
    }
    why = internal::Placing(r_).Explain(StateOf(request), why, candidates);
    r_.desk.Leave();
    return why;
  }

  // For hosts that choose instances themselves: places a waiting request on this instance, even if the instance lacks
  // room. A prefill instance needs a `decode` instance of that role, and other instances take none. Returns false,
  // without effect, if the request does not wait here, an instance is not up, or the roles differ. The next Place
  // reports requests that expire or fail.
  bool PlaceAt(RequestId request, InstanceId instance, TimePoint now, InstanceId decode = {}) {
    if (!r_.MayEnter()) return false;
    r_.MakeRoomToPlace();
    r_.Enter(now);
    const Slot slot = r_.table.Find(request);
    InstanceState *at = r_.instances.Find(instance), *then = r_.instances.Find(decode);
    const bool apart = at != nullptr && at->instance.role == InstanceRole::kPrefill;
    const bool legs = apart ? then != nullptr && then->instance.role == InstanceRole::kDecode : !decode;
    const auto status = slot != kNoSlot ? r_.table[slot].status : internal::RouteStatus::kUnknown;
    const bool ranked = status == internal::RouteStatus::kWaiting, aside = status == internal::RouteStatus::kSetAside;
    const bool may = (ranked || aside) && at != nullptr && legs;
    if (may) {
      internal::Placing(r_).Prepare(r_.table[slot].state);
      if (ranked) r_.queue.Erase(slot, true);
      if (aside) r_.set_aside.Remove(r_.table, slot);
      r_.Assign(slot, *at, then);
      r_.notices.placed.pop_back();  // the host knows of this placement
      if (then != nullptr) r_.notices.decodes.pop_back();
      std::erase_if(r_.notices.withdrawing, [&](const Placement& p) {  // legs that the request has again
        return p.request == request && (p.instance == instance || p.instance == decode);
      });
    }
    r_.desk.Leave();
    return may;
  }

  // Decode instances of requests that were placed on a prefill instance, and of placed requests that had lost theirs.
  // The last entry of a request counts.
  std::span<const Placement> decodes() const { return r_.notices.decodes; }
  // As of the last Place: decode instances that no longer get a request, because its prefill instance went down. Also
  // prefill instances of requests that lost their decode instance and returned to the queue.
  std::span<const Placement> withdrawn() const { return r_.notices.withdrawn; }
  // Requests that failed in the last Place, which the host must report to clients. For kIdInUse, the older request with
  // that id continues.
  std::span<const Failure> failed() const { return r_.notices.failed; }
  // Workflows that ended, and rejected input about workflows, as of the last Place.
  std::span<const WorkflowEnd> ended_workflows() const { return r_.notices.ended; }
  std::span<const WorkflowFault> workflow_faults() const { return r_.notices.faults; }

  // Time of the next Place if no event comes earlier. A request then expires, a workflow has been silent too long, or
  // no instance has been up for `max_down`.
  TimePoint wake_at() const {
    const TimePoint at = std::min(r_.expiries.next(), workflows().wake_at());
    const bool waits = !r_.queue.empty() || r_.set_aside.size() > 0;  // held calls wait for others
    return waits ? std::min(at, r_.DownUntil()) : at;
  }

  // Returns true if an exception interrupted a call, for example in a host's placement or policy. The router then only
  // counts events and places no requests.
  bool ended() const { return r_.desk.inside(); }

  // Returns the instance that will take a placed request over after its prefill; none: no other instance.
  InstanceId DecodeOf(RequestId request) const {
    const Slot slot = r_.table.Find(request);
    return slot == kNoSlot ? InstanceId{} : r_.table[slot].decode;
  }

  // Returns the instance of a placed request; none if the request waits here or is not alive.
  InstanceId InstanceOf(RequestId request) const {
    const Slot slot = r_.table.Find(request);
    return slot == kNoSlot ? InstanceId{} : r_.table[slot].place;
  }

  // Returns a living request with its revisions; otherwise null. The request and its spans are valid until the next On.
  const RequestState* Find(RequestId request) const {
    const Slot slot = r_.table.Find(request);
    return slot == kNoSlot ? nullptr : &r_.table[slot].state;
  }

  std::int64_t alive() const { return static_cast<std::int64_t>(r_.table.size()); }
  std::int64_t waiting() const { return alive() - r_.placed.size(); }  // number of queued, set aside or held requests
  std::int64_t set_aside() const {
    return r_.set_aside.size();
  }  // waiting requests that are too large for every instance
  std::span<const InstanceState> instances() const { return r_.instances.all(); }  // sorted by id
  const WorkflowTable& workflows() const { return r_.calls.table(); }
  const Policy& policy() const { return r_.queue.policy(); }
  // Replaces what the policy has learnt by the words of SaveLearnt of the same policy. Returns false, without effect,
  // if the words are invalid, the policy does not learn, or a request is alive.
  bool LoadLearnt(std::span<const std::uint64_t> words) {
    if constexpr (LearningPolicy<Policy>) return alive() == 0 && r_.queue.policy().LoadLearnt(words);
    return false;
  }
  const RouterStats& stats() const { return r_.stats; }

 private:
  // Returns the router's state of a request; otherwise that of a request as given.
  const RequestState& StateOf(const Request& request) {
    if (const Slot known = r_.table.Find(request.id); known != kNoSlot) return r_.table[known].state;
    unknown_ = {.request = request, .enqueued = r_.now(), .slot = kNoSlot};
    internal::Sanitize(unknown_.request, r_.now());
    return unknown_;
  }

  BasicRouter(const RouterOptions& options, Policy policy, Placer placer, Placer decode_placer)
      : r_(options, std::move(policy), std::move(placer), std::move(decode_placer)) {}

  internal::RouterRequests<Policy, Placer> r_;
  internal::Owner owner_;
  RequestState unknown_;  // copy of a request that Score or Explain received and that is not in this router
};

// A router whose policies are chosen at run time.
using Router = BasicRouter<AnyPolicy, AnyPlacement>;

#ifdef TAKT_COMPILED  // set by linking takt::takt, which contains it
extern template class BasicRouter<AnyPolicy, AnyPlacement>;
#endif

}  // namespace takt

#endif  // TAKT_ROUTER_H_
