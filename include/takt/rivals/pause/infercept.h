// InferCept: keep or drop by least waste, and swap what would be dropped while the link has room.
#ifndef TAKT_RIVALS_PAUSE_INFERCEPT_H_
#define TAKT_RIVALS_PAUSE_INFERCEPT_H_

#include <algorithm>
#include <string_view>

#include "takt/pause/least_waste.h"

namespace takt {

// Equation 5 at the call: keep where T_int C <= the waste of dropping by chunks (equation 4). What is not kept is
// swapped as far as the step's budget and the host's memory go (`StepLimits::swap_out`: by the paper so many tokens
// that moving them takes no longer than the step), and the rest is dropped. Source: InferCept (ICML 2024), section 4.
//
// The duration: as told, or, with `elapsed`, by the paper's section 4.4 the time since the call, so that every request
// is kept at first and let go when it has wasted as much as dropping it would.
//
// Departures: the budget goes to calls as they come, not to the most wasteful of a step; of a request that it does not
// suffice for, the head moves and the tail is dropped, where the authors' code moves blocks from the tail on (the head
// stays on the GPU there until it goes too); an overdue call is let go by the elapsed time, where that code would keep
// it for ever.
struct InferCept {
  static constexpr std::string_view kName = "infercept";
  PauseCosts costs = {};
  bool elapsed = false;

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    PauseCosts::VisitOptions(self.costs, visit);
    visit("elapsed", self.elapsed, OptionText{"", "true: durations are not believed, only the time since the call"});
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
