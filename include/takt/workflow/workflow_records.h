// The running workflows, by id and by time of the host's last report.
#ifndef TAKT_WORKFLOW_WORKFLOW_RECORDS_H_
#define TAKT_WORKFLOW_WORKFLOW_RECORDS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "takt/base/age_list.h"
#include "takt/base/id.h"
#include "takt/base/slot_table.h"
#include "takt/base/time.h"
#include "takt/model/workflow.h"
#include "takt/workflow/call_table.h"
#include "takt/workflow/expected_rest.h"
#include "takt/workflow/slo_budget.h"
#include "takt/workflow/stage_graph.h"

namespace takt::internal {

struct WorkflowRecord {
  WorkflowId id;
  TenantId tenant;
  TimePoint arrival{}, deadline = kNever, heard{};
  bool open = false;
  ExpectedRest expected = {};
  StageList stages = {};
  CallList calls = {};
  AgeLink age = {};
};

// Invariant: every record is in by_age_, sorted by WorkflowRecord::heard. Time never goes back.
class WorkflowRecords {
 public:
  WorkflowRecords(std::vector<SloClass> classes, Duration silence)
      : classes_(std::move(classes)), silence_(std::max(silence, Duration(1))) {}

  void Reserve(std::size_t n) { table_.Reserve(n); }
  void KeyHashes(std::uint64_t seed) { table_.KeyHashes(seed); }
  std::size_t size() const { return table_.size(); }
  Slot Find(WorkflowId id) const { return table_.Find(id); }  // slot of the workflow; kNoSlot if it is unknown or over
  WorkflowRecord& operator[](Slot slot) { return table_[slot]; }
  const WorkflowRecord& operator[](Slot slot) const { return table_[slot]; }

  void Clock(TimePoint now) { now_ = std::max(now_, now); }
  TimePoint now() const { return now_; }

  Slot Insert(const Workflow& w) {
    const Slot slot = table_.Insert(w.id);
    WorkflowRecord& r = table_[slot];
    r = {.id = w.id, .tenant = w.tenant, .heard = now_, .open = w.open || w.stages.empty()};
    r.expected = ExpectedRest(w.expected);
    r.arrival = w.arrival == kUnset ? now_ : w.arrival;
    r.deadline = w.deadline == kUnset ? ClassDeadline(w.tenant, r.arrival) : w.deadline;
    by_age_.Append(table_, slot);
    return slot;
  }
  void Erase(Slot slot) {
    by_age_.Remove(table_, slot);
    table_[slot].expected = {};
    table_.Erase(slot, table_[slot].id);
  }

  // Records that the host has reported on the workflow.
  void Touch(Slot slot) {
    table_[slot].heard = now_;
    by_age_.MoveToEnd(table_, slot);
  }
  // Returns a workflow about which no report came for too long; kNoSlot if there is none.
  Slot Silent() const {
    const TimePoint at = silent_at();
    return at != kNever && at <= now_ ? by_age_.oldest() : kNoSlot;
  }
  // Returns the time from which Silent returns a workflow.
  TimePoint silent_at() const {
    if (by_age_.empty() || silence_ == Duration::max()) return kNever;
    return After(table_[by_age_.oldest()].heard, silence_);
  }

 private:
  TimePoint ClassDeadline(TenantId tenant, TimePoint arrival) const {
    for (const SloClass& c : classes_) {
      if (c.tenant == tenant) return c.slo == Duration::max() ? kNever : Later(arrival, ToSeconds(c.slo));
    }
    return kNever;
  }

  std::vector<SloClass> classes_;
  Duration silence_;
  IdTable<WorkflowId, WorkflowRecord> table_;
  AgeList by_age_;
  TimePoint now_ = kUnset;
};

}  // namespace takt::internal

#endif  // TAKT_WORKFLOW_WORKFLOW_RECORDS_H_
