// Converts events of the C interface into C++ events.
#ifndef TAKT_SRC_C_EVENTS_H_
#define TAKT_SRC_C_EVENTS_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "c/convert.h"
#include "takt/model/event.h"
#include "takt/model/fault.h"
#include "takt/model/instance.h"
#include "takt/model/step.h"

namespace takt::c {

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

takt_status SoundToRank(const takt_request* request);  // of a request that need not arrive

// Fills `to` from Sound structs. `to` must have its defaults.
inline void Fill(const takt_request* from, Request& to) { IntoCxx().Struct(from, to); }  // `to` points into `from`
inline void Fill(const takt_request* from, std::uint32_t fields, Revised& to) { IntoCxx().Revision(from, fields, to); }
void Fill(const Request& from, takt_request& to);  // `to` points into `from`

// Converts an epoch, which is no event in C because it holds tables. Fills `to` if the epoch is valid.
takt_status Take(const takt_epoch* from, Epoch& to);

takt_fault FaultOf(const Fault& fault, std::uint64_t count);
StepLimits Of(const takt_limits& limits);

// True if a variant has the alternative.
template <class E, class V>
inline constexpr bool kHolds = false;
template <class E, class... Es>
inline constexpr bool kHolds<E, std::variant<Es...>> = (std::same_as<E, Es> || ...);

// Checks that all events of a batch are events of V and well formed.
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

// Calls f(V&&) with each event of a Sound batch.
template <class V, class F>
void ForEach(const takt_event* events, std::size_t n, F&& f) {
  for (std::size_t i = 0; i < n; ++i) {
    OfType(events[i].type, 0, [&]<class E>(const E*) {
      if constexpr (kHolds<E, V>) {
        V event(std::in_place_type<E>);
        Pair(IntoCxx(), events[i], *std::get_if<E>(&event));
        f(std::move(event));
      }
      return 0;
    });
  }
}

}  // namespace takt::c

#endif  // TAKT_SRC_C_EVENTS_H_
