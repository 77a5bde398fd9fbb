// A workflow (an agentic program: a graph of LLM calls) as its host describes it, and what can be wrong with that.
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

// A stage of a declared graph: calls that are made in parallel, once all stages before it have ended. Stages of one
// workflow are named by index, counting from 0 in the order of declaration.
struct WorkflowStage {
  StageId stage = {};                     // call site, as its requests bear it; a graph may visit one several times
  std::vector<std::uint32_t> after = {};  // stages that must have ended before
  std::int32_t calls = 1;                 // made in parallel; at least 1
  double cost_s = 0;  // expected time of one call alone, mean over the instances [s]; 0: what was learnt of the site
};

// What usually comes in a workflow whose graph is unknown: a list of stages in any order, each met at most once.
// A stage that begins crosses out the first entry of its call site that is left, and all those that it ends (no more
// revisions are to be expected once the tests have begun).
struct ExpectedStages {
  static constexpr std::size_t kMost = 64;  // what lies beyond is not looked at

  struct Stage {
    StageId stage = {};
    StageId ended_by = {};  // none: only by its own turn
    double cost_s = 0;      // as WorkflowStage::cost_s
  };
  std::vector<Stage> stages = {};
};

// A graph of calls, as far as the host knows it.
struct Workflow {
  WorkflowId id = {};             // unique among the living; zero is refused
  TenantId tenant = {};           // its SLO class
  TimePoint arrival = kUnset;     // kUnset: the time of the event
  TimePoint deadline = kUnset;    // of the whole; kNever: none; kUnset: as its tenant's class says
  std::vector<WorkflowStage> stages = {};  // empty: nothing is known of the graph
  std::shared_ptr<const ExpectedStages> expected = {};  // where there are no stages; null: what was learnt
  // More stages may come after all that are known have ended: it ends when the host says so. Always so without stages.
  bool open = false;
};

// What is wrong with something that was said about a workflow. Nothing has changed then.
struct WorkflowFault {
  enum Kind : std::uint8_t {
    kNone,
    kNoId,  // a workflow or a stage without an id
    kAlive,  // a workflow of this id is alive
    kUnknown,  // no workflow, or no call, of this id is alive
    kDangling,  // the stage, or what it names as its predecessor or successor, is not there
    kCycle,  // the stage waits for itself
    kNoCalls,  // the stage has less than one call
    kEnded,  // the stage has ended already
    kTooLate,  // the stage has begun: nothing can come before it any more
    kTooLarge,  // more stages than a workflow may have
  };

  Kind kind = kNone;
  WorkflowId workflow = {};
  std::uint32_t stage = 0;  // index
  StageId site = {};

  constexpr explicit operator bool() const { return kind != kNone; }
  friend constexpr bool operator==(const WorkflowFault&, const WorkflowFault&) = default;
};

inline constexpr std::string_view kWorkflowFaultTexts[] = {
    "nothing",
    "has no id",
    "is alive already",
    "is not alive",
    "is not there, or names one that is not",
    "waits for itself",
    "has no calls",
    "has ended already",
    "has begun already",
    "is more than a workflow may have",
};

// For people: "workflow 7: stage 2 (call site 5) waits for itself".
inline std::string ToText(const WorkflowFault& fault) {
  std::string text = "workflow " + std::to_string(fault.workflow.value);
  const bool of_a_stage =
      fault.kind > WorkflowFault::kUnknown || (fault.kind == WorkflowFault::kNoId && fault.workflow);
  if (of_a_stage) {
    text += ": stage " + std::to_string(fault.stage) + " (call site " + std::to_string(fault.site.value) + ")";
  }
  return text.append(" ").append(kWorkflowFaultTexts[fault.kind]);
}

// How a workflow went.
struct WorkflowEnd {
  enum How : std::uint8_t {
    kCompleted,  // all its stages have ended, or the host said that it is over
    kCancelled,
    kSilent,  // failed: nothing was heard of it for too long
  };

  WorkflowId workflow = {};
  How how = kCompleted;
  TimePoint arrival{}, end{};
  TimePoint deadline = kNever;
  std::uint32_t stage = 0;  // kSilent: the first stage that had not ended, or the number of stages

  friend constexpr bool operator==(const WorkflowEnd&, const WorkflowEnd&) = default;
};

// A class of service: workflows of a tenant that were declared without a deadline.
struct SloClass {
  TenantId tenant = {};
  Duration slo = Duration::max();  // deadline, from the arrival; max: none. Negative: late from the start
};

}  // namespace takt

#endif  // TAKT_MODEL_WORKFLOW_H_
