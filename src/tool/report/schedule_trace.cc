#include "tool/report/schedule_trace.h"

#include <algorithm>

namespace takt::tool {

ScheduleTrace::ScheduleTrace(const Workload& workload, std::size_t requests)
    : workload_(&workload), open_(std::min(requests, workload.calls.size())), instances_(open_.size()) {}

void ScheduleTrace::OnStep(const VirtualStep& step) {
  if (finished_ == open_.size()) return;
  for (const Preemption& p : step.plan.preempted) {
    const std::uint32_t request = VirtualRequests::IndexOf(p.request);
    if (request < open_.size()) open_[request].preempted = true;
  }
  Step summary{step.instance, step.start, step.end, static_cast<std::int32_t>(step.rows.size()), 0, 0};
  for (const PlanEntry& entry : step.plan.run) {
    (entry.prefill() ? summary.prefill_tokens : summary.decode_tokens) += entry.tokens;
    const std::uint32_t request = VirtualRequests::IndexOf(entry.request);
    if (request >= open_.size()) continue;
    Extend(request, entry.prefill() ? Phase::kPrefill : Phase::kDecode, step.start, step.end, entry.tokens);
    instances_[request] = step.instance;
    last_seen_ = std::max(last_seen_, step.end);
  }
  steps_.push_back(summary);
  for (const RowResult& row : step.rows) {
    if (row.finished() && VirtualRequests::IndexOf(row.request) < open_.size()) ++finished_;
  }
}

// Adjacent steps extend one slice. A gap between steps gets a slice of its own.
void ScheduleTrace::Extend(std::uint32_t request, Phase phase, TimePoint start, TimePoint end, std::int64_t tokens) {
  Open& open = open_[request];
  Slice& slice = open.slice;
  if (open.ran && slice.end == start && slice.phase == phase) {
    slice.end = end;
    slice.tokens += tokens;
    return;
  }
  if (open.ran) {
    slices_.push_back(slice);
    const bool may_call_tools = workload_->calls[request].tools > 0;
    const Phase gap = open.preempted ? Phase::kPreempted : may_call_tools ? Phase::kTool : Phase::kHeld;
    if (slice.end < start) slices_.push_back({request, gap, slice.end, start, 0});
  }
  open.preempted = false;
  open.ran = true;
  slice = {request, phase, start, end, tokens};
}

void ScheduleTrace::Finish(std::span<const RequestRecord> records) {
  for (std::uint32_t request = 0; request < open_.size(); ++request) {
    const RequestRecord& record = records[request];
    const TimePoint queued_until = record.first_step != kNever ? record.first_step : record.end;
    if (record.arrival != kNever && queued_until != kNever && record.arrival < queued_until) {
      slices_.push_back({request, Phase::kQueued, record.arrival, queued_until, 0});
    }
    const Open& open = open_[request];
    if (!open.ran) continue;
    slices_.push_back(open.slice);
    if (open.preempted && record.end != kNever && open.slice.end < record.end) {
      slices_.push_back({request, Phase::kPreempted, open.slice.end, record.end, 0});
    }
  }
  std::stable_sort(slices_.begin(), slices_.end(), [](const Slice& a, const Slice& b) {
    return a.request != b.request ? a.request < b.request : a.start < b.start;
  });
  std::erase_if(steps_, [this](const Step& step) { return step.start >= last_seen_; });
}

}  // namespace takt::tool
