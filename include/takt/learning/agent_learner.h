// Kairos's learning in one class: takes records of calls, returns a table for an Epoch. docs/howto/agent_learner.md
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
  bool wall_clock = false;  // remaining time includes queues and tools
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

  // Returns the current table for an Epoch; null if nothing has changed since the last. If more than a tenth of the
  // agents have changed, all are ranked again; otherwise only those.
  std::shared_ptr<const AgentRanks> Table() {
    const auto agents = profile_.agents();
    std::vector<AgentCurve> changed, all;
    seen_.resize(agents.size());
    bool moved = false;
    for (std::size_t i = 0; i < agents.size(); ++i) {
      const std::pair now{agents[i].remaining.version(), agents[i].execution.version()};
      moved |= now != seen_[i];
      if (agents[i].remaining.count() == 0) continue;  // ranks as the median agent
      all.push_back({agents[i].agent, agents[i].remaining.curve()});
      if (now.first != seen_[i].first) changed.push_back(all.back());
    }
    if (!moved) return nullptr;
    if (10 * changed.size() > all.size()) {
      if (!order_.Fit(all, options_.order)) return nullptr;
    } else {
      for (const AgentCurve& curve : changed) order_.Place(curve);
    }
    for (std::size_t i = 0; i < agents.size(); ++i) {
      seen_[i] = {agents[i].remaining.version(), agents[i].execution.version()};
    }
    auto table = std::make_shared<AgentRanks>();
    const std::vector<std::int32_t> stages = graph_.StagesLeft();
    for (const RankedAgent& ranked : order_.ranked()) {
      const AgentLatency* latency = profile_.Find(ranked.agent);
      const std::uint32_t node = graph_.Find(ranked.agent);
      table->ranks.push_back({ranked.agent, ranked.rank, latency != nullptr ? latency->execution.mode() : 0,
                              node != CallGraph::kThen ? stages[node] : 0});
    }
    table->otherwise = {{}, order_.median(), profile_.all().execution.mode(), 0};
    return table;
  }

  const CallGraph& graph() const { return graph_; }
  const LatencyProfile& profile() const { return profile_; }
  const AgentOrder& order() const { return order_; }

  // Returns the learnt state and the agents' names as text, with version and checksum. Open workflows are not included.
  std::string Save(const AgentNames& names) const;

  // Replaces the learnt state and `names` by saved ones. The bounds of the options and of `names` apply.
  // InvalidArgument names the invalid line and field; then nothing changes.
  absl::Status Load(std::string_view text, AgentNames& names);

 private:
  void TakeOutcomes() {
    graph_.TakeOutcomes([this](const CallOutcome& o) {
      profile_.ObserveRemaining(o.agent, options_.wall_clock ? o.wall_s : o.remaining_s);
    });
  }

  AgentLearnerOptions options_;
  CallGraph graph_;
  LatencyProfile profile_;
  AgentOrder order_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> seen_;  // by agent: versions in the last table
};

}  // namespace takt

#endif  // TAKT_LEARNING_AGENT_LEARNER_H_
