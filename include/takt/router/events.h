// The effect of each event on a router.
#ifndef TAKT_ROUTER_EVENTS_H_
#define TAKT_ROUTER_EVENTS_H_

#include <concepts>
#include <variant>

#include "takt/model/event.h"
#include "takt/router/requests.h"
#include "takt/state/revise.h"

namespace takt::internal {

// Handles one event during one call.
//
// Invariant: the placement and the policy observe each valid event before the router applies it. They do not observe
// invalid events.
template <RankPolicy Policy, PlacementPolicy Placer>
class RouterActs {
 public:
  explicit RouterActs(RouterRequests<Policy, Placer>& requests) : r_(requests) {}

  void Act(const RouterEvent& event) {
    std::visit([this, &event](const auto& e) { this->Act(e, event); }, event);
  }

 private:
  template <class E>
  static constexpr bool kAboutKv =
      std::same_as<E, KvStored> || std::same_as<E, KvRemoved> || std::same_as<E, KvCleared>;

  template <class E>
  void Act(const E& e, const RouterEvent& event) {
    if (!r_.Heeds(e)) return;
    if constexpr (std::same_as<E, InstanceUp>) {
      if (r_.Restarts(e)) {
        const InstanceDown down{e.instance.id};
        Act(down, down);
      }
    }
    Observe(e, event);
    if constexpr (std::constructible_from<Event, const E&>) r_.queue.Observe(e, r_.now());
    Handle(e);
  }

  // Each placement observes the events of its own instances, and all others. The placement of decode instances observes
  // nothing before the first instance of one role.
  template <class E>
  void Observe(const E& e, const RouterEvent& event) {
    const Instance* about = nullptr;
    if constexpr (std::same_as<E, InstanceUp>) about = &e.instance;
    if constexpr (std::same_as<E, InstanceDown> || std::same_as<E, InstanceReported> || kAboutKv<E>) {
      about = &r_.instances.Find(e.instance)->instance;
    }
    if (about != nullptr) return r_.PlacerOf(*about).Observe(event, r_.now());
    r_.placer.Observe(event, r_.now());
    if (r_.instances.was_apart()) r_.decode_placer.Observe(event, r_.now());
  }

  // Hands a request over if this event of its decode instance came before PrefillEnded.
  void Reached(Slot slot, InstanceId instance) {
    if (instance && r_.table[slot].decode == instance) r_.HandOver(slot);
  }

  void Handle(const Arrived& e) {
    if (r_.Accepts(e.request)) r_.Arrive(e.request);
  }

  void Handle(const Revised& e) {
    const Slot slot = r_.Living(e.request);
    if (slot == kNoSlot) return;
    RouteRecord& record = r_.table[slot];
    Revise(record.state.request, e);
    const bool placed = record.status == RouteStatus::kPlaced;
    if (record.status == RouteStatus::kWaiting) r_.queue.Update(slot, record.state, r_.now());
    if (placed) r_.queue.Enter(record.state, r_.now());
    if (!e.expires_at && !e.priority) return;
    r_.expiries.Erase(slot);
    if (!placed) r_.ExpectExpiry(slot);
  }

  void Handle(const Cancelled& e) {
    const Slot slot = r_.Living(e.request);
    if (slot == kNoSlot) return;
    ++r_.stats.cancelled;
    r_.End(slot, TransitionReason::kCancelled);
  }

  void Handle(const RequestEnded& e) {
    const Slot slot = r_.Living(e.request);
    if (slot == kNoSlot) return;
    if (r_.Left(slot, e.instance, e.life)) {
      ++r_.stats.reported_late;
      return;
    }
    ++r_.stats.ended;
    Reached(slot, e.instance);
    const bool reported = e.served && !e.served->absurd();
    if (e.served && !reported) r_.Invalid(e.instance);
    if (r_.table[slot].status == RouteStatus::kPlaced) {
      if (reported) {
        r_.Serve(slot, *e.served);
      } else if (!r_.table[slot].charged.reported && !e.failed) {
        r_.ChargeExpected(slot);
      }
    }
    r_.End(slot, e.failed ? TransitionReason::kHost : TransitionReason::kFinished);
  }

  void Handle(const RequestServed& e) {
    const Slot slot = r_.Living(e.request);
    if (slot == kNoSlot) return;
    if (r_.table[slot].status != RouteStatus::kPlaced || r_.Left(slot, e.instance, e.life)) {
      ++r_.stats.reported_late;
    } else if (e.served.absurd()) {
      r_.Invalid(e.instance);
    } else {
      Reached(slot, e.instance);
      r_.Serve(slot, e.served);
    }
  }

  void Handle(const PrefillEnded& e) {
    const Slot slot = r_.Living(e.request);
    if (slot == kNoSlot) return;
    if (r_.table[slot].status != RouteStatus::kPlaced || r_.Left(slot, e.instance, e.life)) {
      ++r_.stats.reported_late;
    } else {
      r_.HandOver(slot);
    }
  }

  void Handle(const RequestStarted& e) {
    const Slot slot = r_.Living(e.request);
    if (slot == kNoSlot) return;
    const RouteRecord& record = r_.table[slot];
    if (record.status != RouteStatus::kPlaced || !e.instance ||
        (e.instance != record.place && e.instance != record.decode)) {
      ++r_.stats.reported_late;
      return;
    }
    Reached(slot, e.instance);
    const InstanceState& at = *r_.instances.Find(e.instance);
    r_.PlacerOf(at.instance).Started(record.state, at, r_.now());
  }

  void Handle(const WorkflowDeclared& e) {
    if (r_.Note(r_.calls.table().Declare(e.workflow, r_.now()))) ++r_.stats.workflows_declared;
  }
  void Handle(const WorkflowGrown& e) { r_.Note(r_.calls.table().Grow(e.workflow, e.stage, e.before, r_.now())); }
  void Handle(const StageEnded& e) {
    r_.Note(r_.calls.table().EndStage(e.workflow, e.stage, r_.now()));
    r_.Follow(FailReason::kHost);
  }
  void Handle(const WorkflowEnded& e) {
    r_.Note(r_.calls.table().End(e.workflow, e.cancelled, r_.now()));
    r_.Follow(FailReason::kHost);
  }

  void Handle(const InstanceUp& e) {
    const auto [instance, is_new] = r_.instances.Up(e.instance);
    if (is_new) r_.placed.Up(*instance, r_.now());
    r_.down_since = kUnset;  // also if the instance goes down again before the next Place
    r_.roles.Up(*instance);
    r_.PlacerOf(instance->instance).Up(*instance, r_.now());
    r_.calls.Up(*instance);
    r_.TakeBackAside();
  }

  void Handle(const InstanceDown& e) {
    ++r_.stats.instances_lost;
    const InstanceState gone = r_.instances.Remove(e.instance);
    r_.LoseDecodes(gone);
    r_.ReturnAll(gone);
  }

  template <class E>
    requires kAboutKv<E>
  void Handle(const E&) {}  // for placements only

  void Handle(const InstanceReported& e) {
    InstanceReport report = e.report;
    if (report.as_of > r_.now()) {
      r_.Invalid(e.instance);
      report.as_of = kUnset;
    }
    r_.placed.Report(r_.table, *r_.instances.Find(e.instance), report);
  }

  RouterRequests<Policy, Placer>& r_;
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_EVENTS_H_
