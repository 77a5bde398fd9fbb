// What becomes of a request's KV cache while it waits for a tool.
#ifndef TAKT_PAUSE_PAUSE_POLICY_H_
#define TAKT_PAUSE_PAUSE_POLICY_H_

#include <concepts>
#include <string_view>

#include "takt/model/event.h"
#include "takt/model/step.h"
#include "takt/state/request_state.h"

namespace takt {

// The step's view at the time of the call.
struct PauseView {
  Tokens context{0};        // of the request: tokens whose KV is there
  std::int64_t running_tokens = 0;  // context of all that run
  Blocks kv_free{0};
  Blocks cpu_free{0};
};

// kKeep, kDrop or kOut; kOut becomes kDrop where the host's memory has no room.
template <class P>
concept PausePolicy = requires(const P& p, const RequestState& r, const ToolCalled& call, const PauseView& view) {
  { p.AtCall(r, call, view) } -> std::same_as<KvAction>;
};

// Keeps the KV: right where tools are quick. Memory that nothing else can do without is reclaimed.
struct KeepAll {
  static constexpr std::string_view kName = "keep_all";
  KvAction AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kKeep; }
};

// Drops it and computes it again: vLLM's way.
struct DropAll {
  static constexpr std::string_view kName = "drop_all";
  KvAction AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kDrop; }
};

// Swaps it out.
struct SwapAll {
  static constexpr std::string_view kName = "swap_all";
  KvAction AtCall(const RequestState&, const ToolCalled&, const PauseView&) const { return KvAction::kOut; }
};

}  // namespace takt

#endif  // TAKT_PAUSE_PAUSE_POLICY_H_
