// Urgency: the call whose time budget is the tightest for what it has to do (HexGen-Flow).
#ifndef TAKT_POLICY_URGENCY_H_
#define TAKT_POLICY_URGENCY_H_

#include <algorithm>
#include <string_view>

#include "takt/config.h"
#include "takt/policy/policy_spec.h"
#include "takt/policy/rank_policy.h"
#include "takt/state/slo_budget.h"

namespace takt {

// HexGen-Flow serves the call of largest urgency U = t_comp - (t_SLO - tau), its own time less what is left of its
// budget after waiting for tau (equations 7 and 8). All that wait gain a second of urgency per second, so that the
// order is that of t_comp - t_SLO - (time of sending), which never changes. Key [s]:
//
//   deadline - compute
//
// with Request::deadline the end of the call's budget (time of sending + t_SLO; a router's workflow table computes it)
// and Request::compute its expected time. With the whole rest of a workflow as its budget this is least slack.
//
// Calls without a deadline (batch work) are due when they would be done at a `batch_share` of the engine's pace:
// arrival + compute / batch_share. So each of them is the most urgent one day, and the later the smaller the share.
// Deadlines that are absurd cannot starve anybody for ever: a key lies within `horizon` of the call's arrival.
struct Urgency {
  static constexpr std::string_view kName = "urgency";

  double batch_share = 0.05;  // a call of 10 s without a deadline is given 200 s
  double unknown = 5;         // [s] taken for a call of that kind where nobody knows its own time
  double horizon = 3600;      // [s]

  RankKey Key(const RequestState& r) const {
    const TimePoint arrival = r.request.arrival;
    const Duration compute = std::max(r.request.compute, Duration::zero());
    TimePoint due = r.request.deadline;
    if (due == kNever && !TAKT_PLANTED_BUG(43))
      due = Later(arrival, (compute > Duration::zero() ? ToSeconds(compute) : unknown) / batch_share);
    // In whole nanoseconds, so that the equally urgent are equal.
    due = due < TimePoint::min() + compute ? TimePoint::min() : due - compute;
    return {ToSeconds(std::clamp(due, Later(arrival, -horizon), Later(arrival, horizon)))};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("batch_share", self.batch_share,
          OptionText{"", "of the engine's pace, for calls without a deadline", 1e-6, 1});
    visit("unknown", self.unknown, OptionText{"s", "own time of such a call where it is not known", 0, 1e9});
    visit("horizon", self.horizon, OptionText{"s", "a call counts as due within this of its arrival", 0, 1e9});
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_URGENCY_H_
