// InferCept: keeps or drops KV during a tool call, whichever wastes less. Swaps KV instead if the link has room.
#ifndef TAKT_RIVALS_PAUSE_INFERCEPT_H_
#define TAKT_RIVALS_PAUSE_INFERCEPT_H_

#include <algorithm>
#include <string_view>

#include "takt/pause/least_waste.h"

namespace takt {

// Keeps KV if T_int C is at most the waste of recomputing it in chunks (equations 4 and 5). Otherwise swaps as much as
// the step's budget (`StepLimits::swap_out`) and host memory allow, and drops the rest. The paper's budget is the
// tokens that can be moved within the step. Source: InferCept (ICML 2024), section 4.
//
// T_int is the predicted duration. With `elapsed`, T_int is the time since the call (section 4.4): KV is kept at first,
// and released when keeping has wasted as much as dropping would waste.
//
// Departures: the budget serves calls in order of arrival, not the most wasteful first. If the budget is too small, the
// head is swapped and the tail dropped; the authors' code swaps from the tail. An overdue call is released by elapsed
// time; the authors' code keeps it forever.
struct InferCept {
  static constexpr std::string_view kName = "infercept";
  PauseCosts costs = {};
  bool elapsed = false;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    PauseCosts::VisitOptions(self.costs, visit);
    visit("elapsed", self.elapsed, OptionText{"", "true: use the time since the call, not predicted durations"});
  }

  PauseDecision AtCall(const RequestState&, const ToolCalled& call, const PauseView& view) const {
    const TimePoint let_go = LetGoAt(view.now, view);
    if (elapsed || call.expected == Duration::zero()) return {KvAction::kKeep, let_go};
    if (After(view.now, call.expected) <= let_go) return {KvAction::kKeep, let_go};
    return Away(view);
  }

  PauseDecision Review(const RequestState&, const ToolCalled&, TimePoint since, const PauseView& view) const {
    const TimePoint let_go = LetGoAt(since, view);
    if (view.now < let_go) return {KvAction::kKeep, let_go};
    return Away(view);
  }

 private:
  static PauseDecision Away(const PauseView& view) {
    if (view.swap_free.value <= 0) return KvAction::kDrop;
    return {KvAction::kOut, kNever, std::min(view.held, view.swap_free)};
  }
  TimePoint LetGoAt(TimePoint since, const PauseView& view) const {
    const double context = static_cast<double>(std::max(view.context.value, 1));
    return After(since, FromSeconds(std::min(costs.Drop(view) / context, 1e6)));
  }
};

}  // namespace takt

#endif  // TAKT_RIVALS_PAUSE_INFERCEPT_H_
