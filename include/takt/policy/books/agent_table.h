// Base of policies that rank by agent. Holds the newest table of agents from an Epoch.
#ifndef TAKT_POLICY_BOOKS_AGENT_TABLE_H_
#define TAKT_POLICY_BOOKS_AGENT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "takt/model/agent_ranks.h"
#include "takt/model/event.h"
#include "takt/policy/rank_policy.h"

namespace takt {

// Groups requests by agent, so that a new table costs O(waiting agents), not O(requests).
class AgentTable {
 public:
  std::uint64_t Group(const RequestState& r) const { return r.request.agent.value; }

  void Observe(const Epoch& epoch, TimePoint) {
    if (epoch.agent_ranks == nullptr) return;
    table_ = epoch.agent_ranks;
    moved_.assign(1, kAllGroups);
  }

  void Reserve(std::size_t) { moved_.reserve(1); }
  std::vector<std::uint64_t>& moved_groups() { return moved_; }

 protected:
  // Returns the agent's rank. Before the first table, all agents have the same rank.
  AgentRank Of(std::uint64_t agent) const { return table_ ? table_->Of({agent}) : AgentRank{}; }

 private:
  std::shared_ptr<const AgentRanks> table_;
  std::vector<std::uint64_t> moved_;
};

}  // namespace takt

#endif  // TAKT_POLICY_BOOKS_AGENT_TABLE_H_
