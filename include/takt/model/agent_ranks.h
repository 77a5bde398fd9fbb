// The order of agents, as learning hands it to the policies that rank by it.
#ifndef TAKT_MODEL_AGENT_RANKS_H_
#define TAKT_MODEL_AGENT_RANKS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "takt/base/id.h"

namespace takt {

struct AgentRank {
  AgentId agent = {};
  double rank = 0;  // smaller is sooner; finite
  double execution_s = 0;        // expected time that one of its calls runs; 0: not known
  std::int32_t stages_left = 0;  // calls one after another to the end of its workflow, this one included; 0: not known

  friend constexpr bool operator==(const AgentRank&, const AgentRank&) = default;
};

// Immutable once it is shared.
struct AgentRanks {
  std::vector<AgentRank> ranks = {};  // by agent, each once
  AgentRank otherwise = {};  // of agents that are not in it

  const AgentRank& Of(AgentId agent) const {
    const auto at = std::ranges::lower_bound(ranks, agent, {}, &AgentRank::agent);
    return at != ranks.end() && at->agent == agent ? *at : otherwise;
  }

  friend bool operator==(const AgentRanks&, const AgentRanks&) = default;
};

}  // namespace takt

#endif  // TAKT_MODEL_AGENT_RANKS_H_
