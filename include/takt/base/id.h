// Typed identifiers that compare and hash; the compiler rejects an id of the wrong kind.
#ifndef TAKT_BASE_ID_H_
#define TAKT_BASE_ID_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "takt/config.h"

namespace takt {

// An id chosen by the host. Zero means none.
template <class Tag>
struct Id {
  std::uint64_t value = 0;

  constexpr explicit operator bool() const { return value != 0; }
  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id, Id) = default;
};

using RequestId = Id<struct RequestTag>;    // one LLM call
using WorkflowId = Id<struct WorkflowTag>;  // an agentic program, which is a graph of calls
using StageId = Id<struct StageTag>;        // a call site in a workflow
using AgentId = Id<struct AgentTag>;        // a role that makes calls
using SessionId = Id<struct SessionTag>;  // a conversation or an agent's run, as a sequence of requests
using TenantId = Id<struct TenantTag>;  // the unit of fair sharing
using AdapterId = Id<struct AdapterTag>;
using ToolId = Id<struct ToolTag>;  // a class of tools with similar calls
using InstanceId = Id<struct InstanceTag>;  // an engine replica with its own KV cache
using ModelId = Id<struct ModelTag>;  // a model, which several instances may serve
using ProfileId = Id<struct ProfileTag>;  // a set of properties that instances share (Router::AddProfile)
using StepId = Id<struct StepTag>;  // a plan of a scheduler; counts up from 1
using MoveId = Id<struct MoveTag>;  // a KV move of a scheduler; counts up from 1

}  // namespace takt

template <class Tag>
struct std::hash<takt::Id<Tag>> {
  std::size_t operator()(takt::Id<Tag> id) const noexcept { return std::hash<std::uint64_t>{}(id.value); }
};

#endif  // TAKT_BASE_ID_H_
