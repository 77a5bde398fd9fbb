// A router's data about its requests and instances, and the checks of a host's reports.
#ifndef TAKT_ROUTER_BOOK_H_
#define TAKT_ROUTER_BOOK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "takt/model/instance.h"
#include "takt/router/instance_table.h"
#include "takt/router/notices.h"
#include "takt/router/options.h"
#include "takt/router/placed_requests.h"
#include "takt/router/record.h"
#include "takt/router/roles.h"
#include "takt/router/stats.h"
#include "takt/router/workflow_calls.h"
#include "takt/state/call_desk.h"
#include "takt/state/transition.h"

namespace takt::internal {

// Invariant: a request has the status kPlaced if and only if its `place` names an instance that is up. The request is
// then among this instance's requests in `placed`. Its `decode`, if any, is up and expects the request. `lacking` has
// the placed requests that need another decode instance. An event that Heeds refuses changes only counters and faults.
struct RouterBook {
  explicit RouterBook(const RouterOptions& from) : options(from), calls(from) {
    table.KeyHashes(options.hash_seed);
    calls.table().KeyHashes(options.hash_seed);
    notices.Reserve(static_cast<std::size_t>(options.reserve_requests));
    scratch.reserve(static_cast<std::size_t>(options.window) + 1);
  }

  // ---- calls of the host --------------------------------------------------------------------------------------------

  bool MayEnter() { return desk.MayEnter(stats.calls_after_end); }
  TimePoint Enter(TimePoint time) { return desk.Enter(time, stats.clock_stepped_back); }
  TimePoint now() const { return desk.now(); }

  void MakeRoomFor(const RouterEvent& event) {
    notices.MakeRoomToGather(table.size(), calls.table().size());
    if (std::holds_alternative<InstanceUp>(event) || std::holds_alternative<InstanceDown>(event)) {
      scratch.clear();
      MakeRoom(scratch, table.size());
      notices.MakeRoomToWithdraw(table.size());
    }
    instances.MakeRoomForOne(), placed.MakeRoomForOne();
  }
  void MakeRoomToPlace() {
    notices.MakeRoomToPlace(table.size(), calls.table().size());
    if (lacking.size() > 0) notices.MakeRoomToWithdraw(static_cast<std::size_t>(lacking.size()));
    if (options.max_down > 0 || lacking.size() > 0) scratch.clear(), MakeRoom(scratch, table.size());
  }

  // ---- the observer -------------------------------------------------------------------------------------------------

  static constexpr RequestStatus StatusOf(RouteStatus status) {
    switch (status) {
      case RouteStatus::kUnknown: return RequestStatus::kUnknown;
      case RouteStatus::kWaiting: return RequestStatus::kWaiting;
      case RouteStatus::kSetAside:
      case RouteStatus::kHeld: return RequestStatus::kBlocked;
      case RouteStatus::kPlaced: break;
    }
    return RequestStatus::kRunning;
  }
  // Reports to the observer that a request has changed its status.
  void Moved(const RouteRecord& record, RequestStatus from, RequestStatus to, TransitionReason why) {
    if (observer.moved == nullptr) [[likely]]
      return;
    const Request& r = record.state.request;
    observer.moved(observer.context,
                   {r.id, record.state.slot, from, to, why, now(), r.prompt_tokens, record.state.generated, {}, &r});
  }
  void Refuse(const Request& r, FailReason reason) {
    notices.refused.push_back({r.id, reason});
    if (observer.moved != nullptr) observer.moved(observer.context, Refusal(r, reason, now()));
  }

  // ---- faults -------------------------------------------------------------------------------------------------------

  void Invalid(InstanceId instance) {
    desk.Blame(stats.events_invalid,
               {.kind = FaultKind::kInvalidEvent, .received = static_cast<std::int64_t>(instance.value)});
  }
  void Unknown(InstanceId instance) {
    desk.Blame(stats.events_unknown,
               {.kind = FaultKind::kUnknownInstance, .received = static_cast<std::int64_t>(instance.value)});
  }
  // Returns true if there is no fault.
  bool Note(const WorkflowFault& fault) {
    if (!fault) return true;
    desk.Blame(stats.workflow_faults,
               {.kind = FaultKind::kWorkflow, .received = static_cast<std::int64_t>(fault.workflow.value)});
    notices.new_faults.push_back(fault);
    return false;
  }

  // Returns false, and adds a fault, if a new request is invalid or its id is in use. The request then fails.
  bool Accepts(const Request& r) {
    if (r.id && table.Find(r.id) != kNoSlot) {
      desk.Blame(stats.failed_id_in_use, {.kind = FaultKind::kIdInUse, .request = r.id});
      Refuse(r, FailReason::kIdInUse);
      return false;
    }
    if (r.id && r.prompt_tokens.value >= 1 && r.sequences >= 1) return true;
    const bool prompt = r.prompt_tokens.value < 1;
    desk.Blame(stats.failed_invalid, {.kind = !r.id    ? FaultKind::kNoId
                                              : prompt ? FaultKind::kPromptTokens
                                                       : FaultKind::kSequences,
                                      .request = r.id,
                                      .received = prompt ? r.prompt_tokens.value : r.sequences});
    Refuse(r, FailReason::kInvalid);
    return false;
  }

