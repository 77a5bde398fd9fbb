// ThunderAgent's gate: a turn waits if running and recent contexts would not fit with it.
#ifndef TAKT_RIVALS_GATES_WORKING_SET_H_
#define TAKT_RIVALS_GATES_WORKING_SET_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "takt/base/exact_math.h"
#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/turns/gates/gate_policy.h"

namespace takt {

// Admits a turn if
//
//  used + need + sum of held contexts * 2^(-age / half_life) <= capacity
//
// used: tokens of running requests. Ages are as of the last sweep. `buffer` tokens are added per request and context. A
// turn that has waited for `force_s` is admitted anyway. The rank policy orders the turns; ThunderAgent runs the
// smallest turn first.
//
// "ThunderAgent" (2602.13692). Departures: ThunderAgent pauses and resumes only at sweeps. Here sweeps only update
// ages, and a turn is admitted as soon as it fits. Running requests are not paused. A block that running requests share
// counts once; a block that held contexts share counts in each of these. The turn's own held context also counts.
struct WorkingSet {
  static constexpr std::string_view kName = "working_set";

  double half_life_s = 1;
  double sweep_s = 5;  // time between two sweeps, which update ages [s]; 0: ages are always current
  double force_s = 1800;  // wait after which a turn is admitted anyway [s]; 0: never
  std::int32_t buffer = 100;  // additional tokens counted per request and per held context

  double LetsInAfter(const GateAsk& ask, const HeldOrder& held) const {
    if (ask.stuck && !TakesOfOthers(ask, held)) return 0;
    double now = ToSeconds(ask.now);
    if (sweep_s > 0) now = Rounded(std::floor(now / sweep_s) * sweep_s);
    const double tokens =
        Rounded((static_cast<double>(ask.used) + ask.need) * ask.block_tokens) +
        Rounded(static_cast<double>(ask.running + 1) * buffer) + held.Sum([&](const Holding& h) {
          const double age = std::max(now - ToSeconds(h.since), 0.0);
          return h.in_use ? 0 : Rounded((static_cast<double>(h.tokens) + buffer) * exact::Exp2(-age / half_life_s));
        });
    if (tokens <= static_cast<double>(ask.total) * ask.block_tokens) return 0;
    return force_s > 0 ? force_s : kNotNow;
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("half_life_s", self.half_life_s, OptionText{"s", "age at which a held context counts half", 1e-3});
    visit("sweep_s", self.sweep_s, OptionText{"s", "interval between updates of ages; 0: always current"});
    visit("force_s", self.force_s, OptionText{"s", "waiting time after which a turn is admitted; 0: never"});
    visit("buffer", self.buffer, OptionText{"tokens", "tokens added to each context", 0, 1 << 28});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_GATES_WORKING_SET_H_
