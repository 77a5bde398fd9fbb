// What becomes of a request's KV cache while it waits for a tool.
#ifndef TAKT_PAUSE_PAUSE_POLICY_H_
#define TAKT_PAUSE_PAUSE_POLICY_H_

#include <concepts>
#include <cstdint>
#include <string_view>

#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/state/request_state.h"

namespace takt {

// The engine's view at the moment of a decision.
struct PauseView {
  TimePoint now{};
  Tokens context{0};               // of the request: tokens whose KV is there, or will be at the call
  std::int64_t running_tokens = 0;  // context of all that run, the request included where it runs
  Blocks held{0};                  // KV blocks of the request
  Blocks kv_free{0};
  Blocks swap_free{0};             // that may still move to the host's memory, by its room and the step's limit
};

struct PauseDecision {
  KvAction action = KvAction::kKeep;  // kKeep, kDrop or kOut
  TimePoint review_at = kNever;       // kKeep: when to ask again if the tool has not answered
  // kOut: so many of its leading blocks move, and what lies behind them is dropped. The leading ones, since KV is a
  // prefix: a request can go on from a head that comes back, while a tail is of no use before all that lies before it.
  // Where more would move than PauseView::swap_free, all is dropped.
  Blocks out = Blocks::Max();

  constexpr PauseDecision() = default;
  constexpr PauseDecision(KvAction a, TimePoint review = kNever, Blocks moved = Blocks::Max())
      : action(a), review_at(review), out(moved) {}  // NOLINT: a decision
};

// Asked when a request calls a tool.
template <class P>
concept PausePolicy = requires(const P& p, const RequestState& r, const ToolCalled& call, const PauseView& view) {
  { p.AtCall(r, call, view) } -> std::same_as<PauseDecision>;
};

// Optional: asked before a request's key is computed, at arrival and at each return of a tool, what it means to do at
// the next call (`view.context`: as it is now). The answer is RequestState::at_call.
template <class P>
concept PredictingPause = requires(const P& p, const RequestState& r, const PauseView& view) {
  { p.Predict(r, view) } -> std::same_as<KvAction>;
};

// Optional: asked at `review_at` about a request whose tool has not answered and whose KV is still there; `since`: when
// it called.
template <class P>
concept ReviewingPause =
    requires(const P& p, const RequestState& r, const ToolCalled& call, TimePoint since, const PauseView& view) {
      { p.Review(r, call, since, view) } -> std::same_as<PauseDecision>;
    };

// Keeps the KV: right where tools are quick. Memory that nothing else can do without is reclaimed.
struct KeepAll {
  static constexpr std::string_view kName = "keep_all";
  PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kKeep; }
};

// Drops it and computes it again: vLLM's way.
struct DropAll {
  static constexpr std::string_view kName = "drop_all";
  PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kDrop; }
};

// Swaps it out.
struct SwapAll {
  static constexpr std::string_view kName = "swap_all";
  PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kOut; }
};

}  // namespace takt

#endif  // TAKT_PAUSE_PAUSE_POLICY_H_
