// Ranks agents by their learnt remaining work (Kairos).
#ifndef TAKT_POLICY_AGENT_PRIORITY_H_
#define TAKT_POLICY_AGENT_PRIORITY_H_

#include <cstdint>
#include <string_view>

#include "takt/policy/books/agent_table.h"

namespace takt {

// Ranks agents by the table in the newest Epoch (AgentRanks, made by AgentLearner). Requests of one agent are ranked by
// arrival of the workflow. Agents missing in the table share its default rank. Before the first table, the order is
// workflow_fcfs. Source: Kairos, section 5.
class AgentPriority : public AgentTable {
 public:
  static constexpr std::string_view kName = "agent_priority";

  RankKey Key(const RequestState& r) const { return {ToSeconds(r.request.workflow_arrival)}; }
  RankKey GroupKey(std::uint64_t agent) const { return {Of(agent).rank}; }
};

}  // namespace takt

#endif  // TAKT_POLICY_AGENT_PRIORITY_H_
