// Learns ranks of agents from records of calls, as Kairos does, for an Epoch. docs/howto/agent_learner.md
#ifndef TAKT_LEARNING_AGENT_LEARNER_H_
#define TAKT_LEARNING_AGENT_LEARNER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "takt/learning/agent_names.h"
#include "takt/learning/agent_order.h"
#include "takt/learning/call_graph.h"
#include "takt/learning/latency_profile.h"
#include "takt/model/agent_ranks.h"

namespace takt {

struct AgentLearnerOptions {
  CallGraphOptions graph = {};
  LatencyProfileOptions profile = {};
  AgentOrderOptions order = {};
  bool wall_clock = false;  // true: remaining time includes queues and tool calls
  // True: ranks and expected times come only from distributions that have converged (Kairos, section 4.3). If an
  // agent's latencies drift, the agent keeps its last converged rank.
  bool converged_only = false;
};

// Thread-compatible. The host adds each call when it ends, closes workflows when the user has the answer, and asks for
// a table regularly, on any thread. The step loop sees only the Epoch.
class AgentLearner {
 public:
  explicit AgentLearner(const AgentLearnerOptions& options = {})
      : options_(options), graph_(options.graph), profile_(options.profile) {}

  // Adds a record. Returns true if it is kept.
  bool Add(const CallRecord& record, TimePoint now) {
    const bool kept = graph_.Add(record, now);
    if (kept) profile_.ObserveExecution(record.agent, std::max(0.0, ToSeconds(Between(record.start, record.end))));
    TakeOutcomes();
    return kept;
  }
  bool Close(WorkflowId workflow) {
    const bool closed = graph_.Close(workflow);
    TakeOutcomes();
    return closed;
  }

  // Learns nothing from a workflow that was cancelled. Returns false if it is not open.
  bool Forget(WorkflowId workflow) { return graph_.Forget(workflow); }

  // Returns the current table for an Epoch; null if nothing has changed since the last call. If more than a tenth of
  // the agents have changed, all agents are ranked again; otherwise only the changed ones.
  std::shared_ptr<const AgentRanks> Table() {
    const auto agents = profile_.agents();
    std::vector<AgentCurve> changed, all;
    seen_.resize(agents.size());
    bool moved = false;
    for (std::size_t i = 0; i < agents.size(); ++i) {
      const AgentLatency& a = agents[i];
      Seen& seen = seen_[i];
      const bool fresh = Usable(a.remaining) && a.remaining.version() != seen.remaining;
      moved |= fresh || (Usable(a.execution) && a.execution.version() != seen.execution);
      if (fresh) seen.curve = a.remaining.curve(), seen.ranked = true;
      if (!seen.ranked) continue;
      all.push_back({a.agent, seen.curve});
      if (fresh) changed.push_back(all.back());
    }
    if (!moved) return nullptr;
    if (10 * changed.size() > all.size()) {
      order_.Fit(all, options_.order);
    } else {
      for (const AgentCurve& curve : changed) order_.Place(curve);
    }
    for (std::size_t i = 0; i < agents.size(); ++i) {
      seen_[i].remaining = agents[i].remaining.version(), seen_[i].execution = agents[i].execution.version();
    }
    auto table = std::make_shared<AgentRanks>();
    const std::vector<std::int32_t> stages = graph_.StagesLeft();
    const auto add = [&](AgentId agent, double rank) {
      const AgentLatency* latency = profile_.Find(agent);
      const std::uint32_t node = graph_.Find(agent);
      table->ranks.push_back({agent, rank, latency != nullptr ? ExpectedOf(latency->execution) : 0,
                              node != CallGraph::kThen ? stages[node] : 0});
    };
    for (const RankedAgent& ranked : order_.ranked()) add(ranked.agent, ranked.rank);
    for (std::size_t i = 0; i < agents.size(); ++i) {
      if (!seen_[i].ranked && Usable(agents[i].execution)) add(agents[i].agent, order_.median());
    }
    std::ranges::sort(table->ranks, {}, &AgentRank::agent);
    table->otherwise = {{}, order_.median(), ExpectedOf(profile_.all().execution), 0};
    return table;
  }

  const CallGraph& graph() const { return graph_; }
  const LatencyProfile& profile() const { return profile_; }
  const AgentOrder& order() const { return order_; }

  // Returns the learnt state and the agents' names as text, with version and checksum. Open workflows are not included.
  std::string Save(const AgentNames& names) const;

  // Replaces the learnt state and `names` by saved ones. The limits of the options and of `names` apply. On
  // InvalidArgument, which names the invalid line and field, nothing changes.
  absl::Status Load(std::string_view text, AgentNames& names);

 private:
  // State of an agent in the last table.
  struct Seen {
    std::uint64_t remaining = 0, execution = 0;  // versions of the agent's two distributions
    bool ranked = false;
    LatencyDistribution::Curve curve = {};  // distribution from which the agent's rank was computed
  };

  bool Usable(const LatencyDistribution& d) const {
    return d.count() > 0 && (!options_.converged_only || d.converged());
  }
  double ExpectedOf(const LatencyDistribution& d) const { return Usable(d) ? d.mode() : 0; }

  void TakeOutcomes() {
    graph_.TakeOutcomes([this](const CallOutcome& o) {
      profile_.ObserveRemaining(o.agent, options_.wall_clock ? o.wall_s : o.remaining_s);
    });
  }

  AgentLearnerOptions options_;
  CallGraph graph_;
  LatencyProfile profile_;
  AgentOrder order_;
  std::vector<Seen> seen_;  // by agent
};

}  // namespace takt

#endif  // TAKT_LEARNING_AGENT_LEARNER_H_
