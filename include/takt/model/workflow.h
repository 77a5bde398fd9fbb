// A workflow (an agentic program with several LLM calls) as declared by the host, and its faults.
#ifndef TAKT_MODEL_WORKFLOW_H_
#define TAKT_MODEL_WORKFLOW_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "takt/base/id.h"
#include "takt/base/time.h"

namespace takt {

// A stage of a declared graph: parallel calls that start when all stages in `after` have ended. A stage's index is its
// place in the order of declaration, from 0.
struct WorkflowStage {
  StageId stage = {};  // call site, as in Request::stage; several stages of a graph may have the same call site
  std::vector<std::uint32_t> after = {};  // indices of stages that must end before this stage starts
  std::int32_t calls = 1;  // number of parallel calls; at least 1
  double cost_s = 0;  // expected execution time of one call, averaged over the instances [s]; 0: learned per call site
};

// Expected remaining stages of a workflow without a declared graph. The workflow visits each stage at most once, in any
// order. A stage that begins removes the first entry of its call site, and all entries whose `ended_by` is that site.
// For example, the start of the tests removes all expected revisions.
struct ExpectedStages {
  static constexpr std::size_t kMost = 64;  // maximum entries; further entries are ignored

  struct Stage {
    StageId stage = {};
    StageId ended_by = {};  // second call site whose start removes this entry; 0: none
    double cost_s = 0;  // as WorkflowStage::cost_s
  };
  std::vector<Stage> stages = {};
};

// The known part of a workflow's graph of calls.
struct Workflow {
  WorkflowId id = {};  // unique among living workflows; must not be 0
  TenantId tenant = {};  // tenant, which selects the SLO class
  TimePoint arrival = kUnset;  // arrival time of the workflow; kUnset: the time of the event
  TimePoint deadline = kUnset;  // deadline of the whole workflow; kNever: none; kUnset: from the tenant's SLO class
  std::vector<WorkflowStage> stages = {};  // stages of the workflow; empty: the graph is unknown
  std::shared_ptr<const ExpectedStages> expected = {};  // expected stages if `stages` is empty; null: learned stages
  // True: the host may add stages even after all known stages have ended, so only the host ends the workflow. An empty
  // `stages` implies true.
  bool open = false;
};

// The reason why the router rejected input about a workflow. Rejected input has no effect.
struct WorkflowFault {
  enum Kind : std::uint8_t {
    kNone,
    kNoId,  // a workflow or a stage without an id
    kAlive,  // a workflow of this id is already alive
    kUnknown,  // no workflow, or no call, of this id is alive
    kDangling,  // the stage, its predecessor or its successor does not exist
    kCycle,  // the stage depends on itself
    kNoCalls,  // the stage has fewer than one call
    kEnded,  // the stage has already ended
    kTooLate,  // the stage has begun, so a new predecessor is too late
    kTooLarge,  // the workflow would exceed the maximum number of stages
  };

  Kind kind = kNone;
  WorkflowId workflow = {};
  std::uint32_t stage = 0;  // index of the stage
  StageId site = {};

  constexpr explicit operator bool() const { return kind != kNone; }
  friend constexpr bool operator==(const WorkflowFault&, const WorkflowFault&) = default;
};

inline constexpr std::string_view kWorkflowFaultTexts[] = {
    "nothing",
    "has no id",
    "is alive already",
    "is not alive",
    "does not exist, or refers to a stage that does not exist",
    "depends on itself",
    "has no calls",
    "has ended already",
    "has begun already",
    "exceeds the maximum number of stages",
};

// Returns text such as "workflow 7: stage 2 (call site 5) depends on itself".
inline std::string ToText(const WorkflowFault& fault) {
  std::string text = "workflow " + std::to_string(fault.workflow.value);
  const bool of_a_stage =
      fault.kind > WorkflowFault::kUnknown || (fault.kind == WorkflowFault::kNoId && fault.workflow);
  if (of_a_stage) {
    text += ": stage " + std::to_string(fault.stage) + " (call site " + std::to_string(fault.site.value) + ")";
  }
  return text.append(" ").append(kWorkflowFaultTexts[fault.kind]);
}

// How a workflow ended.
struct WorkflowEnd {
  enum How : std::uint8_t {
    kCompleted,  // all its stages have ended, or the host ended it
    kCancelled,
    kSilent,  // the workflow failed because no event came for too long
  };

  WorkflowId workflow = {};
  How how = kCompleted;
  TimePoint arrival{}, end{};
  TimePoint deadline = kNever;
  std::uint32_t stage = 0;  // kSilent: index of the first unfinished stage; the number of stages if all have finished

  friend constexpr bool operator==(const WorkflowEnd&, const WorkflowEnd&) = default;
};

// An SLO class: the default deadline of a tenant's workflows.
struct SloClass {
  TenantId tenant = {};
  Duration slo = Duration::max();  // deadline relative to the arrival; max: none; negative: already missed at arrival
};

}  // namespace takt

#endif  // TAKT_MODEL_WORKFLOW_H_
