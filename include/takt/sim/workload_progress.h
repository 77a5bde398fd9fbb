// Progress of the workflows of a run: which calls can be made next, and their estimates.
#ifndef TAKT_SIM_WORKLOAD_PROGRESS_H_
#define TAKT_SIM_WORKLOAD_PROGRESS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "takt/base/time.h"
#include "takt/model/request.h"
#include "takt/sim/estimates.h"
#include "takt/sim/metrics.h"
#include "takt/sim/virtual_engine.h"
#include "takt/workload/workload.h"

namespace takt {

// For hosts that replay a workload in virtual or real time. A call is identified by its index in Workload::calls. The
// host handles time and the delays of calls. The host reports when a call is made and how it ends.
//
// With several models, Place must set each call's model once. If a workflow's calls have longer or shorter outputs than
// by default, its later prompts change by the difference. Prompts with prefixes do not change, because their blocks
// have fixed sizes.
//
// A call can be made when its predecessors have completed. Calls with a failed predecessor are never made. All calls
// have their workflow's arrival and deadline. Request i of a run has the id i + 1.
class WorkloadProgress {
 public:
  // `workload` and `records` must outlive this object. The constructor creates one record per call.
  WorkloadProgress(const Workload& workload, EstimateSpec estimates, std::uint64_t seed,
                   std::vector<RequestRecord>& records)
      : workload_(&workload), records_(&records), estimator_(workload, estimates, seed) {
    const std::size_t calls = workload.calls.size();
    records.assign(calls, {});
    workflows_.resize(workload.workflows.size());
    calls_left_.resize(workflows_.size());
    if (!workload.predecessors.empty()) waits_for_.resize(calls);
    if (!workload.models.empty()) {
      model_of_.assign(calls, kMaxWorkloadModels);
      written_more_.resize(workflows_.size());
    }
    for (std::uint32_t w = 0; w < workflows_.size(); ++w) {
      const WorkloadWorkflow& workflow = workload.workflows[w];
      calls_left_[w] = workflow.calls;
      for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
        records[c].workflow = w;
        if (!waits_for_.empty()) waits_for_[c] = workload.calls[c].predecessors;
      }
    }
  }

  static WorkflowId IdOf(std::uint32_t workflow) { return {std::uint64_t{workflow} + 1}; }
  static TimePoint DeadlineOf(const WorkloadWorkflow& workflow, TimePoint arrival) {
    return After(arrival, workflow.deadline);
  }

