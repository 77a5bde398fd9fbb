// Keeps, drops or swaps KV, whichever wastes the least memory over time.
#ifndef TAKT_PAUSE_LEAST_WASTE_H_
#define TAKT_PAUSE_LEAST_WASTE_H_

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "takt/model/memory_time.h"
#include "takt/base/spec.h"
#include "takt/pause/pause_policy.h"

namespace takt {

// Costs of an engine, which are options of several pause policies.
struct PauseCosts {
  // pace of the engine; set it from the engine's cost model by MemoryPace::From
  MemoryPace pace{.decode_s = 0.02, .forward_s = 1e-4, .swap_s = 5e-6, .chunk_overhead_s = 0.02};
  double overlap = 0;  // share of a swap during which other requests run, 0 to 1

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    visit("decode_s", self.pace.decode_s, OptionText{"s", "time of a step that only decodes"});
    visit("forward_s", self.pace.forward_s, OptionText{"s/token", "that a token of prefill adds to a step"});
    visit("swap_s", self.pace.swap_s, OptionText{"s/token", "time to move a token's KV one way"});
    visit("chunk_overhead_s", self.pace.chunk_overhead_s,
          OptionText{"s", "time of a step, in addition to its prefill"});
    visit("chunk", self.pace.chunk_tokens, OptionText{"tokens", "prefill tokens per step", 1});
    visit("overlap", self.overlap, OptionText{"share", "of a swap during which other requests run", 0, 1});
  }

  MemoryBeside Beside(const PauseView& view) const {
    const std::int64_t others = std::max<std::int64_t>(view.running_tokens - view.context.value, 0);
    return {static_cast<double>(others), pace.chunk_tokens};
  }
  double Drop(const PauseView& view) const {
    return WasteOfDropping(pace, Beside(view), static_cast<double>(view.context.value));
  }
  double Swap(const PauseView& view) const {
    return WasteOfSwapping(pace, Beside(view), static_cast<double>(view.context.value), overlap);
  }
  // Returns swap-out if it wastes less than dropping and there is room; otherwise drop.
  KvAction Away(const PauseView& view) const {
    return Swap(view) < Drop(view) && view.held <= view.swap_free ? KvAction::kOut : KvAction::kDrop;
  }
  // Returns the time when keeping KV from `since` on has wasted as much as the cheapest alternative. A policy that does
  // not know the call's duration should then release the KV. The waste is then at most twice the minimum (ski rental).
  TimePoint LetGoAt(TimePoint since, const PauseView& view) const {
    const double context = static_cast<double>(std::max(view.context.value, 1));
    const double least = std::min(Drop(view), view.held <= view.swap_free ? Swap(view) : Drop(view));
    return After(since, FromSeconds(std::min(least / context, 1e6)));
  }
};

// LAMPS: minimizes waste by equations 1 to 3, from the estimated duration of the call; unknown counts as 0. If the
// waste is equal, the policy keeps rather than swaps, and swaps rather than drops. The policy first decides before the
// request runs, from the expected context at the call. The rank can depend on that decision (RequestState::at_call). At
// the call, the policy decides again from the actual context. When keeping has wasted as much as the alternative, the
// policy releases the KV (InferCept's rule for elapsed time).
//
// Departures from the paper: the cost of dropping is a sum over all chunks (InferCept's equation 4), as in the authors'
// code. After a resume, the costs use the current context, not the original prompt.
struct LeastWaste {
  static constexpr std::string_view kName = "least_waste";
  PauseCosts costs = {};

  template <class Self, class V>
  static void VisitOptions(Self& self, V&& visit) {
    PauseCosts::VisitOptions(self.costs, visit);
  }

  KvAction Predict(const RequestState& r, const PauseView& now) const {
    if (!r.request.next_call) return KvAction::kKeep;
    PauseView at_call = now;
    const NextCall& next = r.request.next_call;
    at_call.context += next.after;
    at_call.running_tokens += at_call.context.value;
    at_call.held = {0};  // the room for a swap is not known yet
    return Best(at_call, ToSeconds(next.duration));
  }

  PauseDecision AtCall(const RequestState&, const ToolCalled& call, const PauseView& view) const {
    const KvAction action = Best(view, ToSeconds(call.expected));
    if (action != KvAction::kKeep) return action;
    return {KvAction::kKeep, std::max(After(view.now, call.expected), costs.LetGoAt(view.now, view))};
  }

  PauseDecision Review(const RequestState&, const ToolCalled&, TimePoint since, const PauseView& view) const {
    const TimePoint let_go = costs.LetGoAt(since, view);
    if (view.now < let_go) return {KvAction::kKeep, let_go};
    return costs.Away(view);
  }

 private:
  KvAction Best(const PauseView& view, double seconds) const {
    const double keep = WasteOfKeeping(static_cast<double>(view.context.value), seconds);
    const double drop = costs.Drop(view);
    const bool room = view.held <= view.swap_free;
    const double swap = room ? costs.Swap(view) : drop + 1;
    if (keep <= swap && keep <= drop) return KvAction::kKeep;
    return room && swap <= drop ? KvAction::kOut : KvAction::kDrop;
  }
};

}  // namespace takt

#endif  // TAKT_PAUSE_LEAST_WASTE_H_
