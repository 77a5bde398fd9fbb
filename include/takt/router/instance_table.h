// The instances of a router that are up.
#ifndef TAKT_ROUTER_INSTANCE_TABLE_H_
#define TAKT_ROUTER_INSTANCE_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include "takt/base/id.h"
#include "takt/model/instance.h"
#include "takt/state/call_desk.h"
#include "takt/state/instance_state.h"

namespace takt::internal {

// Invariant: instances are ordered by id. Each instance has a unique slot. Slots are less than the largest number of
// instances that were up at once. Lives are between 1 and newest_life(). `apart_` is the number of instances that serve
// one phase.
class InstanceTable {
 public:
  ProfileId AddProfile(InstanceProfile profile) {
    auto at = std::ranges::find(profiles_, profile);
    if (at == profiles_.end()) at = profiles_.insert(at, std::move(profile));
    return {static_cast<std::uint64_t>(at - profiles_.begin()) + 1};
  }
  bool Has(ProfileId profile) const { return profile.value <= profiles_.size(); }  // also true without a profile

  std::span<InstanceState> all() { return up_; }
  std::span<const InstanceState> all() const { return up_; }
  bool apart() const { return apart_ > 0; }  // true: an instance for prefill or for decode is up
  bool was_apart() const { return was_apart_; }  // true: such an instance is up, or was
  std::uint64_t newest_life() const { return newest_life_; }  // maximum life of any instance so far

  // Returns null if the instance is not up.
  InstanceState* Find(InstanceId id) {
    const auto at = LowerBound(id);
    return at != up_.end() && IdOf(*at) == id ? &*at : nullptr;
  }

  // Returns the c-th candidate of a call, or null if it is not up. O(1) if the previous call had the same candidates.
  const InstanceState* Candidate(std::size_t c, InstanceId id) {
    if (c >= candidate_at_.size()) return Find(id);
    std::uint32_t& at = candidate_at_[c];
    if (at < up_.size() && IdOf(up_[at]) == id) return &up_[at];
    const InstanceState* found = Find(id);
    if (found != nullptr) at = static_cast<std::uint32_t>(found - up_.data());
    return found;
  }

  void MakeRoomForOne() { MakeRoom(up_, 1), MakeRoom(candidate_at_, 1), MakeRoom(free_slots_, 1); }

  // Adds or updates an instance. Returns the instance, and true if it is new. An instance that was up keeps its life,
  // and gets the new description.
  std::pair<InstanceState*, bool> Up(const Instance& instance) {
    const ProfileId named = instance.profile;
    const InstanceProfile* profile = named ? &profiles_[named.value - 1] : nullptr;
    auto at = LowerBound(instance.id);
    if (at != up_.end() && IdOf(*at) == instance.id) {
      const std::uint64_t life = at->instance.life;
      at->instance = instance, at->profile = profile;
      at->instance.life = life;
      return {&*at, false};
    }
    if (free_slots_.empty()) free_slots_.push_back(static_cast<std::uint32_t>(up_.size()));
    at = up_.insert(at, {.instance = instance, .profile = profile, .slot = free_slots_.back()});
    free_slots_.pop_back();
    if (instance.role != InstanceRole::kBoth) ++apart_, was_apart_ = true;
    if (at->instance.life == 0) at->instance.life = newest_life_ + (newest_life_ < UINT64_MAX ? 1 : 0);
    newest_life_ = std::max(newest_life_, at->instance.life);
    if (candidate_at_.size() < up_.size()) candidate_at_.push_back(0);
    return {&*at, true};
  }

  InstanceState Remove(InstanceId id) {
    const auto at = LowerBound(id);
    InstanceState gone = std::move(*at);
    free_slots_.push_back(gone.slot);
    apart_ -= gone.instance.role != InstanceRole::kBoth ? 1 : 0;
    up_.erase(at);
    return gone;
  }

  static InstanceId IdOf(const InstanceState& i) { return i.instance.id; }

 private:
  std::vector<InstanceState>::iterator LowerBound(InstanceId id) { return std::ranges::lower_bound(up_, id, {}, IdOf); }

  std::deque<InstanceProfile> profiles_;  // profile of each id, at index id - 1; addresses are stable
  std::vector<InstanceState> up_;
  std::vector<std::uint32_t> candidate_at_;  // index in `up_` of the c-th candidate of the last call
  std::vector<std::uint32_t> free_slots_;  // slots of instances that went down
  std::int64_t apart_ = 0;
  bool was_apart_ = false;
  std::uint64_t newest_life_ = 0;
};

}  // namespace takt::internal

#endif  // TAKT_ROUTER_INSTANCE_TABLE_H_
