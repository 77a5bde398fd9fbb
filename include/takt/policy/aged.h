// Starvation prevention around any policy: a request that waits too long is promoted before all others.
#ifndef TAKT_POLICY_AGED_H_
#define TAKT_POLICY_AGED_H_

#include <string>
#include <utility>

#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Orders as the inner policy does, but a request that was passed over in `threshold` plans in a row in which
// something ran is promoted: it comes before all that are not, in order of promotion, and stays promoted for
// `quantum` steps that run it. Sources: Chimera (level -1 after S iterations, back after Q), LTR (the same; its
// scripts use S = 200, Q = 10), LAMPS (counts from the first run on, until completion, reset by tool calls).
// Departure: within the promoted those systems keep the policy's order; here the one promoted first is
// first, so that none starves among the promoted either.
//
// It is the inner policy in all else: besides aging, it has that one's hooks and no more.
template <RankPolicy P>
class Aged : public P {
 public:
  Aged() = default;
  explicit Aged(P inner, AgingOptions options = {}) : P(std::move(inner)), aging_(options) {}

  const AgingOptions* aging() const { return &aging_; }
  const P& inner() const { return *this; }
  std::string name() const { return "aged(" + NameOf(inner()) + ")"; }
  std::string spec() const {
    const std::string changed = ChangedOptions(*this, Aged(inner()));
    return "aged(" + SpecOf(inner()) + (changed.empty() ? "" : "," + changed) + ")";
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    auto& o = self.aging_;
    visit("threshold", o.threshold, OptionText{"plans", "passed over in so many in a row, a request is promoted"});
    visit("quantum", o.quantum, OptionText{"steps", "that a promotion lasts; forever: until the request ends", 1});
    visit("count_from", o.count_from, OptionText{"", "arrival | first_run: when counting begins"});
    visit("reset_at_tool_call", o.reset_at_tool_call, OptionText{"", "a tool call ends count and promotion"});
  }

 private:
  AgingOptions aging_;
};

template <class P>
Aged(P) -> Aged<P>;
template <class P>
Aged(P, AgingOptions) -> Aged<P>;

}  // namespace takt

#endif  // TAKT_POLICY_AGED_H_
