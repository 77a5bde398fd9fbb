// One call's cost in compute and memory, ranked by the Gittins index of its predicted distribution (SageSched).
#ifndef TAKT_RIVALS_POLICY_SAGESCHED_H_
#define TAKT_RIVALS_POLICY_SAGESCHED_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/model/occupancy.h"
#include "takt/rivals/gittins.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key [s]: the reciprocal of the Gittins index of what the call has left to cost. An output of o more tokens on a
// context of c costs
//
//   forward_s (u + o)  +  memory decode_s (c o + o (o + 1) / 2) / KV
//
// u: tokens of the context that are not computed yet. That is the time for which the call fills the engine's compute,
// and the time for which it would fill all of the KV cache with what it holds, summed over its decode steps. The
// distribution of o is the estimate's, as ten equal parts whose last is moved so that the mean is the estimate's;
// what has been generated already cuts it off below.
//
// A stand-in for SageSched (Gan et al., arXiv 2603.07917), built from its abstract: a predicted distribution of the
// output, a cost of both compute and memory, an uncertainty-aware order by the distribution of the cost. The form of
// the cost, its two equal weights and the ten parts are ours; keys are read when a request joins the queue.
class SageSched {
 public:
  static constexpr std::string_view kName = "sagesched";

  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4};
  double memory = 1;       // weight of the memory's part
  double kv_tokens = 1e5;  // size of the KV cache until the scheduler tells it
  double unknown = 256;    // output tokens, where there is no prediction

  void PlanEnds(const QueuePressure& pressure, TimePoint) {
    if (pressure.kv_tokens.value > 0) kv_told_ = pressure.kv_tokens.value;
  }

  RankKey Key(const RequestState& r) const {
    const Request& q = r.request;
    const double context = q.prompt_tokens.value + r.returned.value + r.generated.value * q.sequences;
    const double uncomputed = std::max(context - r.computed.value, 0.0);
    Parts sizes = PartsOf(q.output_tokens), weights{};
    for (std::size_t i = 0; i < kParts; ++i) {
      const double left = sizes[i] - r.generated.value;
      weights[i] = left > 0 ? 1 : 0;
      sizes[i] = Cost(context, uncomputed, std::max(left, 1.0) * q.sequences);
    }
    if (weights.back() == 0) weights.back() = 1;  // longer than anyone thought: about to end
    return {GittinsRank(sizes, weights)};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("decode_s", self.pace.decode_s, OptionText{"s", "of a decode step"});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "that a token of prefill adds to a step"});
    visit("memory", self.memory, OptionText{"", "weight of memory against compute", 0, 1e6});
    visit("kv_tokens", self.kv_tokens, OptionText{"tokens", "KV cache, until the scheduler tells its size", 1, 1e12});
    visit("unknown", self.unknown, OptionText{"tokens", "output taken without a prediction", 1, 1e9});
  }

 private:
  static constexpr std::size_t kParts = 10;
  using Parts = std::array<double, kParts>;

  double Cost(double context, double uncomputed, double output) const {
    const double kv = kv_told_ > 0 ? kv_told_ : kv_tokens;
    const Occupancy cost = Occupancy::Of(pace, context, uncomputed, output, kv);
    return cost.compute_s + Rounded(memory * cost.memory_s);
  }

  Parts PartsOf(const Estimate& estimate) const {
    Parts parts;
    parts.fill(unknown);
    if (!estimate.known()) return parts;
    double sum = 0, last = 0;
    for (std::size_t i = 0; i < kParts; ++i) {
      last = std::max(last, estimate.Quantile((static_cast<double>(i) + 0.5) / kParts));
      sum += parts[i] = last;
    }
    parts.back() = std::max(last, parts.back() + Rounded(kParts * estimate.mean) - sum);
    return parts;
  }

  double kv_told_ = 0;
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_SAGESCHED_H_
