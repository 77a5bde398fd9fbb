// The concepts of a placement policy: a value with a score, and optional hooks.
#ifndef TAKT_PLACEMENT_PLACEMENT_POLICY_H_
#define TAKT_PLACEMENT_PLACEMENT_POLICY_H_

#include <concepts>
#include <cstdint>

#include "takt/model/instance.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// Scores instances for a request. The largest score wins; ties go to the smaller instance id. NaN and -infinity exclude
// the instance for now. If no instance accepts it, the request waits in the router. Only instances with room are
// scored.
template <class P>
concept PlacementPolicy =
    requires(const P& p, const RequestState& request, const InstanceState& instance, TimePoint now) {
      { p.Score(request, instance, now) } -> std::same_as<double>;
    };

// Returns true if differences of scores mean differences of quality. A policy that draws or takes turns declares
// `static constexpr bool kScoresCompare = false;`.
template <class P>
constexpr bool ScoresCompare(const P& policy) {
  if constexpr (requires { P::kScoresCompare; }) return P::kScoresCompare;
  if constexpr (requires { policy.scores_compare(); }) return policy.scores_compare();
  return true;
}

// Returns true if the policy needs RequestServed, as InstanceState::pending_prefill does. Such a policy declares
// `static constexpr bool kGoesByService = true;`.
template <class P>
constexpr bool GoesByService(const P& policy) {
  if constexpr (requires { P::kGoesByService; }) return P::kGoesByService;
  if constexpr (requires { policy.goes_by_service(); }) return policy.goes_by_service();
  return false;
}

// Optional hooks, for policies that keep state by RequestState::slot and InstanceState::slot. Score and Prepare are
// also called for requests that the router does not know; their slot is kNoSlot.

// Sets the seed for hashes of names that clients choose, before any other call.
template <class P>
concept HashingPlacement = requires(P& p, std::uint64_t seed) { p.KeyHashes(seed); };
// Receives every event before the router acts on the event. Does not receive events that the router ignores: late,
// invalid, or of an unknown instance. Requests may be unknown. With Epoch as the second parameter, receives its tables.
template <class P, class E = RouterEvent>
concept ObservingPlacement = requires(P& p, const E& event, TimePoint now) { p.Observe(event, now); };
// Prepare is called once before the scores of a request, for work that is the same for all instances.
template <class P>
concept PreparingPlacement = requires(P& p, const RequestState& r, TimePoint now) { p.Prepare(r, now); };
// Returns the estimated tokens of the prepared request in the instance's prefix cache, for the choice between a
// transfer of KV and a prefill (RouterOptions::local_tokens).
template <class P>
concept CachingPlacement = requires(const P& p, const InstanceState& i) {
  { p.CachedTokens(i) } -> std::same_as<std::int64_t>;
};
// Up is called when an instance comes up with this slot, or its description is replaced.
template <class P>
concept InstancePlacement = requires(P& p, const InstanceState& i, TimePoint now) { p.Up(i, now); };
// Hooks for a request that was placed, whose first step has begun, or that has left. A request leaves when it ends, is
// cancelled, or its instance goes down.
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