  // Returns the slot of a living request; kNoSlot, and a fault, if the request is not alive.
  Slot Living(RequestId id) {
    const Slot slot = table.Find(id);
    if (slot == kNoSlot) desk.Blame(stats.events_unknown, {.kind = FaultKind::kUnknownRequest, .request = id});
    return slot;
  }

  // ---- instances ----------------------------------------------------------------------------------------------------

  // Returns the instance; null, and a fault, if it is not up.
  InstanceState* UpOrFault(InstanceId id) {
    InstanceState* at = instances.Find(id);
    if (at == nullptr) Unknown(id);
    return at;
  }

  // Returns false, and counts the event, if the instance or its report is invalid, unknown or late.
  template <class E>
  bool Heeds(const E&) {
    return true;
  }
  bool Heeds(const InstanceUp& e) {
    if (!e.instance.id || e.instance.role > InstanceRole::kDecode || e.instance.max_adapters < 0 ||
        !instances.Has(e.instance.profile) || ChangesRole(e)) {
      Invalid(e.instance.id);
      return false;
    }
    return Restarts(e) || instances.Find(e.instance.id) == nullptr || Lives(e.instance.id, e.instance.life);
  }
  bool Heeds(const InstanceDown& e) { return IsUp(e.instance, e.life); }
  bool Heeds(const InstanceReported& e) {
    if (!Lives(e.instance, e.life)) return false;
    const InstanceState* instance = UpOrFault(e.instance);
    if (instance == nullptr) return false;
    const InstanceReport& r = e.report;
    if (r.waiting < 0 || r.running < 0 || r.preempted < 0 || r.kv_used < Tokens{0}) {
      Invalid(e.instance);
      return false;
    }
    const bool late = placed.IsLate(*instance, r.as_of);
    stats.reported_late += late ? 1 : 0;
    return !late;
  }
  bool Heeds(const KvStored& e) { return IsUp(e.instance, e.life); }
  bool Heeds(const KvRemoved& e) { return IsUp(e.instance, e.life); }
  bool Heeds(const KvCleared& e) { return IsUp(e.instance, e.life); }
  bool Heeds(const RequestStarted& e) { return Lives(e.instance, e.life); }
  bool Heeds(const RequestServed& e) { return Lives(e.instance, e.life); }
  bool Heeds(const RequestEnded& e) { return Lives(e.instance, e.life); }
  bool Heeds(const PrefillEnded& e) { return Lives(e.instance, e.life); }

  // Returns true if the event restarts an instance that is up in an earlier life.
  bool Restarts(const InstanceUp& e) {
    const InstanceState* at = instances.Find(e.instance.id);
    return at != nullptr && e.instance.life > at->instance.life;
  }

  // Returns true if the event gives another role to an instance that is up, without a restart.
  bool ChangesRole(const InstanceUp& e) {
    const InstanceState* at = instances.Find(e.instance.id);
    return at != nullptr && e.instance.role != at->instance.role && !Restarts(e);
  }

  // Returns false, and counts the event, if the instance's life is not `life`. The event is then late or early.
  bool Lives(InstanceId id, std::uint64_t life) {
    if (!id || life == 0) return true;
    const InstanceState* at = instances.Find(id);
    if (at != nullptr && at->instance.life == life) return true;
    if (at != nullptr ? life < at->instance.life : life <= instances.newest_life()) {
      ++stats.reported_late;
    } else {
      Unknown(id);
    }
    return false;
  }

  // Returns true if the instance is up in this life; otherwise counts the event.
  bool IsUp(InstanceId id, std::uint64_t life) { return Lives(id, life) && UpOrFault(id) != nullptr; }

  // Returns true if an event about a living request comes from an instance that the request has left.
  bool Left(Slot slot, InstanceId instance, std::uint64_t life) {
    const RouteRecord& record = table[slot];
    if (instance && instance != record.place && instance != record.decode) return true;
    const InstanceId at = instance ? instance : record.place;
    return life != 0 && (!at || instances.Find(at)->instance.life != life);
  }

  // ---- room for a request -------------------------------------------------------------------------------------------

  std::int64_t MostOn(const InstanceState& i) const { return std::min(i.instance.capacity, options.max_outstanding); }
  bool HasRoom(const InstanceState& i) const { return i.outstanding < MostOn(i); }
  bool AnyRoom() const {
    return std::ranges::any_of(instances.all(), [this](const InstanceState& i) { return HasRoom(i); });
  }
  // Returns true if the instance has KV for the prompt and one more token.
  static bool Fits(const Request& r, const Instance& i) {
    return i.kv_tokens.value == 0 || r.prompt_tokens < i.kv_tokens;
  }

  RouterOptions options;
  CallDesk desk;
  RouterStats stats;
  Observer observer;
  RouteTable table;
  InstanceTable instances;
  PlacedRequests placed;
  DecodeList lacking;
  Roles roles;
  WorkflowCalls calls;
  RouterNotices notices;
  std::vector<Slot> scratch;  // faults of the current event or search
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_BOOK_H_
