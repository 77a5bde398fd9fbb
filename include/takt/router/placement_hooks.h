// Gives a placement empty versions of the hooks that it lacks.
#ifndef TAKT_ROUTER_PLACEMENT_HOOKS_H_
#define TAKT_ROUTER_PLACEMENT_HOOKS_H_

#include <cstdint>
#include <utility>

#include "takt/placement/placement_policy.h"

namespace takt::internal {

// Invariant: each call invokes each hook of the placement at most once.
template <PlacementPolicy Placer>
class PlacementHooks {
 public:
  explicit PlacementHooks(Placer placer) : placer_(std::move(placer)) {}

  void KeyHashes([[maybe_unused]] std::uint64_t seed) {
    if constexpr (HashingPlacement<Placer>) placer_.KeyHashes(seed);
  }
  void Observe([[maybe_unused]] const RouterEvent& event, [[maybe_unused]] TimePoint now) {
    if constexpr (ObservingPlacement<Placer>) placer_.Observe(event, now);
  }
  void Observe([[maybe_unused]] const Epoch& epoch, [[maybe_unused]] TimePoint now) {
    if constexpr (ObservingPlacement<Placer, Epoch>) placer_.Observe(epoch, now);
  }
  void Up([[maybe_unused]] const InstanceState& i, [[maybe_unused]] TimePoint now) {
    if constexpr (InstancePlacement<Placer>) placer_.Up(i, now);
  }
  void Prepare([[maybe_unused]] const RequestState& r, [[maybe_unused]] TimePoint now) {
    if constexpr (PreparingPlacement<Placer>) placer_.Prepare(r, now);
  }
  // Returns the tokens of the prepared request in the instance's cache; 0 if the placement does not know.
  std::int64_t CachedTokens([[maybe_unused]] const InstanceState& i) const {
    if constexpr (CachingPlacement<Placer>) return placer_.CachedTokens(i);
    return 0;
  }
  bool scores_compare() const { return ScoresCompare(placer_); }
  bool goes_by_service() const { return GoesByService(placer_); }
  double Score(const RequestState& r, const InstanceState& i, TimePoint now) const { return placer_.Score(r, i, now); }
  void Placed([[maybe_unused]] const RequestState& r, [[maybe_unused]] const InstanceState& i,
              [[maybe_unused]] TimePoint now) {
    if constexpr (AccountingPlacement<Placer>) placer_.Placed(r, i, now);
  }
  void Started([[maybe_unused]] const RequestState& r, [[maybe_unused]] const InstanceState& i,
               [[maybe_unused]] TimePoint now) {
    if constexpr (StartingPlacement<Placer>) placer_.Started(r, i, now);
  }
  void Released([[maybe_unused]] const RequestState& r, [[maybe_unused]] const InstanceState& i,
                [[maybe_unused]] TimePoint now) {
    if constexpr (AccountingPlacement<Placer>) placer_.Released(r, i, now);
  }

 private:
  Placer placer_;
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_PLACEMENT_HOOKS_H_