  // Starts a workflow. Calls ready(call) for each call without predecessors.
  template <class Ready>
  void Start(std::uint32_t index, TimePoint now, Ready ready) {
    const WorkloadWorkflow& workflow = workload_->workflows[index];
    workflows_[index].arrival = now;
    for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
      if (workload_->calls[c].predecessors == 0) ready(c);
    }
  }

  // Makes a call. Returns its request, without prefix.
  Request Make(std::uint32_t index, TimePoint now) {
    const WorkloadCall& call = workload_->calls[index];
    RequestRecord& record = (*records_)[index];
    const WorkloadWorkflow& workflow = workload_->workflows[record.workflow];
    const TimePoint workflow_arrival = workflows_[record.workflow].arrival;
    record.arrival = now;
    Request r;
    r.id = VirtualRequests::IdOf(index);
    r.workflow = IdOf(record.workflow);
    r.stage = {call.stage};
    r.agent = {call.agent};
    r.branch = call.branch;
    r.tenant = {workflow.tenant};
    r.adapter = {call.adapter};
    r.arrival = now;
    r.workflow_arrival = workflow_arrival;
    r.deadline = DeadlineOf(workflow, workflow_arrival);
    r.prompt_tokens = {call.prompt_tokens};
    if (!model_of_.empty() && call.hashes == 0 && call.runs == 0) {
      r.prompt_tokens.value = static_cast<std::int32_t>(
          std::clamp<std::int64_t>(call.prompt_tokens + written_more_[record.workflow], 1, kMaxContextTokens / 2));
    }
    r.priority = workflow.priority;
    estimator_.Describe(record.workflow, index, r);
    return r;
  }

  // Places a call on an engine of this model (a column of the workload, or none), and updates its estimates.
  void Place(std::uint32_t index, std::size_t model, Request& r) {
    if (model_of_.empty()) return;
    model_of_[index] = static_cast<std::uint8_t>(std::min(model, kMaxWorkloadModels));
    estimator_.Describe((*records_)[index].workflow, index, r, model);
  }
  // Returns the column of the model that a call was placed on.
  std::size_t ModelOf(std::uint32_t call) const {
    return model_of_.empty() || model_of_[call] == kMaxWorkloadModels ? Workload::kNoModel : model_of_[call];
  }
  // Returns the call's true output on the model that it was placed on.
  std::int32_t OutputOf(std::uint32_t call) const { return workload_->OutputOf(call, ModelOf(call)); }

  // Ends a call that has completed or failed. Its record contains its output. Calls ready(call) for each call that
  // waited only for this one. Returns true if the call was the last of its workflow.
  template <class Ready>
  bool End(std::uint32_t call, Outcome outcome, FailReason reason, TimePoint now, Ready ready) {
    RequestRecord& record = (*records_)[call];
    record.end = now;
    record.outcome = outcome;
    record.reason = reason;
    ++calls_over_;

    const std::uint32_t index = record.workflow;
    const WorkloadWorkflow& workflow = workload_->workflows[index];
    --calls_left_[index];
    if (outcome == Outcome::kCompleted) {
      estimator_.Ended(index, call, ModelOf(call));
      if (!written_more_.empty()) written_more_[index] += record.output_tokens - workload_->calls[call].output_tokens;
      const std::uint32_t own = call - workflow.first_call;
      for (std::uint32_t c = call + 1; !waits_for_.empty() && c < workflow.first_call + workflow.calls; ++c) {
        const auto before = workload_->predecessors_of(workload_->calls[c]);
        if (std::find(before.begin(), before.end(), own) != before.end() && --waits_for_[c] == 0) ready(c);
      }
    } else {
      workflows_[index].outcome = Outcome::kFailed;
      NeverMake(index);
    }
    if (calls_left_[index] > 0) return false;
    workflows_[index].end = now;
    if (workflows_[index].outcome == Outcome::kPending) workflows_[index].outcome = Outcome::kCompleted;
    return true;
  }

  bool over() const { return calls_over_ == records_->size(); }
  std::size_t calls_over() const { return calls_over_; }  // number of calls that have ended or will never be made
  const std::vector<WorkflowRecord>& workflows() const { return workflows_; }
  Estimator& estimator() { return estimator_; }
  const Estimator& estimator() const { return estimator_; }

 private:
  // Gives up the calls of a workflow that depend on a failed call.
  void NeverMake(std::uint32_t index) {
    const WorkloadWorkflow& workflow = workload_->workflows[index];
    for (std::uint32_t c = workflow.first_call; c < workflow.first_call + workflow.calls; ++c) {
      RequestRecord& record = (*records_)[c];
      if (record.outcome != Outcome::kPending) continue;
      for (const std::uint32_t before : workload_->predecessors_of(workload_->calls[c])) {
        const Outcome outcome = (*records_)[workflow.first_call + before].outcome;
        if (outcome != Outcome::kFailed && outcome != Outcome::kNeverMade) continue;
        record.outcome = Outcome::kNeverMade;
        --calls_left_[index];
        ++calls_over_;
        break;
      }
    }
  }

  const Workload* workload_;
  std::vector<RequestRecord>* records_;
  Estimator estimator_;
  std::vector<WorkflowRecord> workflows_;
  std::vector<std::uint32_t> calls_left_;  // number of unfinished calls by workflow
  std::vector<std::uint32_t> waits_for_;  // number of unfinished predecessors by call; empty if no call has any
  // With several models:
  std::vector<std::uint8_t> model_of_;  // model of each call
  std::vector<std::int64_t> written_more_;  // additional output tokens by workflow
  std::size_t calls_over_ = 0;
};

}  // namespace takt

#endif  // TAKT_SIM_WORKLOAD_PROGRESS_H_
