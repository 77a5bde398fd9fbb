// Agents in a learnt order, by how much work remains behind them (Kairos).
#ifndef TAKT_POLICY_AGENT_PRIORITY_H_
#define TAKT_POLICY_AGENT_PRIORITY_H_

#include <cstdint>
#include <string_view>

#include "takt/policy/books/agent_table.h"

namespace takt {

// A group policy: an agent's key is its rank in the newest table that an Epoch brought (AgentRanks; learning/
// makes them); within an agent, whose workflow began first. Agents that are not in the table have the rank that it
// gives all others; before the first table all have one rank, and the order is that of workflows' beginnings.
// Source: Kairos, section 5.
class AgentPriority : public AgentTable {
 public:
  static constexpr std::string_view kName = "agent_priority";

  RankKey Key(const RequestState& r) const { return {ToSeconds(r.request.workflow_arrival)}; }
  RankKey GroupKey(std::uint64_t agent) const { return {Of(agent).rank}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_AGENT_PRIORITY_H_
