// A turn waits while what runs, and what was here a moment ago, would not fit beside it: ThunderAgent's rule.
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

// Let in where
//   used + need + sum of contexts held 2^(-age / half_life) <= capacity,
// used what requests use that run, ages as of the last sweep. `buffer` tokens are added to each of the three, for every
// request or context. What has waited for `force_s` is let in all the same. Whose turn goes first is the order's
// business: ThunderAgent's is smallest first.
//
// "ThunderAgent" (2602.13692). Departures: it pauses and resumes at sweeps alone, here only ages go by sweeps, and a
// turn is let in as soon as it fits; nobody who runs is paused; a block that several requests use counts once where it
// is used, though in each context that is held; what the turn itself has held counts as any other's, by its age.
struct WorkingSet {
  static constexpr std::string_view kName = "working_set";

  double half_life_s = 1;
  double sweep_s = 5;  // 0: ages as of now
  double force_s = 1800;  // 0: nothing is forced
  std::int32_t buffer = 100;  // tokens

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
    visit("half_life_s", self.half_life_s, OptionText{"s", "after which a context that is held counts half", 1e-3});
    visit("sweep_s", self.sweep_s, OptionText{"s", "between the times at which ages are read; 0: always"});
    visit("force_s", self.force_s, OptionText{"s", "of waiting, after which a turn is let in; 0: never"});
    visit("buffer", self.buffer, OptionText{"tokens", "added to each context", 0, 1 << 28});
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_GATES_WORKING_SET_H_
