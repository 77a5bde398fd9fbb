// takt's own gate, at which a request pays for held memory with its waiting time.
#ifndef TAKT_TURNS_GATES_PRICE_H_
#define TAKT_TURNS_GATES_PRICE_H_

#include <algorithm>
#include <limits>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/turns/gates/gate_policy.h"
#include "takt/turns/retention/hold_value.h"

namespace takt {

// A request is admitted if
//   loss n < kappa (lack / need) (1 + w / W).
// `loss`: value of the taken blocks [s of work lost per s]; n: requests that wait or run here; w: time waited. The left
// side is the cost of computing the taken blocks again, over all delayed requests. The right side is the gain of one
// request that stops waiting. The longer the queue, the longer a workflow's blocks stay.
//
// Values are those of HoldValue, whatever the eviction order. Blocks of waiting turns are evicted last. A turn that has
// waited w seconds is assumed to wait as long again, so G is 1/w, at most 1/s. At full value, many waiting turns would
// protect all held blocks, and no turn could get its few missing blocks. Pinned blocks always have their full value.
//
// `share` and `after_s` bound the wait (GateDoor).
struct Price {
  static constexpr std::string_view kName = "price";

  double kappa = 0.3;  // weight of waiting, tuned on coding agents' sessions: 0.1 starves new requests, 1 keeps less KV
  double wait_s = 300;  // W: waiting time that doubles a request's gain [s]
  double share = 0.1;
  double after_s = 300;
  // Requests of a smaller priority number pay nothing. So chat need not wait for agents that hold the whole cache.
  std::int32_t free_below = std::numeric_limits<std::int32_t>::min();
  HoldValue value = {};

  double LetsInAfter(const GateAsk& ask, const HeldOrder& held) const {
    if (ask.priority < free_below) return 0;
    const double right = kappa * ask.lack / std::max(ask.need, 1);
    const double n = static_cast<double>(std::max<std::int64_t>(ask.delayed, 1));
    double loss = 0;
    held.Walk(ask.lack, [&](const HeldVictim& victim) {
      const bool kept = victim.tier >= HeldTier::kPinned;
      if (!IsOwn(ask, victim.held) && !(kept && ask.stuck)) loss += ValueOf(victim, ask.now);
      return true;
    });
    if (!(loss > 0 && loss * n >= right)) return 0;  // taking blocks without value is free
    return right > 0 ? Rounded(wait_s * (loss * n / right - 1)) : kNotNow;
  }

  GateDoor Door() const { return {share, after_s}; }

  double PrefillSeconds(const GateAsk& ask) const {
    const double from = ask.cached, to = std::max(ask.tokens, ask.cached);
    return Rounded(value.alpha_ms * 1e-3 * (to - from)) +
           Rounded(value.beta_ns * 1e-9 * (Rounded(to * to) - Rounded(from * from)) / 2);
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("kappa", self.kappa, OptionText{"", "loss that one admitted request may cause"});
    visit("wait_s", self.wait_s, OptionText{"s", "waiting time that doubles this loss", 1e-3});
    visit("share", self.share,
          OptionText{"share", "of prefill time for the longest waiting requests; 0: no bound", 0, 1});
    visit("after_s", self.after_s, OptionText{"s", "minimum wait of these requests"});
    constexpr double kLeast = std::numeric_limits<std::int32_t>::min();
    visit("free_below", self.free_below,
          OptionText{"", "requests of a smaller priority number pay nothing", kLeast,
                     std::numeric_limits<std::int32_t>::max()});
    HoldValue::VisitOptions(self.value, visit);
  }

 private:
  // Returns the value of a victim. The value is linear in depth, so the mean of both ends is exact.
  double ValueOf(const HeldVictim& victim, TimePoint now) const {
    if (victim.tier == HeldTier::kDead) return 0;
    Held first = victim.held;
    first.tokens -= (victim.blocks - 1) * first.block_tokens;
    const bool waits = victim.tier >= HeldTier::kPinned;
    const double waited_s = victim.tier == HeldTier::kAwaited && victim.held.awaited != kNever
                                ? ToSeconds(Between(victim.held.awaited, now))
                                : 0;
    const auto of = [&](const Held& held) {
      return waits ? Rounded(value.AwaitedValue(held) / std::max(waited_s, 1.0)) : value.Value(held, now);
    };
    return Rounded((of(victim.held) + of(first)) / 2 * victim.blocks);
  }
};

}  // namespace takt

#endif  // TAKT_TURNS_GATES_PRICE_H_
