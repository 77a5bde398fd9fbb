// Continuum's pins: keeps KV pinned as long as this is expected to save time for its class of gap.
#ifndef TAKT_RIVALS_RETENTION_CONTINUUM_H_
#define TAKT_RIVALS_RETENTION_CONTINUUM_H_

#include <cstddef>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/turns/held.h"
#include "takt/turns/return_curve.h"

namespace takt {

// After a turn, its blocks are pinned for
//
//  tau* = argmax over tau of P_k(tau) (T eta + reload) - tau
//
// P_k: share of gaps of class k that end within tau. T: mean queueing time of a turn. reload: prefill time of the held
// KV. The value is 1 while pinned, then 0. Among blocks of equal value, the least recently used is evicted first. If
// several tau are best, the smallest counts.
//
// Li et al., "Continuum" (2511.02230). Departures: T and eta are options, not measured. P is the learnt curve of the
// class with its prior, not an empirical curve per tool. tau is computed for the KV that is left, so tau falls as KV is
// evicted. A gate decides which requests may break pins. Continuum's order and admission are not included.
struct Continuum {
  static constexpr std::string_view kName = "continuum";

  double queue_s = 10;  // T: mean queueing time of a turn [s]
  double eta = 1;
  double alpha_ms = 0.0387;  // prefill time of a token [ms]; default: Llama-3.1-70B fp8 on 8 H100
  double beta_ns = 0.546;  // prefill time of a token per preceding token [ns]; default: as for alpha_ms
  const ReturnCurves* curves = nullptr;  // return curves, which must outlive the policy; null: nothing is pinned

  // P is linear between edges, so the maximum is at an edge.
  double PinSeconds(const Held& held) const {
    if (curves == nullptr) return 0;
    const ReturnCurve& curve = curves->Of(held.return_class);
    const double tokens = held.tokens;
    const double reload = Rounded(alpha_ms * 1e-3 * tokens) + Rounded(beta_ns * 1e-9 * tokens * tokens / 2);
    const double saved = Rounded(queue_s * eta) + reload;
    double best = 0, pin = 0;
    for (std::size_t i = 1; i <= ReturnCurve::kBins; ++i) {
      const double gain = Rounded((1 - curve.survival[i]) * saved) - ReturnCurve::Edge(i);
      if (gain > best) best = gain, pin = ReturnCurve::Edge(i);
    }
    return pin;
  }

  double Value(const Held& held, TimePoint now) const {
    return held.workflow && ToSeconds(Between(held.since, now)) < PinSeconds(held) ? 1 : 0;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("queue_s", self.queue_s, OptionText{"s", "T: mean queueing time of a turn"});
    visit("eta", self.eta, OptionText{"", "share of T that a return without its blocks costs"});
    visit("alpha_ms", self.alpha_ms, OptionText{"ms", "prefill time of a token at the start of a prompt"});
    visit("beta_ns", self.beta_ns, OptionText{"ns", "additional prefill time of a token per token before it"});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_CONTINUUM_H_
