// HexGen-Flow: routes workflows with deadlines to unequal engines, and tunes itself by replays of served workflows.
//
//   auto flow = *systems::HexGenFlow::Create({.cluster = replay});   // replay: the profiles of the engines
//   flow.On(InstanceUp{instance}, now);
//   flow.On(WorkflowDeclared{workflow}, now);
//   flow.On(Arrived{request}, now);
//   for (const Placement& p : flow.Place(now)) { ... }   // send flow.router().Find(p.request)->request to p.instance
//   flow.On(RequestEnded{.request = id, .instance = instance, .served = tokens}, now);
//   if (auto search = flow.Advance(now)) flow.Finished(SearchAlpha(*search), now);   // SearchAlpha: on any thread
#ifndef TAKT_SYSTEMS_HEXGEN_FLOW_H_
#define TAKT_SYSTEMS_HEXGEN_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "takt/placement/any_placement.h"
#include "takt/placement/workload_balance.h"
#include "takt/planning/alpha_tuner.h"
#include "takt/policy/any_policy.h"
#include "takt/policy/urgency.h"
#include "takt/router.h"

namespace takt::systems {

struct HexGenFlowOptions {
  AnyPolicy policy = Urgency{};  // order of calls on each engine and in the router (equations 7 and 8)
  AnyPlacement placement = WorkloadBalance{};  // placement (equations 2 to 4); needs the same stage_times as `router`
  RouterOptions router = {.budgets = BudgetOptions{}};  // router options, with budgets of calls (equations 5 and 6)
  AlphaTunerOptions tuner = {};  // tuning of alpha (section 4.3, equations 9 and 10)
  // Engines and estimates for replays. HexGenFlow sets policy, placement and budgets. None: alpha stays.
  std::optional<ReplayOptions> cluster = {};
  // Maximum ended calls and workflows that wait for Advance, and maximum ended calls of workflows that have not ended.
  // Further ones are not learned. Only the first 512 calls of a workflow are learned.
  std::size_t most_lessons = 65'536;

  // Returns InvalidArgument with every invalid field and its value.
  absl::Status Validate() const;
};

// Source: "HexGen-Flow" (Peng et al., 2025), sections 3 and 4. Thread-compatible. After warm-up, only Advance,
// Finished, Save and Load allocate. The tuner learns from workflows whose calls all ended with `served`.
class HexGenFlow {
 public:
  // InvalidArgument lists all invalid options.
  static absl::StatusOr<HexGenFlow> Create(HexGenFlowOptions options = {});

  ProfileId AddProfile(InstanceProfile profile) { return router_.AddProfile(std::move(profile)); }

  // Applies an event. The host must send WorkflowEnded also for undeclared workflows.
  Ignored On(const RouterEvent& event, TimePoint now);
  // Works like Router::Place.
  std::span<const Placement> Place(TimePoint now);

  // Closes windows that are over. Returns the search to run now, if any. The host passes its result to Finished.
  std::optional<AlphaSearch> Advance(TimePoint now);
  // Sets the placement's alpha. Returns true if alpha has changed.
  bool Finished(const absl::StatusOr<AlphaChoice>& choice, TimePoint now);

  // Policy for the scheduler of each engine.
  const AnyPolicy& policy() const { return policy_; }
  const Router& router() const { return router_; }
  double alpha() const { return tuner_ ? tuner_->alpha() : 0; }
  const AlphaTuner* tuner() const { return tuner_ ? &*tuner_ : nullptr; }  // tuner; null: the options have no cluster
  // Number of ended calls beyond the limits, or without `served`.
  std::int64_t lessons_dropped() const { return dropped_; }

  // Time of the next Place or Advance if no event comes earlier.
  TimePoint wake_at() const;

  // Returns alpha as text, with version and checksum. Load sets alpha from such a text and needs a cluster. On
  // InvalidArgument, nothing changes.
  std::string Save() const;
  absl::Status Load(std::string_view text, TimePoint now);

 private:
  // An ended call, or the end of its workflow.
  struct Lesson {
    enum class What : std::uint8_t { kCall, kEnd, kCancel };
    What what = What::kCall;
    WorkflowId workflow = {};
    TimePoint begin{}, end{};  // begin of the call's wait for an engine or of the workflow, and end
    TimePoint deadline = kNever;  // deadline of the workflow
    TenantId tenant = {};
    std::int32_t priority = 0;
    StageId stage = {};
    Tokens prompt{0}, output{-1};  // tokens of prompt and output; output below 0: unknown
  };

  HexGenFlow(HexGenFlowOptions options, Router router, std::optional<AlphaTuner> tuner);

  void Add(const Lesson& lesson);
  void Learn(const Lesson& end, const std::vector<Lesson>& calls);

  AnyPolicy policy_;
  std::size_t most_lessons_;
  Router router_;
  std::optional<AlphaTuner> tuner_;
  std::vector<Lesson> lessons_;
  std::unordered_map<std::uint64_t, std::vector<Lesson>> open_;  // ended calls of workflows that have not ended
  std::size_t open_calls_ = 0;  // number of calls in open_; at most most_lessons
  std::int64_t dropped_ = 0;
};

}  // namespace takt::systems

#endif  // TAKT_SYSTEMS_HEXGEN_FLOW_H_
