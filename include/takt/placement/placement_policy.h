// What a placement policy is: a value with a score, and what else it may want to be told.
#ifndef TAKT_PLACEMENT_PLACEMENT_POLICY_H_
#define TAKT_PLACEMENT_PLACEMENT_POLICY_H_

#include <concepts>
#include <cstdint>

#include "takt/model/instance.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Answers: which instance? Larger is better, the smaller instance id among equals; NaN and -infinity mean "not here
// now", and a request that no instance wants now waits in the router's queue. Only instances with room are asked
// about.
template <class P>
concept PlacementPolicy =
    requires(const P& p, const RequestState& request, const InstanceState& instance, TimePoint now) {
      { p.Score(request, instance, now) } -> std::same_as<double>;
    };

// Optional hooks, for policies that keep accounts of their own: by RequestState::slot and InstanceState::slot. Score
// and Prepare are also asked about requests that the router does not know, whose slot is kNoSlot.

// What keys the hashes of names that strangers may choose, before anything else.
template <class P>
concept HashingPlacement = requires(P& p, std::uint64_t seed) { p.KeyHashes(seed); };
// Every event that the router does not ignore as late, of an unknown instance or invalid, before the router acts on it.
// Requests may be unknown. With Epoch as the second parameter, the tables that it brings.
template <class P, class Told = RouterEvent>
concept ObservingPlacement = requires(P& p, const Told& told, TimePoint now) { p.Observe(told, now); };
// Once before the scores of a request: what is the same for all instances.
template <class P>
concept PreparingPlacement = requires(P& p, const RequestState& r, TimePoint now) { p.Prepare(r, now); };
// The instance is up with this slot, or its description was replaced.
template <class P>
concept InstancePlacement = requires(P& p, const InstanceState& i, TimePoint now) { p.Up(i, now); };
// A request was placed; its first step has begun; it has left: ended, cancelled, or back because the instance is gone.
template <class P>
concept AccountingPlacement = requires(P& p, const RequestState& r, const InstanceState& i, TimePoint now) {
  p.Placed(r, i, now);
  p.Released(r, i, now);
};
template <class P>
concept StartingPlacement =
    requires(P& p, const RequestState& r, const InstanceState& i, TimePoint now) { p.Started(r, i, now); };

}  // namespace takt

#endif  // TAKT_PLACEMENT_PLACEMENT_POLICY_H_
