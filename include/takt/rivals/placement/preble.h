// Preble's exploit and explore: the longest match if it covers most of the prompt, else the least work.
#ifndef TAKT_RIVALS_PLACEMENT_PREBLE_H_
#define TAKT_RIVALS_PLACEMENT_PREBLE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>
#include <string_view>

#include "takt/base/exact_math.h"
#include "takt/base/spec.h"
#include "takt/placement/books/residence.h"

namespace takt {

// If more than half of the prompt is cached on an instance, chooses the longest match, unless its load exceeds
// `rebalance` times the least load. Otherwise chooses the least sum of load and cost of evicted KV. Load: seconds of
// prefill placed, with a decay of exp(-t / `window_s`). Departures: load decays instead of being a sliding window.
// Decode is left out, because its cost is the same on each instance.
class PreblePlacement : public Residence {
 public:
  static constexpr std::string_view kName = "preble";

  double window_s = 180;
  double rebalance = 1.5;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("window_s", self.window_s, OptionText{"s", "time for which placed work counts as load", 1e-3, 1e9});
    visit("rebalance", self.rebalance,
          OptionText{"", "ratio to the least load above which a match is ignored", 1, 1e9});
  }

  void Prepare(const RequestState& r, TimePoint now) {
    Residence::Prepare(r, now);
    least_load_ = std::numeric_limits<double>::infinity();
    for (std::uint32_t s = 0; s < loads_.size(); ++s) {
      if (IsUp(s)) least_load_ = std::min(least_load_, LoadAt(s, now));
    }
    if (!(least_load_ < std::numeric_limits<double>::infinity())) least_load_ = 0;
  }
  void Up(const InstanceState& i, TimePoint now) {
    Residence::Up(i, now);
    if (i.slot >= loads_.size()) loads_.resize(i.slot + std::size_t{1});
  }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint now) {
    if (i.slot < loads_.size()) loads_[i.slot] = {LoadAt(i.slot, now) + PrefillSeconds(i.slot), now};
    Residence::Placed(r, i, now);
  }

  double Score(const RequestState&, const InstanceState& i, TimePoint now) const {
    const double load = LoadAt(i.slot, now);
    const bool crowded = load > Rounded(rebalance * least_load_) + 1;
    if (Match(i.slot) > 0.5 && !crowded) return 0x1p40 + Cached(i.slot);
    return -(load + PrefillSeconds(i.slot) + DisplacedSeconds(i.slot, Duration::max()));
  }

 private:
  struct Load {
    double seconds = 0;
    TimePoint at{};
  };
  double LoadAt(std::uint32_t slot, TimePoint now) const {
    if (slot >= loads_.size()) return 0;
    const double age = std::max(ToSeconds(Between(loads_[slot].at, now)), 0.0);
    return Rounded(loads_[slot].seconds * exact::Exp(-age / window_s));
  }

  std::vector<Load> loads_;  // by slot
  double least_load_ = 0;
};

}  // namespace takt

#endif  // TAKT_RIVALS_PLACEMENT_PREBLE_H_
