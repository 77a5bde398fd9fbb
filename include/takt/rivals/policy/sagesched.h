// SageSched: ranks by the Gittins index of a call's cost in compute and memory.
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

// Key [s]: the reciprocal of the Gittins index of the call's remaining cost. An output of o more tokens on a context of
// c costs
//
//  forward_s (u + o)  +  memory decode_s (c o + o (o + 1) / 2) / KV
//
// u: context tokens that are not computed yet. The first term is the time for which the call fills the engine's
// compute. The second term sums, over the call's decode steps, the step's time times the share of the KV cache that the
// call uses. The distribution of o is the estimate's, in ten equal parts. The last part is moved so that the mean stays
// right. Values of o below the generated tokens are cut off.
//
// A reimplementation of SageSched (Gan et al., arXiv 2603.07917) from its abstract: a predicted distribution of the
// output, a cost of compute and memory, and an uncertainty-aware order. The form of the cost, its equal weights and the
// ten parts are takt's. Keys are read when a request joins the queue.
class SageSched {
 public:
  static constexpr std::string_view kName = "sagesched";

  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4};
  double memory = 1;  // weight of the memory term
  double kv_tokens = 1e5;  // size of the KV cache until the scheduler reports it
  double unknown = 256;  // assumed output tokens of a call without a prediction

  void PlanEnds(const QueuePressure& pressure, TimePoint) {
    if (pressure.kv_tokens.value > 0) reported_kv_ = pressure.kv_tokens.value;
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
    if (weights.back() == 0) weights.back() = 1;  // longer than predicted, so assumed to end soon
    return {GittinsRank(sizes, weights)};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("decode_s", self.pace.decode_s, OptionText{"s", "time of a decode step"});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "time that a prefill token adds to a step"});
    visit("memory", self.memory, OptionText{"", "weight of memory against compute", 0, 1e6});
    visit("kv_tokens", self.kv_tokens, OptionText{"tokens", "KV cache until the scheduler reports its size", 1, 1e12});
    visit("unknown", self.unknown, OptionText{"tokens", "output without a prediction", 1, 1e9});
  }

 private:
  static constexpr std::size_t kParts = 10;
  using Parts = std::array<double, kParts>;

  double Cost(double context, double uncomputed, double output) const {
    const double kv = reported_kv_ > 0 ? reported_kv_ : kv_tokens;
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

  double reported_kv_ = 0;
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_SAGESCHED_H_
