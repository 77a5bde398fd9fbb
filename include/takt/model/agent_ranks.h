// Ranks of agents, learned elsewhere. Policies such as agent_priority order requests by them.
#ifndef TAKT_MODEL_AGENT_RANKS_H_
#define TAKT_MODEL_AGENT_RANKS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "takt/base/id.h"

namespace takt {

struct AgentRank {
  AgentId agent = {};
  double rank = 0;  // rank of the agent; finite; agents of smaller rank run sooner
  double execution_s = 0;  // expected execution time of one call of the agent [s]; 0: unknown
  std::int32_t stages_left = 0;  // number of calls on the longest path from this call to the workflow's end; 0: unknown

  friend constexpr bool operator==(const AgentRank&, const AgentRank&) = default;
};

// The table of agent ranks. It must not change once threads share it.
struct AgentRanks {
  std::vector<AgentRank> ranks = {};  // one rank per agent, sorted by agent
  AgentRank otherwise = {};  // rank of every agent that `ranks` does not contain

  const AgentRank& Of(AgentId agent) const {
    const auto at = std::ranges::lower_bound(ranks, agent, {}, &AgentRank::agent);
    return at != ranks.end() && at->agent == agent ? *at : otherwise;
  }

  friend bool operator==(const AgentRanks&, const AgentRanks&) = default;
};

}  // namespace takt

#endif  // TAKT_MODEL_AGENT_RANKS_H_
