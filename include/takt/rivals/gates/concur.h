// CONCUR's gate: finds the number of active agents that the cache supports, by congestion control.
#ifndef TAKT_RIVALS_GATES_CONCUR_H_
#define TAKT_RIVALS_GATES_CONCUR_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/turns/gates/gate_policy.h"

namespace takt {

// A window of active branches, updated every `every_s` seconds:
//
//  + alpha    if cache use is below u_low
//  * beta     if cache use is above u_high and hits are below hits_low; at least 1
//  unchanged  otherwise
//
// Active branches are running branches and branches away for less than `idle_s`. A turn is admitted if the window has
// room. Without reports of cache use, a turn waits while use is above u_high and hits are below hits_low.
//
// Source: the abstract and the two bounds of use of "CONCUR" (2601.22705). The conditions for growing and shrinking,
// and the values of alpha, beta, hits_low and every_s, are takt's. Departure: in CONCUR, an agent is active from its
// first to its last step. Here an agent that has been away for `idle_s` is inactive, because its return is unknown.
struct Concur {
  static constexpr std::string_view kName = "concur";

  double u_low = 0.2;
  double u_high = 0.5;
  double hits_low = 0.5;
  double alpha = 2;
  double beta = 0.5;
  double every_s = 5;
  double idle_s = 60;

  double Update(double window, const GateSigns& signs) const {
    if (!(window > 0)) window = static_cast<double>(std::max<std::int64_t>(signs.running, 1));
    if (signs.use < u_low) return window + alpha;
    if (Congested(signs.use, signs.hits)) return std::max(Rounded(window * beta), 1.0);
    return window;
  }
  double UpdateEvery() const { return every_s; }

  double LetsInAfter(const GateAsk& ask, const HeldOrder& held) const {
    if (ask.stuck && !TakesOfOthers(ask, held)) return 0;
    if (!(ask.state > 0)) {
      const double use = static_cast<double>(ask.used) / std::max(ask.total, 1);
      return !ask.stuck && Congested(use, ask.hits) ? kNotNow : 0;
    }
    const double away = held.Sum([&](const Holding& h) {
      return !h.in_use && !h.awaited && ToSeconds(Between(h.since, ask.now)) < idle_s ? 1.0 : 0.0;
    });
    return static_cast<double>(ask.running + 1) + away <= ask.state ? 0 : kNotNow;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("u_low", self.u_low, OptionText{"share", "cache use below which the window grows", 0, 1});
    visit("u_high", self.u_high, OptionText{"share", "cache use above which the window may shrink", 0, 1});
    visit("hits_low", self.hits_low, OptionText{"share", "hit rate below which the window then shrinks", 0, 1});
    visit("alpha", self.alpha, OptionText{"", "growth of the window"});
    visit("beta", self.beta, OptionText{"share", "share of the window that is kept when it shrinks", 0, 1});
    visit("every_s", self.every_s, OptionText{"s", "interval between updates of the window", 1e-3});
    visit("idle_s", self.idle_s, OptionText{"s", "time away after which a branch is inactive", 0, 1e9});
  }

 private:
  bool Congested(double use, double hits) const { return use > u_high && hits < hits_low; }
};

}  // namespace takt

#endif  // TAKT_RIVALS_GATES_CONCUR_H_
