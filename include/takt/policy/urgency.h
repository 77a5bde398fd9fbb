// Urgency: the call with the tightest time budget for its work (HexGen-Flow).
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

// HexGen-Flow serves the call of largest urgency U = t_comp - (t_SLO - tau): the call's compute time minus the budget
// that is left after a wait of tau (equations 7 and 8). The urgency of all waiting calls grows at the same rate, so the
// order is constant. Key [s]:
//
//  deadline - compute
//
// Request::deadline is the end of the call's budget (time of sending + t_SLO), which a router's workflow table
// computes. Request::compute is the expected compute time. If the budget covers the whole rest of the workflow, the
// order is least slack first.
//
// With `of=workflow` the deadline is the workflow's, and the key is the workflow's slack. The remaining time is that of
// the call and of the longest chain after it, Request::after.path_tokens at decode_s each; prefill of later calls and
// tools are left out. If the call's compute time is unknown, its predicted tokens replace it.
//
// Calls without a deadline (batch work) are due at arrival + compute / batch_share. So each such call becomes the most
// urgent call at some time. A key is within `horizon` of the call's arrival, so that absurd deadlines starve nobody.
struct Urgency {
  static constexpr std::string_view kName = "urgency";

  enum class Of : std::uint8_t { kCall, kWorkflow };  // the work whose remaining time counts
  friend constexpr auto NamesOf(Of) { return std::to_array<std::string_view>({"call", "workflow"}); }
  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4};
  Of of = Of::kCall;
  double batch_share = 0.05;  // a call without a deadline gets compute / batch_share; default: 200 s for a call of 10 s
  double unknown = 5;  // assumed compute time of a call without a deadline if it is unknown [s]
  double horizon = 3600;  // [s]

  RankKey Key(const RequestState& r) const {
    const TimePoint arrival = r.request.arrival;
    const Duration compute = Remaining(r.request);
    TimePoint due = r.request.deadline;
    if (due == kNever) due = Later(arrival, (compute > Duration::zero() ? ToSeconds(compute) : unknown) / batch_share);
    // Rounded to nanoseconds, so that equally urgent calls tie.
    due = Before(due, compute);
    return {ToSeconds(std::clamp(due, Later(arrival, -horizon), Later(arrival, horizon)))};
  }

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("of", self.of, OptionText{"", "call | workflow: whose remaining time counts"});
    visit("decode_s", self.pace.decode_s, OptionText{"s", "time of a decode step; for of=workflow", 0, 1e6});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "prefill time; for of=workflow", 0, 1e6});
    visit("batch_share", self.batch_share,
          OptionText{"", "share of the engine's pace for calls without a deadline", 1e-6, 1});
    visit("unknown", self.unknown, OptionText{"s", "compute time of a call without a deadline, if unknown", 0, 1e9});
    visit("horizon", self.horizon, OptionText{"s", "maximum distance of the key from the call's arrival", 0, 1e9});
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
