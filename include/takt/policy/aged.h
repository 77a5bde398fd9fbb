// Starvation prevention for any policy: a request that waits too long is promoted before all others.
#ifndef TAKT_POLICY_AGED_H_
#define TAKT_POLICY_AGED_H_

#include <string>
#include <utility>

#include "takt/base/spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Ranks as the inner policy does, with promotion. A request is promoted after `threshold` plans in a row that ran other
// requests but not this one. Promoted requests come before all others, in order of promotion. A promotion lasts for
// `quantum` steps that run the request. All hooks are those of the inner policy.
//
// Sources: Chimera (level -1 after S iterations, back after Q); LTR (the same rule, with S = 200 and Q = 10 in its
// scripts). LAMPS counts from the first run, promotes until completion, and resets only the count at tool calls.
//
// Departure: these systems keep the policy's order among promoted requests. Here the earliest promotion is first, so
// that no promoted request starves.
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
    visit("threshold", o.threshold,
          OptionText{"plans", "consecutive plans that pass over a request before it is promoted"});
    visit("quantum", o.quantum, OptionText{"steps", "length of a promotion; forever: until the request ends", 1});
    visit("count_from", o.count_from, OptionText{"", "arrival | first_run: start of the count"});
    visit("at_tool_call", o.at_tool_call,
          OptionText{"", "keep | reset_count | reset: effect of a tool call; reset also ends a promotion"});
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
