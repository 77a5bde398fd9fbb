// Starvation prevention around any policy: who waits too long is promoted before all others.
#ifndef TAKT_POLICY_AGED_H_
#define TAKT_POLICY_AGED_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "takt/policy/policy_spec.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Orders as the inner policy does, but a request that was passed over in `threshold` plans in a row in which
// something ran is promoted: it comes before all that are not, in order of promotion, and stays promoted for
// `quantum` steps that run it. Sources: Chimera (level -1 after S iterations, back after Q), LTR (the same; its
// scripts use S = 200, Q = 10), LAMPS (counts from the first run on, until completion, reset by tool calls).
// Departure: within the promoted those systems keep the policy's order; here who was promoted first is first, so
// that nobody starves among the promoted either.
template <RankPolicy P>
class Aged {
 public:
  Aged() = default;
  explicit Aged(P inner, AgingOptions options = {}) : inner_(std::move(inner)), options_(options) {}

  RankKey Key(const RequestState& r) const { return inner_.Key(r); }
  const AgingOptions* aging() const { return &options_; }
  const P& inner() const { return inner_; }
  PolicyHooks hooks() const { return HooksOf(inner_); }
  std::string name() const { return "aged(" + NameOf(inner_) + ")"; }
  std::string spec() const {
    const std::string changed = ChangedOptions(*this, Aged(inner_));
    return "aged(" + SpecOf(inner_) + (changed.empty() ? "" : "," + changed) + ")";
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    auto& o = self.options_;
    visit("threshold", o.threshold, OptionText{"plans", "passed over in so many in a row, a request is promoted"});
    visit("quantum", o.quantum, OptionText{"steps", "that a promotion lasts; forever: until the request ends", 1});
    visit("count_from", o.count_from, OptionText{"", "arrival | first_run: when counting begins"});
    visit("reset_at_tool_call", o.reset_at_tool_call, OptionText{"", "a tool call ends count and promotion"});
  }

  RankKey KeyAt(const RequestState& r, TimePoint now) const
    requires MovingPolicy<P>
  {
    return inner_.KeyAt(r, now);
  }
  std::uint64_t Group(const RequestState& r) const
    requires GroupPolicy<P>
  {
    return inner_.Group(r);
  }
  RankKey GroupKey(std::uint64_t group) const
    requires GroupPolicy<P>
  {
    return inner_.GroupKey(group);
  }
  std::vector<std::uint64_t>& moved_groups()
    requires GroupLogPolicy<P>
  {
    return inner_.moved_groups();
  }
  void GroupWakes(std::uint64_t group, RankKey least)
    requires GroupWakePolicy<P>
  {
    inner_.GroupWakes(group, least);
  }
  void GroupSized(std::uint64_t group, std::int64_t waiting)
    requires GroupWatchPolicy<P>
  {
    inner_.GroupSized(group, waiting);
  }
  void PlanBegins(TimePoint now)
    requires PlanBeginPolicy<P>
  {
    inner_.PlanBegins(now);
  }
  void Observe(const Event& event, TimePoint now)
    requires ObservingPolicy<P>
  {
    inner_.Observe(event, now);
  }
  bool Scheduled(const RequestState& r, Tokens prefill, Tokens output, std::int64_t steps = 1)
    requires ScheduledPolicy<P>
  {
    return TellOfStep(inner_, r, prefill, output, steps);
  }
  void Reserve(std::size_t slots)
    requires ReservePolicy<P>
  {
    inner_.Reserve(slots);
  }
  void KeyHashes(std::uint64_t seed)
    requires HashingPolicy<P>
  {
    inner_.KeyHashes(seed);
  }
  void Enters(const RequestState& r, TimePoint now)
    requires EnterPolicy<P>
  {
    inner_.Enters(r, now);
  }
  void Ends(const RequestState& r, TimePoint now)
    requires EndPolicy<P>
  {
    inner_.Ends(r, now);
  }
  TimePoint ChangesAt(const RequestState& r) const
    requires TimedPolicy<P>
  {
    return inner_.ChangesAt(r);
  }
  void Change(const RequestState& r, TimePoint now)
    requires TimedPolicy<P>
  {
    inner_.Change(r, now);
  }
  void PlanEnds(const QueuePressure& pressure, TimePoint now)
    requires PressurePolicy<P>
  {
    inner_.PlanEnds(pressure, now);
  }
  KeyParts Explain(const RequestState& r) const
    requires ExplainPolicy<P>
  {
    return inner_.Explain(r);
  }
  std::int64_t refresh_interval() const
    requires RefreshingPolicy<P>
  {
    return inner_.refresh_interval();
  }
  RankKey VictimKey(const RequestState& r) const
    requires VictimPolicy<P>
  {
    return inner_.VictimKey(r);
  }

 private:
  P inner_;
  AgingOptions options_;
};

template <class P>
Aged(P) -> Aged<P>;
template <class P>
Aged(P, AgingOptions) -> Aged<P>;

}  // namespace takt

#endif  // TAKT_POLICY_AGED_H_
