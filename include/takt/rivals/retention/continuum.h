// Held as long as waiting for the return is expected to save time, by the class of the gap: Continuum's pins.
#ifndef TAKT_RIVALS_RETENTION_CONTINUUM_H_
#define TAKT_RIVALS_RETENTION_CONTINUUM_H_

#include <cstddef>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/turns/held.h"
#include "takt/turns/return_curve.h"

namespace takt {

// After a turn its blocks are pinned for
//   tau* = argmax over tau of P_k(tau) (T eta + reload) - tau,
// P_k the share of gaps of class k that end within tau, T the mean time that a turn queues, reload the prefill time of
// what is held. The value is 1 while pinned and 0 after; within each, what was used least recently goes first. Of
// several maxima the first.
//
// Li et al., "Continuum" (2511.02230). Departures: T and eta are options in place of figures that are measured as it
// runs; P is the learnt curve of the class, with its prior, in place of an empirical one per tool; tau is taken for
// what is left of a holding, so that it falls as the holding shrinks; pins are no promise, since a gate decides who may
// break them. Order and admission of Continuum are not here.
struct Continuum {
  static constexpr std::string_view kName = "continuum";

  double queue_s = 10;  // T
  double eta = 1;
  double alpha_ms = 0.0387;  // of a token's prefill; both of Llama-3.1-70B fp8 on 8 H100
  double beta_ns = 0.546;  // of a token's prefill, per token before it
  const ReturnCurves* curves = nullptr;  // must outlive it; null: nothing is pinned

  // P is linear between edges, so that the maximum is at one.
  double PinSeconds(const Held& held) const {
    if (curves == nullptr) return 0;
    const ReturnCurve& curve = curves->Of(held.its_class);
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
    visit("queue_s", self.queue_s, OptionText{"s", "T: how long a turn queues, in the mean"});
    visit("eta", self.eta, OptionText{"", "how much of it a return without its blocks would cost"});
    visit("alpha_ms", self.alpha_ms, OptionText{"ms", "prefill time of a token at the start of a prompt"});
    visit("beta_ns", self.beta_ns, OptionText{"ns", "more of it per token before"});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_RETENTION_CONTINUUM_H_
