#include "tool/report/schedule_trace.h"

#include <algorithm>

namespace takt::tool {

ScheduleTrace::ScheduleTrace(const Workload& workload, std::size_t requests)
    : workload_(&workload), open_(std::min(requests, workload.calls.size())) {}

void ScheduleTrace::OnStep(const VirtualStep& step) {
  if (finished_ == open_.size()) return;
  for (const Preemption& p : step.plan.preempted) {
    const std::uint32_t request = VirtualRequests::IndexOf(p.request);
    if (request < open_.size()) open_[request].preempted = true;
  }
  Step summary{step.instance, step.start, step.end, static_cast<std::int32_t>(step.rows.size()), 0, 0, step.head};
  for (const PlanEntry& entry : step.plan.run) {
    (entry.prefill() ? summary.prefill_tokens : summary.decode_tokens) += entry.tokens;
    const std::uint32_t request = VirtualRequests::IndexOf(entry.request);
    if (request >= open_.size()) continue;
    const Phase phase = entry.prefill() ? Phase::kPrefill : Phase::kDecode;
    Extend({request, phase, step.start, step.end, entry.tokens, step.instance});
    last_seen_ = std::max(last_seen_, step.end);
  }
  steps_.push_back(summary);
  for (const RowResult& row : step.rows) {
    const std::uint32_t request = VirtualRequests::IndexOf(row.request);
    if (request >= open_.size()) continue;
    // On an instance for prefill, a request finishes with its first token, and again on an instance for decoding.
    open_[request].output += row.tokens;
    if (row.finished() && open_[request].output >= workload_->calls[request].output_tokens) ++finished_;
  }
}

// Adjacent steps on one instance extend one slice. A gap between steps gets a slice of its own.
void ScheduleTrace::Extend(const Slice& next) {
  Open& open = open_[next.request];
  Slice& slice = open.slice;
  if (open.ran && slice.end == next.start && slice.phase == next.phase && slice.instance == next.instance) {
    slice.end = next.end;
    slice.tokens += next.tokens;
    return;
  }
  if (open.ran) {
    slices_.push_back(slice);
    const bool may_call_tools = workload_->calls[next.request].tools > 0;
    const Phase gap = open.preempted ? Phase::kPreempted : may_call_tools ? Phase::kTool : Phase::kHeld;
    if (slice.end < next.start) slices_.push_back({next.request, gap, slice.end, next.start, 0, slice.instance});
  } else {
    open.first_instance = next.instance;
  }
  open.preempted = false;
  open.ran = true;
  slice = next;
}

void ScheduleTrace::Finish(std::span<const RequestRecord> records) {
  for (std::uint32_t request = 0; request < open_.size(); ++request) {
    const RequestRecord& record = records[request];
    const Open& open = open_[request];
    const TimePoint queued_until = record.first_step != kNever ? record.first_step : record.end;
    if (record.arrival != kNever && queued_until != kNever && record.arrival < queued_until) {
      slices_.push_back({request, Phase::kQueued, record.arrival, queued_until, 0, open.first_instance});
    }
    if (!open.ran) continue;
    slices_.push_back(open.slice);
    if (open.preempted && record.end != kNever && open.slice.end < record.end) {
      slices_.push_back({request, Phase::kPreempted, open.slice.end, record.end, 0, open.slice.instance});
    }
  }
  std::stable_sort(slices_.begin(), slices_.end(), [](const Slice& a, const Slice& b) {
    return a.request != b.request ? a.request < b.request : a.start < b.start;
  });
  std::erase_if(steps_, [this](const Step& step) { return step.start >= last_seen_; });
}

}  // namespace takt::tool
