// Decides what happens to a request's KV while it waits for a tool.
#ifndef TAKT_PAUSE_PAUSE_POLICY_H_
#define TAKT_PAUSE_PAUSE_POLICY_H_

#include <concepts>
#include <cstdint>
#include <string_view>

#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/state/request_state.h"

namespace takt {

// The engine's state at a decision.
struct PauseView {
  TimePoint now{};
  Tokens context{0};  // context tokens of the request that have KV, now or at the call
  std::int64_t running_tokens = 0;  // context tokens of all running requests, including this request if it runs
  Blocks held{0};  // KV blocks of the request
  Blocks kv_free{0};
  Blocks swap_free{0};  // blocks that may still move to host memory, given its free room and the step's limit
};

struct PauseDecision {
  KvAction action = KvAction::kKeep;  // kKeep, kDrop or kOut
  TimePoint review_at = kNever;  // kKeep: time of the next decision if the tool has not returned
  // kOut: number of leading blocks to swap out; the rest is dropped. Only a prefix of the KV is useful when it is
  // swapped in. If `out` exceeds PauseView::swap_free, all blocks are dropped.
  Blocks out = Blocks::Max();

  constexpr PauseDecision() = default;
  constexpr PauseDecision(KvAction a, TimePoint review = kNever, Blocks moved = Blocks::Max())
      : action(a), review_at(review), out(moved) {}  // NOLINT: implicit
};

// Decides when a request calls a tool.
template <class P>
concept PausePolicy = requires(const P& p, const RequestState& r, const ToolCalled& call, const PauseView& view) {
  { p.AtCall(r, call, view) } -> std::same_as<PauseDecision>;
};

// Optional: predicts the action at the next call. It runs at arrival and at each return of a tool, before the request's
// key is computed. `view.context` is the current context. The result becomes RequestState::at_call.
template <class P>
concept PredictingPause = requires(const P& p, const RequestState& r, const PauseView& view) {
  { p.Predict(r, view) } -> std::same_as<KvAction>;
};

// Optional: decides again at `review_at`, if the tool has not returned and the KV is still held. `since`: time of the
// call.
template <class P>
concept ReviewingPause =
    requires(const P& p, const RequestState& r, const ToolCalled& call, TimePoint since, const PauseView& view) {
      { p.Review(r, call, since, view) } -> std::same_as<PauseDecision>;
    };

// Keeps the KV, which suits quick tools. The KV is dropped only if no other memory is left.
struct KeepAll {
  static constexpr std::string_view kName = "keep_all";
  PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kKeep; }
};

// Drops the KV and computes it again, like vLLM.
struct DropAll {
  static constexpr std::string_view kName = "drop_all";
  PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kDrop; }
};

// Swaps the KV out.
struct SwapAll {
  static constexpr std::string_view kName = "swap_all";
  PauseDecision AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kOut; }
};

}  // namespace takt

#endif  // TAKT_PAUSE_PAUSE_POLICY_H_
