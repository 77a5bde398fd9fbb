// The instance with the least KV memory to spare that is enough.
#ifndef TAKT_PLACEMENT_BEST_FIT_H_
#define TAKT_PLACEMENT_BEST_FIT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "takt/base/id_map.h"
#include "takt/base/spec.h"
#include "takt/placement/placement_policy.h"

namespace takt {

// To spare: the KV cache less what the newest report says is used and less the prompts placed since. Enough: for the
// prompt and the expected output (the median of its estimate; none: `output_tokens`). Where none has enough, the one
// that lacks least; where the KV cache is not told, it always suffices, and such instances come last.
// Source: Parrot (Lin et al., OSDI 2024), whose scheduler gives a request to the engine that it fits best.
class BestFit {
 public:
  static constexpr std::string_view kName = "best_fit";

  double output_tokens = 200;

  void Observe(const RouterEvent& event, TimePoint) {
    if (const auto* told = std::get_if<InstanceReported>(&event)) {
      if (const std::uint32_t slot = slot_of_.Find(told->instance.value); slot != kNoSlot) since_[slot] = 0;
    }
    if (const auto* down = std::get_if<InstanceDown>(&event)) slot_of_.Erase(down->instance.value);
  }
  void Up(const InstanceState& i, TimePoint) {
    if (i.slot >= since_.size()) since_.resize(std::size_t{i.slot} + 1);
    if (slot_of_.Insert(i.instance.id.value, i.slot)) since_[i.slot] = 0;
  }
  void Placed(const RequestState& r, const InstanceState& i, TimePoint) {
    since_[i.slot] += r.request.prompt_tokens.value;
  }
  void Released(const RequestState&, const InstanceState&, TimePoint) {}  // the next report tells

  double Score(const RequestState& r, const InstanceState& i, TimePoint) const {
    if (i.instance.kv_tokens.value == 0) return kUnbounded;
    const Estimate& output = r.request.output_tokens;
    const double wanted = r.request.prompt_tokens.value + (output.known() ? output.Quantile(0.5) : output_tokens);
    const double spare =
        static_cast<double>(i.instance.kv_tokens.value - i.report.kv_used.value - since_[i.slot]) - wanted;
    return spare >= 0 ? -spare : 2 * kUnbounded + spare;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("output_tokens", self.output_tokens, OptionText{"tokens", "output of a request of which nothing is known"});
  }

 private:
  static constexpr double kUnbounded = -1e12;

  std::vector<std::int64_t> since_;  // by instance: tokens of prompts placed there since its newest report
  IdMap slot_of_;
};

}  // namespace takt

#endif  // TAKT_PLACEMENT_BEST_FIT_H_
