// HexGen-Flow's dispatch as in its authors' simulator, which differs from equation 4 (workload_balance.h).
#ifndef TAKT_RIVALS_PLACEMENT_CODE_RATIO_H_
#define TAKT_RIVALS_PLACEMENT_CODE_RATIO_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "takt/base/rounded.h"
#include "takt/model/instance.h"
#include "takt/base/spec.h"
#include "takt/placement/books/call_costs.h"

namespace takt {

// From the simulator of Peng et al. (2025), commit 7770ec9. t(i): time of the call on instance i. W(i): all work ever
// sent to i, done or not. Instance 0 has the smallest id.
//
//  score(i) = alpha t(0) / t(i) - (1 - alpha) k(i) W(i) / W(0)
//
// k is 1/2 if the profile's name contains A6000, L40 or L40S, else 1. Instance 0 is chosen until it has work. Queues,
// memory and time are ignored. W(i) is reset if the instance goes down.
class CodeRatio {
 public:
  static constexpr std::string_view kName = "code_ratio";

  double alpha = 0.2;

  CodeRatio() = default;
  explicit CodeRatio(double weight, std::shared_ptr<const StageTimes> measured = nullptr)
      : alpha(weight), costs_(std::move(measured)) {}

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("alpha", self.alpha, OptionText{"", "1: only speed counts; 0: only work sent", 0, 1});
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint) const {
    if (i.slot >= sent_.size()) return 0;
    const Sent& first = sent_[first_];
    if (!(first.seconds > 0)) return i.slot == first_ ? 1 : 0;
    const double k = sent_[i.slot].halved ? 0.5 : 1;
    const double speed = ToSeconds(first_time_) / ToSeconds(costs_.On(i));
    return Rounded(alpha * speed) - Rounded((1 - alpha) * k * (sent_[i.slot].seconds / first.seconds));
  }

  void Observe(const Epoch& epoch, TimePoint) {
    if (epoch.alpha && *epoch.alpha >= 0 && *epoch.alpha <= 1) alpha = *epoch.alpha;
  }
  void Observe(const RouterEvent& event, TimePoint) {
    if (const auto* down = std::get_if<InstanceDown>(&event)) {
      for (Sent& s : sent_) {
        if (s.instance == down->instance) s = {};
      }
      FindFirst();
    }
  }

  void Up(const InstanceState& i, TimePoint) {
    costs_.Up(i);
    if (i.slot >= sent_.size()) sent_.resize(i.slot + 1);
    sent_[i.slot].instance = i.instance.id;
    sent_[i.slot].halved = i.profile != nullptr && Halved(i.profile->name);
    FindFirst();
  }

  void Prepare(const RequestState& r, TimePoint) {
    costs_.Prepare(r);
    first_time_ = costs_.OnSlot(first_);
  }

  void Placed(const RequestState&, const InstanceState& i, TimePoint) {
    sent_[i.slot].seconds += ToSeconds(costs_.On(i));
  }
  void Released(const RequestState&, const InstanceState&, TimePoint) {}

 private:
  struct Sent {
    InstanceId instance;  // instance in the slot; none: the slot is free
    double seconds = 0;
    bool halved = false;
  };

  static bool Halved(std::string_view profile) {
    std::string lower(profile);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return lower.find("a6000") != std::string::npos || lower.find("l40") != std::string::npos;
  }

  void FindFirst() {
    const auto id = [](const Sent& s) { return s.instance ? s.instance.value : UINT64_MAX; };
    const auto first = std::ranges::min_element(sent_, {}, id);
    first_ = first == sent_.end() ? 0 : static_cast<std::uint32_t>(first - sent_.begin());
  }

  CallCosts costs_;
  std::vector<Sent> sent_;  // by slot
  std::uint32_t first_ = 0;  // slot of the instance of smallest id
  Duration first_time_{1};  // time of the current request on the instance of smallest id
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_CODE_RATIO_H_
