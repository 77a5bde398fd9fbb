// The time of the current request on each instance, computed once per profile.
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

// Placements that use this call it from Up and Prepare. If an instance has neither a measured time nor a cost model, a
// token takes 1 ms.
class CallCosts {
 public:
  static constexpr std::int64_t kUnknownOutput = 256;  // assumed output tokens of a call without an estimate and a cap

  explicit CallCosts(std::shared_ptr<const StageTimes> measured = nullptr) : measured_(std::move(measured)) {}

  // Returns the estimated output, at most the cap and at most a million tokens.
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

  // Returns the time of the prepared request on the instance; at least 1 ns.
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

  // An instance that is down keeps its profile until its slot is reused. So there are at most as many profiles as
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
