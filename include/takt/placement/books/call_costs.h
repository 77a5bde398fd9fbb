// What the request at hand would take on each instance: computed once per profile, then looked up.
#ifndef TAKT_PLACEMENT_BOOKS_CALL_COSTS_H_
#define TAKT_PLACEMENT_BOOKS_CALL_COSTS_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "takt/base/slot.h"
#include "takt/model/call_time.h"
#include "takt/model/stage_times.h"
#include "takt/state/instance_state.h"
#include "takt/state/request_state.h"

namespace takt {

// For placements that keep one: pass on Up and Prepare, then ask. Where neither a measured stage nor a cost model says
// what a call takes, a token takes a millisecond, so that instances which are not described all look alike.
class CallCosts {
 public:
  static constexpr std::int64_t kUnknownOutput = 256;  // tokens, where no estimate is known and no cap is told

  explicit CallCosts(std::shared_ptr<const StageTimes> measured = nullptr) : measured_(std::move(measured)) {}

  // As estimated, never above the cap and never above a million.
  static std::int64_t OutputTokens(const Request& r) {
    const double tokens = r.output_tokens.known() ? r.output_tokens.mean : kUnknownOutput;
    const double cap = r.max_output_tokens.value > 0 ? r.max_output_tokens.value : 1e6;
    return static_cast<std::int64_t>(std::min(tokens, cap) + 0.5);
  }

  void Up(const InstanceState& i) {
    if (i.slot >= profile_of_.size()) profile_of_.resize(i.slot + 1, kNoSlot);
    if (profile_of_[i.slot] != kNoSlot) --profiles_[profile_of_[i.slot]].instances;
    profile_of_[i.slot] = FindOrAdd(i.profile);
    ++profiles_[profile_of_[i.slot]].instances;
  }

  void Prepare(const RequestState& r) {
    for (Profile& p : profiles_) {
      if (p.instances > 0) p.time = Of(r.request, p);
    }
  }

  // Of the request that was prepared. At least a nanosecond.
  Duration On(const InstanceState& i) const { return OnSlot(i.slot); }
  Duration OnSlot(std::uint32_t slot) const {
    return slot < profile_of_.size() && profile_of_[slot] != kNoSlot ? profiles_[profile_of_[slot]].time : Duration(1);
  }

 private:
  struct Profile {
    InstanceProfile of;
    std::int64_t instances = 0;
    Duration time{1};
  };

  // Instances that go down are counted until their slot is given out again, so that there are never more profiles than
  // slots.
  std::uint32_t FindOrAdd(const InstanceProfile* of) {
    const InstanceProfile unknown;
    const InstanceProfile& profile = of != nullptr ? *of : unknown;
    std::size_t unused = profiles_.size();
    for (std::size_t p = 0; p < profiles_.size(); ++p) {
      if (profiles_[p].of == profile) return static_cast<std::uint32_t>(p);
      if (profiles_[p].instances == 0) unused = p;
    }
    if (unused == profiles_.size()) profiles_.emplace_back();
    profiles_[unused] = {profile};
    return static_cast<std::uint32_t>(unused);
  }

  Duration Of(const Request& r, const Profile& p) const {
    const Duration* measured = measured_ != nullptr ? measured_->Find(r.stage, p.of.name) : nullptr;
    if (measured != nullptr) return std::max(*measured, Duration(1));
    const std::int64_t output = OutputTokens(r);
    if (p.of.cost != nullptr) return std::max(CallTime(*p.of.cost, r.prompt_tokens.value, output), Duration(1));
    return std::chrono::milliseconds(r.prompt_tokens.value + std::max<std::int64_t>(output, 1));
  }

  std::shared_ptr<const StageTimes> measured_;
  std::vector<Profile> profiles_;
  std::vector<std::uint32_t> profile_of_;  // by slot
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_BOOKS_CALL_COSTS_H_
