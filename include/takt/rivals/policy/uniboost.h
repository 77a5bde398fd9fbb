// UniBoost: first come, first served, with a boost for short calls.
#ifndef TAKT_RIVALS_POLICY_UNIBOOST_H_
#define TAKT_RIVALS_POLICY_UNIBOOST_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/model/occupancy.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Key [s]: arrival - boost, as if short calls had arrived earlier:
//
//  boost = 1/gamma ln(M / (M - 1)),  M = E[exp(gamma S)]
//
// S: the call's size [s] over the estimate's quantiles. The size is the time for which the call fills the engine's
// compute, plus the time for which the call would fill the KV cache (model/occupancy.h). A large gamma gives FCFS, a
// small gamma shortest first. Source of the boost: Yu and Scully, Strongly tail-optimal scheduling in the light-tailed
// M/G/1 (2024). The boost is best for the tail if gamma is the decay rate of the response time.
//
// If gamma is 0, it is learnt: 1 / mean(response time minus the call's own steps). The mean covers about the last
// `memory` calls and is at least `floor` seconds. In heavy traffic, the learnt gamma is the decay rate.
//
// A reimplementation of UniBoost (Li et al., arXiv 2606.18431) from its abstract and project page: a soft boost with
// one parameter gamma between FCFS and SJF, driven by statistics instead of predictions. The boost function, the learnt
// gamma and the constants are takt's. UniBoost's KV-aware preemption is left out. Estimates may be class means, so no
// prediction is needed.
class UniBoost {
 public:
  static constexpr std::string_view kName = "uniboost";

  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4};
  double gamma = 0;  // decay rate [1/s]; 0: learnt
  double floor = 1;  // minimum of the mean from which gamma is learnt [s]
  double memory = 256;  // number of calls that the mean covers
  double kv_tokens = 1e5;  // size of the KV cache until the scheduler reports it
  double unknown = 256;  // assumed output tokens of a call without a prediction

  void PlanEnds(const QueuePressure& pressure, TimePoint) {
    if (pressure.kv_tokens.value > 0) reported_kv_ = pressure.kv_tokens.value;
  }

  // Boosts are computed once, so that a key does not change with gamma.
  void Reserve(std::size_t requests) { boosts_.reserve(requests); }
  void Enters(const RequestState& r, TimePoint) {
    if (boosts_.size() <= r.slot) boosts_.resize(r.slot + 1);
    boosts_[r.slot] = Boost(r.request);
  }
  void Ends(const RequestState& r, TimePoint now) {
    if (!r.has_run) return;
    const double own =
        Rounded(pace.forward_s * r.request.prompt_tokens.value) + Rounded(pace.decode_s * r.generated.value);
    const double waited = std::clamp(ToSeconds(Between(r.request.arrival, now)) - own, 0.0, kLongest);
    ++ended_;
    excess_ += (waited - excess_) / std::min(ended_, std::max(memory, 1.0));
  }

  RankKey Key(const RequestState& r) const {
    return {ToSeconds(r.request.arrival) - (r.slot < boosts_.size() ? boosts_[r.slot] : Boost(r.request))};
  }
  double Gamma() const { return gamma > 0 ? gamma : 1 / std::max({excess_, floor, 1e-3}); }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("decode_s", self.pace.decode_s, OptionText{"s", "time of a decode step"});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "time that a prefill token adds to a step"});
    visit("gamma", self.gamma, OptionText{"1/s", "large: FCFS; small: shortest first; 0: learnt", 0, 1e6});
    visit("floor", self.floor, OptionText{"s", "minimum mean wait from which gamma is learnt", 1e-3, 1e6});
    visit("memory", self.memory, OptionText{"calls", "calls in the mean wait", 1, 1e9});
    visit("kv_tokens", self.kv_tokens, OptionText{"tokens", "KV cache until the scheduler reports its size", 1, 1e12});
    visit("unknown", self.unknown, OptionText{"tokens", "output without a prediction", 1, 1e9});
  }

 private:
  static constexpr double kLongest = 1e6;  // maximum counted wait [s]
  static constexpr double kMost = 1e9;  // maximum boost [s]

  double Size(const Request& q, double output) const {
    const double prompt = q.prompt_tokens.value;
    const double kv = reported_kv_ > 0 ? reported_kv_ : kv_tokens;
    const Occupancy size = Occupancy::Of(pace, prompt, prompt, std::max(output, 1.0) * q.sequences, kv);
    return size.compute_s + size.memory_s;
  }

  double Boost(const Request& q) const {
    // Weight of each level: the share of the distribution that is nearest to the level.
    constexpr std::array<double, 5> kWeight = {0.175, 0.2, 0.25, 0.2, 0.175};
    const double g = Gamma();
    double grown = 0;  // value of M - 1
    for (std::size_t i = 0; i < kWeight.size(); ++i) {
      const double output = q.output_tokens.known() ? q.output_tokens.Quantile(Estimate::kLevels[i]) : unknown;
      grown += Rounded(kWeight[i] * exact::Expm1(g * Size(q, output)));
    }
    return std::min(exact::Log1p(1 / grown) / g, kMost);
  }

  std::vector<double> boosts_;  // by slot
  double excess_ = 0, ended_ = 0, reported_kv_ = 0;
};

}  // namespace takt

#endif  // TAKT_RIVALS_POLICY_UNIBOOST_H_
