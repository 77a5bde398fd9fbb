// Urgency: the call whose time budget is the tightest for what it has to do (HexGen-Flow).
#ifndef TAKT_POLICY_URGENCY_H_
#define TAKT_POLICY_URGENCY_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "takt/base/rounded.h"
#include "takt/base/spec.h"
#include "takt/model/memory_time.h"
#include "takt/policy/rank_policy.h"
#include "takt/workflow/slo_budget.h"

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
// With `of` workflow it is the slack of the whole workflow whose deadline is the workflow's own: the time that remains
// is then the call's and that of the longest chain after it, Request::after.path_tokens at decode_s each (prefill of
// later calls and tools left out). Where the call's own time is not told, its tokens stand in there as well.
//
// Calls without a deadline (batch work) are due when they would be done at a `batch_share` of the engine's pace:
// arrival + compute / batch_share. So each of them is the most urgent one day, and the later the smaller the share.
// Deadlines that are absurd cannot starve anybody for ever: a key lies within `horizon` of the call's arrival.
struct Urgency {
  static constexpr std::string_view kName = "urgency";

  enum class Of : std::uint8_t { kCall, kWorkflow };  // whose time remains
  friend constexpr auto NamesOf(Of) { return std::to_array<std::string_view>({"call", "workflow"}); }
  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4};
  Of of = Of::kCall;
  double batch_share = 0.05;  // a call of 10 s without a deadline is given 200 s
  double unknown = 5;         // [s] taken for a call of that kind whose own time is unknown
  double horizon = 3600;      // [s]

  RankKey Key(const RequestState& r) const {
    const TimePoint arrival = r.request.arrival;
    const Duration compute = Remaining(r.request);
    TimePoint due = r.request.deadline;
    if (due == kNever) due = Later(arrival, (compute > Duration::zero() ? ToSeconds(compute) : unknown) / batch_share);
    // In whole nanoseconds, so that the equally urgent are equal.
    due = Before(due, compute);
    return {ToSeconds(std::clamp(due, Later(arrival, -horizon), Later(arrival, horizon)))};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("of", self.of, OptionText{"", "call | workflow: whose remaining time counts"});
    visit("decode_s", self.pace.decode_s, OptionText{"s", "of a decode step; of=workflow", 0, 1e6});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "of prefill; of=workflow", 0, 1e6});
    visit("batch_share", self.batch_share,
          OptionText{"", "of the engine's pace, for calls without a deadline", 1e-6, 1});
    visit("unknown", self.unknown, OptionText{"s", "own time of such a call where it is not known", 0, 1e9});
    visit("horizon", self.horizon, OptionText{"s", "a call counts as due within this of its arrival", 0, 1e9});
  }

 private:
  Duration Remaining(const Request& q) const {
    const Duration own = std::max(q.compute, Duration::zero());
    if (of == Of::kCall) return own;
    double seconds = ToSeconds(own);
    if (own == Duration::zero() && q.output_tokens.known()) {
      seconds = Rounded(pace.forward_s * q.prompt_tokens.value) + Rounded(pace.decode_s * q.output_tokens.mean);
    }
    if (q.after.known()) seconds += Rounded(pace.decode_s * q.after.path_tokens);
    return FromSeconds(std::min(seconds, 1e9));
  }
};

}  // namespace takt

#endif  // TAKT_POLICY_URGENCY_H_
