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
  double rank = 0;  // a smaller rank runs sooner; finite
  double execution_s = 0;  // expected execution time of one call [s]; 0: unknown
  std::int32_t stages_left = 0;  // calls on the longest path to the end of its workflow, including this one; 0: unknown

  friend constexpr bool operator==(const AgentRank&, const AgentRank&) = default;
};

// Must not change once it is shared between threads.
struct AgentRanks {
  std::vector<AgentRank> ranks = {};  // sorted by agent, without duplicates
  AgentRank otherwise = {};  // rank of every agent that `ranks` does not contain

  const AgentRank& Of(AgentId agent) const {
    const auto at = std::ranges::lower_bound(ranks, agent, {}, &AgentRank::agent);
    return at != ranks.end() && at->agent == agent ? *at : otherwise;
  }

  friend bool operator==(const AgentRanks&, const AgentRanks&) = default;
};

}  // namespace takt

#endif  // TAKT_MODEL_AGENT_RANKS_H_
