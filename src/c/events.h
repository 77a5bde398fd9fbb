// Events of the C interface as those of C++.
#ifndef TAKT_SRC_C_EVENTS_H_
#define TAKT_SRC_C_EVENTS_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "c/handle.h"
#include "takt/model/event.h"
#include "takt/model/fault.h"
#include "takt/model/instance.h"
#include "takt/model/step.h"

namespace takt::c {

inline TimePoint At(std::int64_t ns) { return TimePoint(Duration(ns)); }
inline std::int64_t Ns(TimePoint t) { return t.time_since_epoch().count(); }

template <>
takt_request Defaults<takt_request>();
template <>
takt_instance Defaults<takt_instance>();
template <>
takt_workflow Defaults<takt_workflow>();
template <>
takt_epoch Defaults<takt_epoch>();
template <>
takt_limits Defaults<takt_limits>();

// Whether what the structs point to is there, and every number in them can be meant.
takt_status Sound(const takt_request* request);
takt_status SoundToRank(const takt_request* request);  // of one that need not arrive
takt_status Sound(const takt_instance* instance);
takt_status Sound(const takt_stage* stage);
takt_status Sound(const takt_workflow* workflow);

// Of structs that are Sound. `to` is as it was made.
void Fill(const takt_request* from, Request& to);  // which sees what `from` points to
void Fill(const takt_request* from, std::uint32_t told, Revised& to);
void Fill(const Request& from, takt_request& to);  // which points into `from`
void Fill(const takt_instance* from, Instance& to);
void Fill(const takt_stage& from, WorkflowStage& to);
void Fill(const takt_workflow* from, Workflow& to);

// Which is no event in C, since it holds tables. Fills `to` where it can be meant.
takt_status Take(const takt_epoch* from, Epoch& to);

takt_fault FaultOf(const Fault& fault, std::uint64_t count);
NextCall Of(const takt_next_call& call);
takt_estimate Of(const Estimate& estimate);
StepLimits Of(const takt_limits& limits);

// Whether a variant has the alternative.
template <class E, class V>
inline constexpr bool kHolds = false;
template <class E, class... Es>
inline constexpr bool kHolds<E, std::variant<Es...>> = (std::same_as<E, Es> || ...);

// Calls f with the type of each event, as a null pointer; `otherwise` for a number that is none.
template <class F, class T>
T OfType(std::uint32_t type, T otherwise, F&& f) {
  const auto as = [&]<class E>() { return f(static_cast<const E*>(nullptr)); };
  switch (type) {
    case TAKT_EVENT_ARRIVED: return as.template operator()<Arrived>();
    case TAKT_EVENT_REVISED: return as.template operator()<Revised>();
    case TAKT_EVENT_BLOCKED: return as.template operator()<Blocked>();
    case TAKT_EVENT_UNBLOCKED: return as.template operator()<Unblocked>();
    case TAKT_EVENT_TOOL_CALLED: return as.template operator()<ToolCalled>();
    case TAKT_EVENT_TOOL_RETURNED: return as.template operator()<ToolReturned>();
    case TAKT_EVENT_CANCELLED: return as.template operator()<Cancelled>();
    case TAKT_EVENT_MOVE_DONE: return as.template operator()<MoveDone>();
    case TAKT_EVENT_DRAIN: return as.template operator()<Drain>();
    case TAKT_EVENT_KV_FREED: return as.template operator()<KvFreed>();
    case TAKT_EVENT_NOT_READY: return as.template operator()<NotReady>();
    case TAKT_EVENT_KV_ARRIVED: return as.template operator()<KvArrived>();
    case TAKT_EVENT_KV_LOST: return as.template operator()<KvLost>();
    case TAKT_EVENT_KV_PINNED: return as.template operator()<KvPinned>();
    case TAKT_EVENT_TURN_ENDED: return as.template operator()<TurnEnded>();
    case TAKT_EVENT_TURN_EXPECTED: return as.template operator()<TurnExpected>();
    case TAKT_EVENT_REQUEST_STARTED: return as.template operator()<RequestStarted>();
    case TAKT_EVENT_REQUEST_SERVED: return as.template operator()<RequestServed>();
    case TAKT_EVENT_REQUEST_ENDED: return as.template operator()<RequestEnded>();
    case TAKT_EVENT_INSTANCE_UP: return as.template operator()<InstanceUp>();
    case TAKT_EVENT_INSTANCE_DOWN: return as.template operator()<InstanceDown>();
    case TAKT_EVENT_INSTANCE_REPORTED: return as.template operator()<InstanceReported>();
    case TAKT_EVENT_WORKFLOW_DECLARED: return as.template operator()<WorkflowDeclared>();
    case TAKT_EVENT_WORKFLOW_GROWN: return as.template operator()<WorkflowGrown>();
    case TAKT_EVENT_STAGE_ENDED: return as.template operator()<StageEnded>();
    case TAKT_EVENT_WORKFLOW_ENDED: return as.template operator()<WorkflowEnded>();
    default: return otherwise;
  }
}

// What an event holds besides numbers that may be anything.
template <class E>
takt_status SoundAs(const E*, const takt_event& e) {
  if constexpr (std::same_as<E, Arrived>) return Sound(e.u.arrived.request);
  if constexpr (std::same_as<E, Revised>) {
    const bool known = e.u.revised.told < 2 * TAKT_TOLD_NEXT_CALL;
    return FirstOf(Meant(known && e.u.revised.reserved == 0), Sound(e.u.revised.request));
  }
  if constexpr (std::same_as<E, ToolCalled>) return Meant(e.u.tool_called.reserved == 0);
  if constexpr (std::same_as<E, ToolReturned>) return Meant(e.u.tool_returned.reserved == 0);
  if constexpr (std::same_as<E, Unblocked> || std::same_as<E, KvArrived> || std::same_as<E, KvLost>) {
    return Meant(e.u.kv.reserved == 0);
  }
  if constexpr (std::same_as<E, TurnEnded>) {
    const auto& turn = e.u.turn_ended;
    return Meant(turn.why <= TAKT_TURN_OVER && turn.reserved == 0 && turn.expected >= 0 && turn.pin >= 0);
  }
  if constexpr (std::same_as<E, MoveDone>) return Meant(e.u.move_done.reserved == 0);
  if constexpr (std::same_as<E, InstanceUp>) return Sound(e.u.instance_up.instance);
  if constexpr (std::same_as<E, StageEnded>) return Meant(e.u.stage_ended.reserved == 0);
  if constexpr (std::same_as<E, WorkflowEnded>) return Meant(e.u.workflow_ended.reserved == 0);
  if constexpr (std::same_as<E, WorkflowDeclared>) return Sound(e.u.workflow_declared.workflow);
  if constexpr (std::same_as<E, WorkflowGrown>) {
    return FirstOf(Sound(e.u.workflow_grown.stage), Given(e.u.workflow_grown.before, e.u.workflow_grown.n_before));
  }
  return TAKT_OK;
}

// Whether all of a batch are events of V, and well formed.
template <class V>
takt_status Sound(const takt_event* events, std::size_t n) {
  if (const takt_status status = Given(events, n); status != TAKT_OK) return status;
  for (std::size_t i = 0; i < n; ++i) {
    const takt_event& e = events[i];
    if (e.reserved != 0) return TAKT_E_INVALID;
    const takt_status status = OfType(e.type, takt_status{TAKT_E_INVALID}, [&]<class E>(const E* as) -> takt_status {
      if constexpr (kHolds<E, V>) {
        return SoundAs(as, e);
      } else {
        return TAKT_E_INVALID;
      }
    });
    if (status != TAKT_OK) return status;
  }
  return TAKT_OK;
}

void Fill(const takt_event& from, Arrived& to);
void Fill(const takt_event& from, Revised& to);
void Fill(const takt_event& from, Blocked& to);
void Fill(const takt_event& from, Unblocked& to);
void Fill(const takt_event& from, NotReady& to);
void Fill(const takt_event& from, KvArrived& to);
void Fill(const takt_event& from, KvLost& to);
void Fill(const takt_event& from, KvPinned& to);
void Fill(const takt_event& from, TurnEnded& to);
void Fill(const takt_event& from, TurnExpected& to);
void Fill(const takt_event& from, ToolCalled& to);
void Fill(const takt_event& from, ToolReturned& to);
void Fill(const takt_event& from, Cancelled& to);
void Fill(const takt_event& from, MoveDone& to);
void Fill(const takt_event& from, KvFreed& to);
void Fill(const takt_event& from, Drain& to);
void Fill(const takt_event& from, RequestStarted& to);
void Fill(const takt_event& from, RequestServed& to);
void Fill(const takt_event& from, RequestEnded& to);
void Fill(const takt_event& from, InstanceUp& to);
void Fill(const takt_event& from, InstanceDown& to);
void Fill(const takt_event& from, InstanceReported& to);
void Fill(const takt_event& from, WorkflowDeclared& to);
void Fill(const takt_event& from, WorkflowGrown& to);
void Fill(const takt_event& from, StageEnded& to);
void Fill(const takt_event& from, WorkflowEnded& to);

// Calls f(V&&) with each of a batch that is Sound.
template <class V, class F>
void ForEach(const takt_event* events, std::size_t n, F&& f) {
  for (std::size_t i = 0; i < n; ++i) {
    OfType(events[i].type, 0, [&]<class E>(const E*) {
      if constexpr (kHolds<E, V>) {
        V event(std::in_place_type<E>);
        Fill(events[i], *std::get_if<E>(&event));
        f(std::move(event));
      }
      return 0;
    });
  }
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_EVENTS_H_
