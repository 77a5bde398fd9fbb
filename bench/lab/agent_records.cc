#include "lab/agent_records.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace takt {

void AgentRecords::Tell(std::span<const RequestRecord> records, std::span<const WorkflowRecord> workflows,
                        TimePoint now, AgentLearner& learner) {
  for (std::size_t w = first_; w < workflows.size() && workflows[w].arrival <= now; ++w) {
    if (closed_[w]) {
      if (w == first_) ++first_;
      continue;
    }
    const WorkloadWorkflow& workflow = workload_->workflows[w];
    for (std::uint32_t i = 0; i < workflow.calls; ++i) {
      const std::uint32_t c = workflow.first_call + i;
      const RequestRecord& record = records[c];
      if (told_[c] || record.end > now) continue;
      told_[c] = true;
      AgentId upstream;
      TimePoint latest = TimePoint::min();
      for (const std::uint32_t before : workload_->predecessors_of(workload_->calls[c])) {
        const std::uint32_t p = workflow.first_call + before;
        if (records[p].end > latest) latest = records[p].end, upstream = {workload_->calls[p].agent};
      }
      learner.Add({{w + 1}, {workload_->calls[c].agent}, upstream, record.first_step, record.end}, now);
    }
    if (workflows[w].end > now) continue;
    closed_[w] = true;
    learner.Close({w + 1});
  }
}

void TeachAgents(const Workload& workload, AgentLearner& learner, ReplayOptions& options) {
  options.cluster.control_interval = std::chrono::seconds(1);
  options.cluster.control = [&learner, records = AgentRecords(workload)](
                                TimePoint now, const VirtualRequests& requests,
                                std::span<const WorkflowRecord> workflows) mutable -> std::optional<Epoch> {
    records.Tell(requests.records, workflows, now, learner);
    std::shared_ptr<const AgentRanks> table = learner.Table();
    if (table == nullptr) return std::nullopt;
    return Epoch{.agent_ranks = std::move(table)};
  };
}

}  // namespace takt
