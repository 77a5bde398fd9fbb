// Kairos: a router that learns from calls which agents to run first, and packs requests by their KV memory over time.
//
//   auto kairos = *systems::Kairos::Create();
//   kairos.On(InstanceUp{instance}, now);
//   request.agent = kairos.Agent("writer");
//   kairos.On(Arrived{request}, now, kairos.Agent("research"));    // the agent whose answer led to this call
//   for (const Placement& p : kairos.Place(now)) { ... }           // send p.request to p.instance
//   kairos.On(RequestStarted{request.id, instance}, now);          // its first step
//   kairos.On(RequestEnded{request.id, instance}, now);
//   kairos.On(WorkflowEnded{request.workflow}, now);
//   if (auto epoch = kairos.Advance(now)) { ... }                  // pass it to the scheduler of each engine
#ifndef TAKT_SYSTEMS_KAIROS_H_
#define TAKT_SYSTEMS_KAIROS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/learning/agent_learner.h"
#include "takt/learning/agent_names.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/time_slot_packer.h"
#include "takt/policy/agent_priority.h"
#include "takt/policy/any_policy.h"
#include "takt/router.h"

namespace takt::systems {

// The placement of section 6. The decode rate of equation 1 comes from the cost model of each instance. The paper
// rejects thresholds of the used share, which leave KV idle, so only preemptions and a full cache suspend an instance.
inline TimeSlotPacker KairosPacker() {
  TimeSlotPacker packer;
  packer.cost_batch = 128;  // not given in the paper
  packer.danger = packer.recovered = 1;
  return packer;
}

struct KairosOptions {
  // Call graph (section 4.2), distributions (4.3), Wasserstein distances and scaling (5.1). An agent has a rank once
  // the distribution of its remaining latency has converged.
  AgentLearnerOptions learner = {.converged_only = true};
  AnyPolicy policy = AgentPriority{};  // order of waiting requests in the router and on engines (5.2)
  AnyPlacement placement = KairosPacker();  // placement (equations 1 to 3)
  // Set max_outstanding to the engine's maximum batch size, so that requests wait here.
  RouterOptions router = {};
  Duration refresh = std::chrono::seconds(1);  // shortest time between two tables; not given in the paper
  std::size_t most_lessons = 65'536;  // maximum ended calls and workflows that wait for Learn; the rest is not learned

  // Returns InvalidArgument with every invalid field and its value.
  absl::Status Validate() const;
};

// Source: "Kairos", sections 4 to 6. Thread-compatible; Learn may run on another thread than the rest. After warm-up,
// only Learn, TakeLessons, Save and Load allocate. Requests without a workflow are placed, but not learned from.
class Kairos {
 public:
  // An ended call, or the end of its workflow.
  struct Lesson {
    enum class What : std::uint8_t { kCall, kEnd, kCancel };
    What what = What::kCall;
    CallRecord call = {};
  };
  using Lessons = std::vector<Lesson>;

  // InvalidArgument lists all invalid options.
  static absl::StatusOr<Kairos> Create(KairosOptions options = {});

  // Returns the number of an agent's name, for Request::agent.
  AgentId Agent(std::string_view name) { return names_.Intern(name); }
  ProfileId AddProfile(InstanceProfile profile) { return router_.AddProfile(std::move(profile)); }

  // Applies an event. `upstream`, with Arrived: the agent whose answer led to this call; none: the user's question led
  // to it. A call without RequestStarted counts from its placement. The host must send WorkflowEnded also for
  // undeclared workflows.
  Ignored On(const RouterEvent& event, TimePoint now, AgentId upstream = {});

  // Works like Router::Place.
  std::span<const Placement> Place(TimePoint now);

  // Learns from ended calls, and returns a new table for the engines, if any. Combines the next three functions.
  std::optional<Epoch> Advance(TimePoint now);

  // Returns the calls that have ended since the previous TakeLessons. Returns none if `refresh` has not passed.
  std::optional<Lessons> TakeLessons(TimePoint now);
  // Slow: ranks agents. Uses only the learner's data. No other call of Learn, Save or Load may run meanwhile.
  std::optional<Epoch> Learn(const Lessons& lessons, TimePoint now);
  // Gives the table to the router.
  Ignored Publish(const Epoch& epoch, TimePoint now) { return router_.On(epoch, now); }

  // Policy for the scheduler of each engine.
  const AnyPolicy& policy() const { return policy_; }
  const Router& router() const { return router_; }
  const AgentLearner& learner() const { return learner_; }
  const AgentNames& names() const { return names_; }
  std::int64_t lessons_dropped() const { return dropped_; }  // calls dropped because more than most_lessons waited

  // Time of the next Place or Advance if no event comes earlier.
  TimePoint wake_at() const;

  // Save and Load work as in AgentLearner. After Load, the next Advance returns the loaded table.
  std::string Save() const { return learner_.Save(names_); }
  absl::Status Load(std::string_view text);

 private:
  // A living request.
  struct Call {
    AgentId upstream = {};
    TimePoint start = kUnset;  // start of the call's execution; kUnset: the call waits
  };

  Kairos(KairosOptions options, Router router);

  Call& CallAt(Slot slot);
  void Add(const Lesson& lesson);

  AnyPolicy policy_;
  Duration refresh_;
  std::size_t most_lessons_;
  Router router_;
  std::vector<Call> calls_;  // by RequestState::slot
  Lessons lessons_;
  bool loaded_ = false;
  TimePoint next_table_{};
  std::int64_t dropped_ = 0;
  AgentNames names_;
  AgentLearner learner_;  // used only by the thread that calls Learn
};

}  // namespace takt::systems

#endif  // TAKT_SYSTEMS_KAIROS_H_
